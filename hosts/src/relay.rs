//! [`Relay`]: passes weights on, so that the learner sends each version once to many hosts.

mod counts;
mod serve;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use crate::link::{Desk, Dial, Limits, LinkError, Listen, Listening, Op, Request};
use crate::sync::Arc;
use crate::sync::channel::{Sender, bounded};
use crate::sync::thread::{self, JoinHandle};
use crate::wire::{WeightsRequest, open};
pub use counts::RelayStatus;

use counts::Counts;
use serve::{Asked, Fetched, Serve, fetch};

/// Requests that wait for the relay.
const MAX_ASKED: usize = 1024;

/// The longest request for weights.
const REQUEST_BYTES: usize = 4096;

/// Keeps the newest weights of a run for hosts that are nearer to it than to the learner.
///
/// Hosts join the learner and ship fragments to it; only weights come through the relay, which fetches each
/// version once. It needs no environment and no settings of the run. A host whose relay does not answer asks
/// the learner. A relay may get its weights from another one.
///
/// Dropping it closes its listening end.
///
/// ```
/// use pronk_hosts::{MemoryNetwork, Relay};
///
/// let (of_the_learner, of_the_relay) = (MemoryNetwork::new(), MemoryNetwork::new());
/// let to_the_learner = Box::new(of_the_learner.dial("relay"));
/// let relay = Relay::open(Box::new(of_the_relay.listen()), to_the_learner, 32)?;
/// assert_eq!(relay.status().versions, 0);
/// # Ok::<(), pronk_hosts::RelayError>(())
/// ```
pub struct Relay {
    listening: Option<Box<dyn Listening>>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
    /// Closes when the thread is to end.
    open: Option<Sender<()>>,
}

/// Why there is no relay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// An address that cannot be used.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// There is no thread for it.
    #[error("the thread of the relay cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl Relay {
    /// Listens for up to `max_hosts` hosts, and fetches from the learner at `from`, or from another relay.
    ///
    /// # Errors
    /// An address that cannot be used, or no thread.
    pub fn open(listen: Box<dyn Listen>, from: Box<dyn Dial>, max_hosts: usize) -> Result<Self, RelayError> {
        let link = from.dial()?;
        let counts = Arc::new(Counts::default());
        let (open, closed) = bounded(0);
        let (asked, requests) = bounded(MAX_ASKED);
        let (want, wanted) = bounded(1);
        let (done, fetched) = bounded::<Fetched>(1);
        // Ends with `want`, after its last question at the latest.
        let of_fetch = Arc::clone(&counts);
        spawn("relay-fetch", move || fetch(&*from, link, &wanted, &done, &of_fetch))?;
        let serve = Serve::new(want, Arc::clone(&counts));
        let thread = Some(spawn("relay", move || serve.run(&requests, &fetched, &closed))?);
        let mut relay = Self { listening: None, counts, thread, open: Some(open) };
        let limits = Limits { hosts: max_hosts, request_bytes: REQUEST_BYTES };
        relay.listening = Some(listen.listen(Arc::new(RelayDesk { asked }), limits)?);
        Ok(relay)
    }

    /// Where hosts reach it.
    pub fn address(&self) -> String {
        self.listening.as_ref().map(|listening| listening.address()).unwrap_or_default()
    }

    /// What it has done so far.
    pub fn status(&self) -> RelayStatus {
        self.counts.read()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.listening = None;
        self.open = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where the requests of hosts arrive.
struct RelayDesk {
    asked: Sender<Asked>,
}

impl Desk for RelayDesk {
    fn accept(&self, request: Request) {
        let Request { op, from, bytes, reply } = request;
        match (op, open::<WeightsRequest>(&bytes)) {
            // A full channel drops the reply, so that the host asks the learner.
            (Op::Weights, Ok((request, _))) => drop(self.asked.try_send(Asked { request, reply })),
            (Op::Weights, Err(error)) => tracing::debug!(host = &*from, "not read: {error}"),
            _ => tracing::debug!(host = &*from, "a relay has weights only: this host takes it for the learner"),
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(body)
}
