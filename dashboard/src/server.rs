//! [`Server`]: the thread that answers.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use axum::Router;
use pronk::metrics::{ClockReader, StateClock, thread_states};
use tokio::sync::watch;

use crate::access::Access;
use crate::board::Board;
use crate::connections::{Deadlines, accept};
use crate::error::DashboardError;
use crate::reader::Wake;
use crate::routes::router;

pub(crate) const THREAD: &str = "dashboard";

/// The thread that answers requests; it ends when this is closed or dropped.
#[derive(Debug)]
pub(crate) struct Server {
    access: Arc<Access>,
    router: Router,
    clock: ClockReader,
    /// Dropping the sender ends the thread.
    serving: Option<(watch::Sender<()>, JoinHandle<()>)>,
}

thread_states! {
    /// State of the serving thread.
    enum ServerState {
        /// Waiting for a request, a result or a deadline.
        Waiting = "waiting",
        /// Answering.
        Serving = "serving",
    }
}

impl Server {
    /// Serves what is on the board at `address`.
    pub(crate) fn start(address: &str, board: Arc<Board>, wake: Option<Wake>) -> Result<Self, DashboardError> {
        let refused = |source| DashboardError::of_address(address, source);
        let listener = TcpListener::bind(address).map_err(refused)?;
        let access = Arc::new(Access::new(listener.local_addr().map_err(refused)?)?);
        listener.set_nonblocking(true).map_err(refused)?;

        let clock = StateClock::new(THREAD, ServerState::Serving);
        let reader = clock.reader();
        let no_thread = |source| DashboardError::Thread { what: "thread", source };
        let runtime = runtime(clock).map_err(no_thread)?;
        let entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(refused)?;
        drop(entered);
        let router = router(board, Arc::clone(&access), wake);
        let (closing, mut closed) = watch::channel(());
        let of_thread = router.clone();
        let serve = move || {
            runtime.spawn(accept(listener, of_thread, Deadlines::default()));
            // Fails once the other end is dropped.
            let _ = runtime.block_on(closed.changed());
            // With all connections. A disk that does not answer is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(THREAD.to_owned()).spawn(serve).map_err(no_thread)?;
        Ok(Self { access, router, clock: reader, serving: Some((closing, thread)) })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.access.addr()
    }

    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn clock(&self) -> ClockReader {
        self.clock.clone()
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.serving.as_ref().is_some_and(|(_, thread)| !thread.is_finished())
    }

    /// Ends the thread. `false` if it has panicked.
    pub(crate) fn close(&mut self) -> bool {
        let Some((closing, thread)) = self.serving.take() else { return true };
        drop(closing);
        thread.join().is_ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.close() {
            tracing::error!("the thread `{THREAD}` panicked");
        }
    }
}

/// A single-threaded runtime. The clock is in `waiting` exactly while the thread is parked, and ends with it.
fn runtime(clock: StateClock<ServerState>) -> io::Result<tokio::runtime::Runtime> {
    let clock = Arc::new(Mutex::new(clock));
    let enter = |state| {
        let clock = Arc::clone(&clock);
        move || clock.lock().unwrap_or_else(PoisonError::into_inner).enter(state)
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // They read videos.
        .max_blocking_threads(2)
        .thread_name("dashboard-videos")
        .on_thread_park(enter(ServerState::Waiting))
        .on_thread_unpark(enter(ServerState::Serving))
        .build()
}
