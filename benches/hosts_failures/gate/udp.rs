//! Datagrams through the gate.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{LOOK, Shared, To};

/// How much later than others a datagram comes that they overtake, at most.
const OVERTAKEN: Duration = Duration::from_millis(20);

/// What a slow link holds back at most; what is beyond is lost.
const QUEUE: Duration = Duration::from_millis(400);

/// Sockets to the learner, one for each that sends.
#[derive(Default)]
pub(super) struct Clients(Mutex<HashMap<SocketAddr, Arc<Client>>>);

impl Clients {
    /// Has all go on from other ports.
    pub(super) fn forget_all(&self) {
        for (_, client) in self.0.lock().unwrap().drain() {
            client.is_forgotten.store(true, Ordering::Relaxed);
        }
    }
}

struct Client {
    socket: UdpSocket,
    is_forgotten: AtomicBool,
}

/// A datagram on its way: when it is due, its number, and where it goes.
type Due = (Instant, Out, Vec<u8>);

#[derive(Clone)]
enum Out {
    ToLearner(Arc<Client>),
    ToHost(SocketAddr),
}

/// One direction, with the time at which its link is free again.
struct Lane {
    to: To,
    shared: Arc<Shared>,
    out: Sender<Due>,
    free: Instant,
}

impl Lane {
    fn new(to: To, shared: &Arc<Shared>, out: &Sender<Due>) -> Self {
        Self { to, shared: Arc::clone(shared), out: out.clone(), free: Instant::now() }
    }

    fn pass(&mut self, out: &Out, datagram: &[u8]) {
        let way = self.shared.way(self.to);
        if way.is_cut || self.shared.happens(way.lose) {
            return;
        }
        let mut datagram = datagram.to_vec();
        self.shared.damage(&way, &mut datagram);
        let mut due = Instant::now();
        if let Some(bytes_per_s) = way.bytes_per_s {
            self.free = self.free.max(due) + Duration::from_secs_f64(datagram.len() as f64 / bytes_per_s);
            if self.free > due + QUEUE {
                self.free -= Duration::from_secs_f64(datagram.len() as f64 / bytes_per_s);
                return;
            }
            due = self.free;
        }
        due += self.shared.delay(&way);
        if self.shared.happens(way.reorder) {
            due += Duration::from_micros(self.shared.below(OVERTAKEN.as_micros() as u64));
        }
        if self.shared.happens(way.repeat) {
            let _ = self.out.send((due, out.clone(), datagram.clone()));
        }
        let _ = self.out.send((due, out.clone(), datagram));
    }
}

pub(super) fn open(at: SocketAddr, learner: SocketAddr, shared: &Arc<Shared>) -> (Arc<Clients>, Vec<JoinHandle<()>>) {
    let front = Arc::new(UdpSocket::bind(at).unwrap());
    front.set_read_timeout(Some(LOOK)).unwrap();
    let clients = Arc::new(Clients::default());
    let (out, due) = channel();
    let mut threads = Vec::new();
    let (socket, open) = (Arc::clone(&front), Arc::clone(shared));
    threads.push(thread::spawn(move || deliver(&socket, &due, &open)));
    let (list, open) = (Arc::clone(&clients), Arc::clone(shared));
    threads.push(thread::spawn(move || {
        let mut lane = Lane::new(To::Learner, &open, &out);
        let mut buffer = vec![0; 1 << 16];
        while open.is_open() {
            let Ok((n, from)) = front.recv_from(&mut buffer) else { continue };
            let mut clients = list.0.lock().unwrap();
            let client = clients.entry(from).or_insert_with(|| answer(from, learner, &open, &out));
            let client = Arc::clone(client);
            drop(clients);
            lane.pass(&Out::ToLearner(client), &buffer[..n]);
        }
    }));
    (clients, threads)
}

/// A socket for one that sends, with a thread that carries the answers.
fn answer(host: SocketAddr, learner: SocketAddr, shared: &Arc<Shared>, out: &Sender<Due>) -> Arc<Client> {
    let socket = UdpSocket::bind(SocketAddr::new(learner.ip(), 0)).unwrap();
    socket.connect(learner).unwrap();
    socket.set_read_timeout(Some(LOOK)).unwrap();
    let client = Arc::new(Client { socket, is_forgotten: AtomicBool::new(false) });
    let of_thread = Arc::clone(&client);
    let mut lane = Lane::new(To::Host, shared, out);
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while shared.is_open() && !of_thread.is_forgotten.load(Ordering::Relaxed) {
            // It fails while there is no learner at the port.
            let Ok(n) = of_thread.socket.recv(&mut buffer) else { continue };
            lane.pass(&Out::ToHost(host), &buffer[..n]);
        }
    });
    client
}

/// Sends each datagram when it is due.
fn deliver(front: &UdpSocket, arriving: &Receiver<Due>, shared: &Shared) {
    let mut waiting = BinaryHeap::new();
    let mut datagrams = HashMap::new();
    for number in 0_u64.. {
        if !shared.is_open() {
            return;
        }
        let next = waiting.peek().map_or(LOOK, |Reverse((due, _)): &Reverse<(Instant, u64)>| {
            due.saturating_duration_since(Instant::now()).min(LOOK)
        });
        match arriving.recv_timeout(next) {
            Ok((due, out, datagram)) => {
                waiting.push(Reverse((due, number)));
                datagrams.insert(number, (out, datagram));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while waiting.peek().is_some_and(|Reverse((due, _))| *due <= Instant::now()) {
            let Some(Reverse((_, number))) = waiting.pop() else { return };
            let sent = match datagrams.remove(&number) {
                Some((Out::ToLearner(client), datagram)) => client.socket.send(&datagram),
                Some((Out::ToHost(host), datagram)) => front.send_to(&datagram, host),
                None => Ok(0),
            };
            // As on any network, nothing tells of a datagram that does not arrive.
            drop(sent);
        }
    }
}
