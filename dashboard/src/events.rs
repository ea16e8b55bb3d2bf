//! Server-sent events: the versions of what has changed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{sleep, timeout};

use crate::board::Board;

/// The least time between two events of a stream.
const PAUSE: Duration = Duration::from_millis(500);

/// A comment after so much silence keeps proxies from closing the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Keeps nginx from collecting events before it passes them on.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// One browser that listens.
struct Listener {
    board: Arc<Board>,
    newest: watch::Receiver<u64>,
    /// The newest version that it has been sent; `None` at first.
    sent: Option<u64>,
    is_paused: bool,
    _place: OwnedSemaphorePermit,
}

/// A stream of versions: those of everything, and then of what has changed. It is written as fast as it is
/// read; what comes meanwhile is in one event.
pub(crate) fn events(board: Arc<Board>, place: OwnedSemaphorePermit) -> Response {
    let newest = board.subscribe();
    let listener = Listener { board, newest, sent: None, is_paused: false, _place: place };
    let stream = unfold(listener, |mut listener| async {
        let text = listener.next().await?;
        Some((Ok::<_, Infallible>(text), listener))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (UNBUFFERED, "no")];
    (headers, Body::from_stream(stream)).into_response()
}

impl Listener {
    /// The next event or comment; `None` once the board is gone.
    async fn next(&mut self) -> Option<Bytes> {
        if self.sent.is_some() {
            if std::mem::take(&mut self.is_paused) {
                sleep(PAUSE).await;
            }
            match timeout(KEEP_ALIVE, self.newest.changed()).await {
                Ok(changed) => changed.ok()?,
                Err(_) => return Some(Bytes::from_static(b": keep-alive\n\n")),
            }
        }
        self.newest.mark_unchanged();
        let versions = self.board.versions_after(self.sent.unwrap_or(0));
        self.sent = Some(versions.newest);
        self.is_paused = true;
        let data = serde_json::to_string(&versions).ok()?;
        Some(format!("event: versions\ndata: {data}\n\n").into())
    }
}
