//! A toll-gate: what hosts reach in the place of the learner, and which does to their bytes what networks do.

#[path = "gate/tcp.rs"]
mod tcp;
#[path = "gate/udp.rs"]
mod udp;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pronk::Rng;

/// How long a thread of the gate waits before it looks whether the gate is still open.
const LOOK: Duration = Duration::from_millis(20);

/// What happens in one direction. The default is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// Nothing gets through. Over TCP it arrives later, as what is sent again after a cut does.
    pub(crate) is_cut: bool,
    /// How late everything is, and how much later than that at most.
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    /// Shares of the datagrams. TCP mends these itself.
    pub(crate) lose: f64,
    pub(crate) reorder: f64,
    pub(crate) repeat: f64,
    /// The share of the datagrams, or of the pieces of a stream, in which one bit is wrong.
    pub(crate) damage: f64,
    pub(crate) bytes_per_s: Option<f64>,
}

/// What happens at the gate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) to_learner: Way,
    pub(crate) to_host: Way,
    /// Connections are reset after so many bytes, and up to as many more.
    pub(crate) reset_after: Option<u64>,
}

impl Weather {
    /// The same in both directions.
    pub(crate) fn both(way: Way) -> Self {
        Self { to_learner: way, to_host: way, reset_after: None }
    }

    pub(crate) fn cut() -> Self {
        Self::both(Way { is_cut: true, ..Way::default() })
    }

    fn way(&self, to: To) -> Way {
        match to {
            To::Learner => self.to_learner,
            To::Host => self.to_host,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Learner,
    Host,
}

/// What the threads of a gate share.
struct Shared {
    weather: Mutex<Weather>,
    is_open: AtomicBool,
    /// Bits that are wrong, connections that were reset.
    damaged: AtomicU64,
    resets: AtomicU64,
    rng: Mutex<Rng>,
}

impl Shared {
    fn way(&self, to: To) -> Way {
        self.weather.lock().unwrap().way(to)
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Whether something happens that happens to a share of `chance`.
    fn happens(&self, chance: f64) -> bool {
        chance > 0.0 && self.rng.lock().unwrap().next_f64() < chance
    }

    fn below(&self, n: u64) -> u64 {
        self.rng.lock().unwrap().below(n.max(1))
    }

    fn delay(&self, way: &Way) -> Duration {
        way.delay + Duration::from_micros(self.below(way.jitter.as_micros() as u64 + 1))
    }

    /// Turns a bit over, if it is to happen.
    fn damage(&self, way: &Way, bytes: &mut [u8]) {
        if self.happens(way.damage) && !bytes.is_empty() {
            let bit = self.below(8 * bytes.len() as u64);
            bytes[bit as usize / 8] ^= 1 << (bit % 8);
            self.damaged.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The gate, until it is dropped.
pub(crate) struct Gate {
    shared: Arc<Shared>,
    kind: Kind,
    threads: Vec<JoinHandle<()>>,
}

enum Kind {
    Tcp(Arc<tcp::Connections>),
    Udp(Arc<udp::Clients>),
}

impl Gate {
    /// Opens a gate at `at` before the learner at `learner`; for datagrams if `is_udp`.
    pub(crate) fn open(at: SocketAddr, learner: SocketAddr, is_udp: bool, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            weather: Mutex::default(),
            is_open: AtomicBool::new(true),
            damaged: AtomicU64::new(0),
            resets: AtomicU64::new(0),
            rng: Mutex::new(Rng::seed_from(seed)),
        });
        let (kind, threads) = if is_udp {
            let (clients, threads) = udp::open(at, learner, &shared);
            (Kind::Udp(clients), threads)
        } else {
            let (connections, thread) = tcp::open(at, learner, &shared);
            (Kind::Tcp(connections), vec![thread])
        };
        Self { shared, kind, threads }
    }

    pub(crate) fn set(&self, weather: Weather) {
        *self.shared.weather.lock().unwrap() = weather;
    }

    /// Resets all connections. Datagrams go on from another port, as behind a router that has forgotten who
    /// sent them.
    pub(crate) fn reset(&self) {
        match &self.kind {
            Kind::Tcp(connections) => connections.close_all(),
            Kind::Udp(clients) => clients.forget_all(),
        }
        self.shared.resets.fetch_add(1, Ordering::Relaxed);
    }

    /// How many bits it has turned over.
    pub(crate) fn damaged(&self) -> u64 {
        self.shared.damaged.load(Ordering::Relaxed)
    }

    /// How often connections were reset.
    pub(crate) fn resets(&self) -> u64 {
        self.shared.resets.load(Ordering::Relaxed)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.is_open.store(false, Ordering::Relaxed);
        self.reset();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
