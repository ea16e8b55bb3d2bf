//! Streams through the gate.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{LOOK, Shared, To};
use crate::pause;

/// Bytes that are read at a time, and pieces that wait between reading and writing.
const PIECE: usize = 8 << 10;
const PIECES: usize = 256;

/// The connections that there are.
#[derive(Default)]
pub(super) struct Connections(Mutex<Vec<Arc<Connection>>>);

impl Connections {
    /// Closes all of them, with what has arrived unread, so that the system resets them.
    pub(super) fn close_all(&self) {
        self.0.lock().unwrap().drain(..).for_each(|connection| connection.close());
    }
}

struct Connection {
    host: TcpStream,
    learner: TcpStream,
    is_closed: AtomicBool,
    passed: AtomicU64,
    /// Where in `reset_after` it is reset.
    share: f64,
}

impl Connection {
    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let _ = self.host.shutdown(Shutdown::Both);
        let _ = self.learner.shutdown(Shutdown::Both);
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

pub(super) fn open(at: SocketAddr, learner: SocketAddr, shared: &Arc<Shared>) -> (Arc<Connections>, JoinHandle<()>) {
    let listener = TcpListener::bind(at).unwrap();
    listener.set_nonblocking(true).unwrap();
    let connections = Arc::new(Connections::default());
    let (list, shared) = (Arc::clone(&connections), Arc::clone(shared));
    let accept = move || {
        while shared.is_open() {
            let Ok((host, _)) = listener.accept() else {
                pause(Duration::from_millis(5));
                continue;
            };
            // Without a learner, the host's connection ends at once.
            let Ok(learner) = TcpStream::connect(learner) else { continue };
            let share = shared.below(1 << 20) as f64 / f64::from(1 << 20);
            let (is_closed, passed) = (AtomicBool::new(false), AtomicU64::new(0));
            let connection = Arc::new(Connection { host, learner, is_closed, passed, share });
            list.0.lock().unwrap().push(Arc::clone(&connection));
            for to in [To::Learner, To::Host] {
                carry(&connection, &shared, to);
            }
        }
    };
    (connections, thread::spawn(accept))
}

/// Starts the threads of one direction, which end with the connection.
fn carry(connection: &Arc<Connection>, shared: &Arc<Shared>, to: To) {
    let (from, into) = match to {
        To::Learner => (&connection.host, &connection.learner),
        To::Host => (&connection.learner, &connection.host),
    };
    let (from, into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
    let _ = from.set_nonblocking(false);
    from.set_read_timeout(Some(LOOK)).unwrap();
    let _ = into.set_nodelay(true);
    let (pieces, read) = sync_channel(PIECES);
    let (of_reader, reads) = (Arc::clone(connection), Arc::clone(shared));
    thread::spawn(move || {
        receive(from, &pieces, &of_reader, &reads, to);
        // What has been read is written before the connection is closed, unless it was reset.
    });
    let (connection, shared) = (Arc::clone(connection), Arc::clone(shared));
    thread::spawn(move || {
        send(into, &read, &connection, &shared, to);
        connection.close();
    });
}

fn receive(
    mut from: TcpStream,
    pieces: &SyncSender<(Instant, Vec<u8>)>,
    connection: &Connection,
    shared: &Shared,
    to: To,
) {
    while !connection.is_closed() {
        let way = shared.way(to);
        if way.is_cut {
            // What is sent meanwhile waits in the buffers of the system.
            pause(Duration::from_millis(5));
            continue;
        }
        let mut piece = vec![0; PIECE];
        let n = match from.read(&mut piece) {
            Ok(0) => return,
            Ok(n) => n,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => return,
        };
        piece.truncate(n);
        shared.damage(&way, &mut piece);
        if pieces.send((Instant::now() + shared.delay(&way), piece)).is_err() {
            return;
        }
    }
}

fn send(mut into: TcpStream, pieces: &Receiver<(Instant, Vec<u8>)>, connection: &Connection, shared: &Shared, to: To) {
    let mut free = Instant::now();
    while !connection.is_closed() {
        let (due, piece) = match pieces.recv_timeout(LOOK) {
            Ok(piece) => piece,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        free = free.max(due);
        while !connection.is_closed() && (shared.way(to).is_cut || Instant::now() < free) {
            pause(free.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), LOOK));
        }
        if let Some(bytes_per_s) = shared.way(to).bytes_per_s {
            free = Instant::now() + Duration::from_secs_f64(piece.len() as f64 / bytes_per_s);
        }
        if connection.is_closed() || into.write_all(&piece).is_err() {
            return;
        }
        let passed = connection.passed.fetch_add(piece.len() as u64, Ordering::Relaxed);
        let reset_after = shared.weather.lock().unwrap().reset_after;
        if reset_after.is_some_and(|bytes| passed as f64 > bytes as f64 * (1.0 + connection.share)) {
            shared.resets.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
}
