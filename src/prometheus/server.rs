//! The connections: each is a task of its own, has a deadline, and takes one of a bounded number of places.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::http;

/// How long a client may take from its connection to its end.
pub(super) const DEADLINE: Duration = Duration::from_secs(4);

/// How many connections there are at once; more wait to be accepted.
pub(super) const MAX_CONNECTIONS: usize = 64;

/// How long nothing is accepted after the system had no socket for a connection.
const BREATH: Duration = Duration::from_millis(100);

/// Answers whoever connects with what is newest, for as long as it is polled.
pub(super) async fn accept(listener: TcpListener, newest: watch::Receiver<Arc<str>>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // The places are never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let newest = newest.clone();
                tokio::spawn(async move {
                    // A client that is slow or gone is its own affair: it gets no answer, and nobody else
                    // notices.
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
    let answer = match read_head(&mut stream).await? {
        Head::Complete(head) => {
            let text = Arc::clone(&newest.borrow());
            http::answer(&head, &text)
        }
        Head::TooLong => http::too_long(),
    };
    stream.write_all(&answer).await?;
    stream.shutdown().await?;
    // What the client still sends is read, or the system would reset the connection and the answer might not
    // arrive.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}

enum Head {
    Complete(Vec<u8>),
    TooLong,
}

async fn read_head(stream: &mut TcpStream) -> io::Result<Head> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if let Some(end) = http::head_end(&bytes) {
            bytes.truncate(end);
            return Ok(if end > http::HEAD_LIMIT_BYTES { Head::TooLong } else { Head::Complete(bytes) });
        }
        if bytes.len() > http::HEAD_LIMIT_BYTES {
            return Ok(Head::TooLong);
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
