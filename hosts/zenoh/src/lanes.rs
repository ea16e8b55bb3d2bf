//! Sends replies without holding up whom they come from.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pronk_hosts::{Bytes, Op, Reply};
use tokio::runtime::Handle;
use zenoh::Wait as _;
use zenoh::query::Query;

/// One queue per host and kind of request; one thread at a time sends what stands in it. A host that reads
/// slowly, or not at all, so holds up one thread for each kind, however many requests it has made.
pub(crate) struct Lanes {
    threads: Handle,
    state: Mutex<State>,
    sent: Condvar,
}

#[derive(Default)]
struct State {
    /// Those that a thread works on.
    lanes: HashMap<Lane, VecDeque<Outgoing>>,
    /// Replies that were given and are not sent yet.
    under_way: usize,
}

type Lane = (Arc<str>, Op);

/// An answer to a query; without bytes it only says that there is none. Dropping a query sends as well.
struct Outgoing {
    query: Query,
    bytes: Option<Bytes>,
}

impl Lanes {
    pub(crate) fn new(threads: Handle) -> Self {
        Self { threads, state: Mutex::default(), sent: Condvar::new() }
    }

    /// What answers `query`.
    pub(crate) fn reply(self: &Arc<Self>, from: Arc<str>, op: Op, query: Query) -> Reply {
        let mut unsent = Unsent { query: Some(query), lane: (from, op), lanes: Arc::clone(self) };
        Reply::new(move |bytes| unsent.push(Some(bytes)))
    }

    /// Waits until all replies are sent, at most for `time`.
    pub(crate) fn flush(&self, time: Duration) {
        let deadline = Instant::now() + time;
        let mut state = self.lock();
        while state.under_way > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::debug!("{} replies are not sent, since the learner's end closes", state.under_way);
                return;
            }
            state = self.sent.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn push(self: &Arc<Self>, lane: Lane, outgoing: Outgoing) {
        let mut state = self.lock();
        state.under_way += 1;
        if let Some(waiting) = state.lanes.get_mut(&lane) {
            waiting.push_back(outgoing);
            return;
        }
        state.lanes.insert(lane.clone(), VecDeque::from([outgoing]));
        drop(state);
        let lanes = Arc::clone(self);
        self.threads.spawn_blocking(move || lanes.work(&lane));
    }

    fn work(&self, lane: &Lane) {
        while let Some(outgoing) = self.next(lane) {
            send(outgoing);
            self.lock().under_way -= 1;
            self.sent.notify_all();
        }
    }

    /// The next one of a lane, which is removed if there is none.
    fn next(&self, lane: &Lane) -> Option<Outgoing> {
        let mut state = self.lock();
        let next = state.lanes.get_mut(lane).and_then(VecDeque::pop_front);
        if next.is_none() {
            state.lanes.remove(lane);
        }
        next
    }

    /// No code of others runs under the lock, so what a panic left behind is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Blocks while the host does not read, until zenoh gives its link up.
fn send(Outgoing { query, bytes }: Outgoing) {
    if let Some(bytes) = bytes
        && let Err(e) = query.reply(query.key_expr(), bytes).wait()
    {
        tracing::debug!("a reply on {} was not sent: {e}", query.key_expr());
    }
}

/// A query that nothing has answered. Dropping it says so.
struct Unsent {
    query: Option<Query>,
    lane: Lane,
    lanes: Arc<Lanes>,
}

impl Unsent {
    fn push(&mut self, bytes: Option<Bytes>) {
        if let Some(query) = self.query.take() {
            self.lanes.push(self.lane.clone(), Outgoing { query, bytes });
        }
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.push(None);
    }
}
