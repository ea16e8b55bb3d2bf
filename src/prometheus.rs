//! The endpoint that Prometheus scrapes: the newest result as metrics, served by one thread.

mod figures;
mod http;
mod server;
mod text;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use pronk_metrics::{ClockReader, ReportError, Reporter, ResultDict, StateClock, thread_states};
use tokio::sync::watch;

use figures::Families;

/// A reporter that serves the newest result to [Prometheus](https://prometheus.io) at `GET /metrics`, as
/// OpenMetrics text.
///
/// Exports every number of the result once, except those in lists. Numbers that only grow are counters
/// (`pronk_steps_sampled_total`), the others gauges (`pronk_episode_return_mean`). These have labels:
///
/// | metric | labels |
/// |---|---|
/// | `pronk_thread_state_seconds_total` | `thread`, `state` |
/// | `pronk_steps_total` | `fate` (`trained`, `dropped`, `lost`), `unit` (`env`, `agent`), and `reason` unless trained |
/// | `pronk_steps_sampled_total`, `pronk_steps_trained_passes_total`, `pronk_steps_in_flight` | `unit` |
/// | `pronk_learner` | `policy`, `stat` |
/// | `pronk_policy_return_min`, `…_mean`, `…_max` | `policy` |
///
/// Times are in seconds. Null figures are omitted, and so are those that `rate()` of a counter gives, such as
/// shares of an iteration.
///
/// A thread named `prometheus` serves, so scrapes and trainer never block each other. It ends when the
/// reporter is finished or dropped.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpStream;
///
/// use pronk::{Prometheus, Reporter, ResultDict};
///
/// let mut prometheus = Prometheus::bind("127.0.0.1:0")?; // a free port
/// let mut result = ResultDict::new();
/// result.set("episode_return_mean", 187.25);
/// prometheus.report(&result)?;
///
/// let mut scrape = TcpStream::connect(prometheus.addr())?;
/// scrape.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
/// let mut answer = String::new();
/// scrape.read_to_string(&mut answer)?;
/// assert!(answer.contains("\npronk_episode_return_mean 187.25\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Prometheus {
    addr: SocketAddr,
    clock: ClockReader,
    /// Dropping the sender ends the thread.
    serving: Option<(watch::Sender<Arc<str>>, JoinHandle<()>)>,
}

impl Prometheus {
    /// The usual address: this machine only, on the customary port of exporters.
    pub const DEFAULT_ADDRESS: &'static str = "127.0.0.1:9464";

    /// Serves at `address`, such as [`DEFAULT_ADDRESS`](Self::DEFAULT_ADDRESS); port 0 is any free one.
    ///
    /// There is no authentication or encryption: whoever can reach the address can read the figures. The
    /// default is reachable from this machine only; `0.0.0.0:9464` opens it to the network.
    ///
    /// # Errors
    /// The address is invalid, its port is in use, or the system refuses the socket or the thread.
    pub fn bind(address: &str) -> Result<Prometheus, PrometheusError> {
        let refused = |source| PrometheusError::new(address, source);
        let listener = TcpListener::bind(address).map_err(refused)?;
        let addr = listener.local_addr().map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;

        let clock = StateClock::new(THREAD, PrometheusState::Serving);
        let reader = clock.reader();
        let runtime = runtime(clock).map_err(|source| PrometheusError::Thread { source })?;
        let text = Families::of(&ResultDict::new()).into_text();
        let (sender, newest) = watch::channel(Arc::from(text));
        let entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(refused)?;
        drop(entered);
        let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            let mut closing = newest.clone();
            runtime.spawn(server::accept(listener, newest));
            // Fails once the reporter has dropped its end; the runtime is dropped next, with all connections.
            let _ = runtime.block_on(closing.wait_for(|_| false));
        });
        let thread = thread.map_err(|source| PrometheusError::Thread { source })?;
        Ok(Prometheus { addr, clock: reader, serving: Some((sender, thread)) })
    }

    /// The address served, with the actual port if 0 was requested.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The response to what a client has sent so far, as the thread gives it, for a server of your own;
    /// `None` while the head of the request is incomplete. `metrics` is what it is to read at `/metrics`.
    ///
    /// ```
    /// use pronk::Prometheus;
    ///
    /// let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    /// assert_eq!(Prometheus::response(&request[..9], ""), None);
    /// let response = Prometheus::response(request, "# EOF\n").unwrap_or_default();
    /// assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n") && response.ends_with(b"\r\n\r\n# EOF\n"));
    /// ```
    pub fn response(request: &[u8], metrics: &str) -> Option<Vec<u8>> {
        http::response(request, metrics)
    }

    /// Ends the thread. `false` if it has panicked.
    fn close(&mut self) -> bool {
        let Some((sender, thread)) = self.serving.take() else {
            return true;
        };
        drop(sender);
        thread.join().is_ok()
    }
}

impl Reporter for Prometheus {
    fn name(&self) -> &str {
        THREAD
    }

    /// The clock of the serving thread, with states `waiting` and `serving`.
    fn clock(&self) -> Option<ClockReader> {
        Some(self.clock.clone())
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        let text = Families::of(result).into_text();
        match &self.serving {
            Some((sender, _)) if sender.send(Arc::from(text)).is_ok() => Ok(()),
            Some(_) => Err(ReportError::new(THREAD, "its thread has ended, so nothing is served any more")),
            None => Err(ReportError::new(THREAD, "it is finished, so this result is not served")),
        }
    }

    fn finish(&mut self) -> Result<(), ReportError> {
        if self.close() { Ok(()) } else { Err(ReportError::new(THREAD, "its thread panicked")) }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        if !self.close() {
            tracing::error!("the thread `{THREAD}` panicked");
        }
    }
}

/// Why the endpoint cannot start.
///
/// ```
/// use pronk::{Prometheus, PrometheusError};
///
/// let first = Prometheus::bind("127.0.0.1:0")?;
/// let taken = first.addr().to_string();
/// assert!(matches!(Prometheus::bind(&taken), Err(PrometheusError::Taken { address, .. }) if address == taken));
/// # Ok::<(), PrometheusError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrometheusError {
    /// Another program listens there.
    #[error(
        "cannot serve metrics at {address}: the port is taken, perhaps by another run; end that one, choose another \
         port, or ask for port 0, which is any free one"
    )]
    Taken {
        /// The requested address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system refuses this address.
    #[error(
        "cannot serve metrics at {address}: {source}; give an address of this machine and a port, as 127.0.0.1:9464"
    )]
    Refused {
        /// The requested address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system refuses the thread or its resources.
    #[error("cannot start the thread `{THREAD}`: {source}; the process may be at a limit of threads or open files")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
}

impl PrometheusError {
    fn new(address: &str, source: io::Error) -> PrometheusError {
        let address = address.to_owned();
        match source.kind() {
            io::ErrorKind::AddrInUse => PrometheusError::Taken { address, source },
            _ => PrometheusError::Refused { address, source },
        }
    }
}

thread_states! {
    /// State of the serving thread.
    enum PrometheusState {
        /// Waiting for a scrape or a result.
        Waiting = "waiting",
        /// Answering.
        Serving = "serving",
    }
}

const THREAD: &str = "prometheus";

/// A single-threaded runtime. The clock is in `waiting` exactly while the thread is parked, and ends with it.
fn runtime(clock: StateClock<PrometheusState>) -> io::Result<tokio::runtime::Runtime> {
    let clock = Arc::new(Mutex::new(clock));
    let enter = |state| {
        let clock = Arc::clone(&clock);
        move || clock.lock().unwrap_or_else(PoisonError::into_inner).enter(state)
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .on_thread_park(enter(PrometheusState::Waiting))
        .on_thread_unpark(enter(PrometheusState::Serving))
        .build()
}

#[cfg(test)]
mod tests;
