//! The connections: a task each, with a deadline, and bounded in number.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::http;

/// Deadline of a connection.
pub(super) const DEADLINE: Duration = Duration::from_secs(4);

/// Concurrent connections; further ones wait to be accepted.
pub(super) const MAX_CONNECTIONS: usize = 64;

/// Pause after a failed accept, for example at the limit of open files.
const BREATH: Duration = Duration::from_millis(100);

/// Serves the newest metrics to every client, for as long as it is polled.
pub(super) async fn accept(listener: TcpListener, newest: watch::Receiver<Arc<str>>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let newest = newest.clone();
                tokio::spawn(async move {
                    // A slow or disconnected client gets no response and affects no other.
                    let _ = timeout(DEADLINE, converse(stream, newest)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection for metrics could not be accepted");
                sleep(BREATH).await;
            }
        }
    }
}

async fn converse(mut stream: TcpStream, newest: watch::Receiver<Arc<str>>) -> io::Result<()> {
    let mut request = Vec::with_capacity(1024);
    let response = loop {
        let metrics = Arc::clone(&newest.borrow());
        if let Some(response) = http::response(&request, &metrics) {
            break response;
        }
        if stream.read_buf(&mut request).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    stream.write_all(&response).await?;
    stream.shutdown().await?;
    // Drains what the client still sends; otherwise the system resets the connection and the response may be
    // lost.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}
