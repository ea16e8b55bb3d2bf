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

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    /// To send the head of a request, also of the next one of a connection.
    request: Duration,
    /// To read anything of an answer.
    write: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { request: Duration::from_secs(15), write: Duration::from_secs(20) }
    }
}

/// The maximal length of a request's head; that of a page's own requests is below 4 KiB.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Pause after a failed accept, for example at the limit of open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Answers every client, for as long as it is polled.
pub(crate) async fn accept(listener: TcpListener, router: Router, deadlines: Deadlines) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    converse(stream, router, deadlines).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection for the page could not be accepted");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, router: Router, deadlines: Deadlines) {
    // Events are small and should come at once; without it they only come later.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(deadlines.write));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(deadlines.request).max_buf_size(MAX_HEAD_BYTES);
    let service = TowerToHyperService::new(router);
    // A client that is slow or gone affects no other.
    if let Err(error) = http.serve_connection(TokioIo::new(Box::pin(stream)), service).await {
        tracing::debug!(%error, "a connection for the page has ended");
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use axum::body::{Body, Bytes};
    use axum::routing::get;
    use futures_util::stream::repeat_with;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(600);

    /// A client of a server with these deadlines, of which the second says when an endless answer has ended.
    async fn client(deadlines: Deadlines) -> (TcpStream, oneshot::Receiver<()>) {
        let (ends, ended) = oneshot::channel::<()>();
        let ends = Arc::new(Mutex::new(Some(ends)));
        let endless = move || {
            // Dropped with the answer.
            let ends = ends.lock().unwrap().take();
            let chunk = move || {
                let _ends = &ends;
                Ok::<_, Infallible>(Bytes::from_static(&[0; 1 << 16]))
            };
            std::future::ready(Body::from_stream(repeat_with(chunk)))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, Router::new().route("/", get(endless)), deadlines));
        (TcpStream::connect(addr).await.unwrap(), ended)
    }

    #[tokio::test]
    async fn a_client_that_does_not_end_its_request_loses_its_connection() {
        for sent in ["", "GET / HTTP/1.1\r\nHost: "] {
            let (mut client, _ended) = client(Deadlines { request: SHORT, write: LONG }).await;
            client.write_all(sent.as_bytes()).await.unwrap();
            let end = timeout(Duration::from_secs(60), client.read_to_end(&mut Vec::new())).await;
            end.expect("the connection has ended").unwrap();
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_loses_its_connection() {
        let (mut client, ended) = client(Deadlines { request: LONG, write: SHORT }).await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let end = timeout(Duration::from_secs(60), ended).await;
        end.expect("the answer has ended").unwrap_err();
    }
}
