//! Opens and closes zenoh sessions, and the threads that calls into zenoh run on.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use pronk_hosts::LinkError;
use serde_json::Value;
use tokio::runtime::{Builder, Handle, Runtime};
use zenoh::{Config, Session, Wait as _};

use crate::address::Address;

/// How long closing may take before it goes on behind the caller's back.
const CLOSING: Duration = Duration::from_secs(3);

/// Threads for calls that block, as many as are needed at a time up to a bound.
pub(crate) struct Threads(Option<Runtime>);

impl Threads {
    pub(crate) fn new(name: &str, bound: usize) -> Result<Self, String> {
        // Zenoh refuses to run under tokio's scheduler of one thread, although none of its tasks runs here.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(bound.max(1))
            .thread_name(name)
            .build()
            .map_err(|e| format!("no threads: {e}"))?;
        Ok(Self(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Opens a session. Zenoh panics where the calling thread belongs to a runtime that it does not like, so this
/// takes a thread of its own.
pub(crate) fn open(address: &Address, settings: &Value) -> Result<Session, LinkError> {
    let refuse = |reason: String| LinkError { address: address.to_string(), reason };
    let config = Config::from_json5(&settings.to_string()).map_err(|e| refuse(e.to_string()))?;
    let opened = thread::Builder::new()
        .name("hosts-open".into())
        .spawn(move || zenoh::open(config).wait())
        .map_err(|e| refuse(e.to_string()))?
        .join();
    match opened {
        Ok(Ok(session)) => Ok(session),
        Ok(Err(e)) => Err(refuse(readable(&e.to_string()))),
        Err(_) => Err(refuse("zenoh panicked while opening the session".into())),
    }
}

/// Runs `before` and closes the sessions, and waits for it a while.
pub(crate) fn close(sessions: Vec<Session>, before: impl FnOnce() + Send + 'static) {
    let (done, closed) = sync_channel::<()>(1);
    let closing = thread::Builder::new().name("hosts-close".into()).spawn(move || {
        before();
        for session in &sessions {
            if let Err(e) = session.close().wait() {
                tracing::debug!("a session did not close in order: {e}");
            }
        }
        drop(done);
    });
    if closing.is_ok() && closed.recv_timeout(CLOSING) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!("closing a link takes longer than {} s; it goes on in the background", CLOSING.as_secs());
    }
}

/// What zenoh says, without the places in its source.
fn readable(error: &str) -> String {
    let words = error.split(' ').filter(|word| *word != "at" && !word.contains(".rs:"));
    words.collect::<Vec<_>>().join(" ").trim_end_matches(['.', ' ']).to_owned()
}

/// Bytes as one piece, with one copy if they came in several.
pub(crate) fn in_one_piece(bytes: &zenoh::bytes::ZBytes) -> pronk_hosts::Bytes {
    bytes.to_bytes().into_owned().into()
}
