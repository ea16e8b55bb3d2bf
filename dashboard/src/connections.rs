//! The connections: a task each, bounded in number, and ended if the other side neither asks nor reads.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_io_timeout::TimeoutStream;

/// Concurrent connections; further ones wait to be accepted. A browser opens six at most.
const MAX_CONNECTIONS: usize = 256;

/// How long a request may take to come, also the next one of a connection.
const REQUEST_DEADLINE: Duration = Duration::from_secs(15);

/// How long the other side may read nothing of an answer.
const WRITE_DEADLINE: Duration = Duration::from_secs(20);

/// The maximal length of a request's head; that of a page's own requests is below 4 KiB.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Pause after a failed accept, for example at the limit of open files.
const BREATH: Duration = Duration::from_millis(100);

/// Answers every client, for as long as it is polled.
pub(crate) async fn accept(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    converse(stream, router).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection for the page could not be accepted");
                sleep(BREATH).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, router: Router) {
    // Events are small and should come at once; without it they only come later.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_DEADLINE));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(REQUEST_DEADLINE).max_buf_size(MAX_HEAD_BYTES);
    let service = TowerToHyperService::new(router);
    // A client that is slow or gone affects no other.
    if let Err(error) = http.serve_connection(TokioIo::new(Box::pin(stream)), service).await {
        tracing::debug!(%error, "a connection for the page has ended");
    }
}
