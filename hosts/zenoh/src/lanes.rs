//! Sends replies without holding up whom they come from.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pronk_hosts::{Bytes, Op, Reply};
use tokio::runtime::Handle;
use zenoh::Wait as _;
use zenoh::bytes::ZBytes;
use zenoh::query::Query;

/// Bytes of replies that wait in a lane at most; a longer one may wait alone. Each process of a host asks for
/// one piece of weights at a time, so as many wait only if it asks without reading.
const MOST_BYTES: usize = 64 << 20;

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
    lanes: HashMap<Lane, Waiting>,
    /// Replies that were given and are not sent yet.
    under_way: usize,
}

type Lane = (Arc<str>, Op);

/// The answers that wait in a lane.
struct Waiting<Q = Query> {
    answers: VecDeque<Outgoing<Q>>,
    /// Of all of them.
    bytes: usize,
}

/// An answer to a query; without bytes it only says that there is none. Dropping a query sends as well.
struct Outgoing<Q = Query> {
    query: Q,
    bytes: Option<Bytes>,
}

impl<Q> Waiting<Q> {
    fn new() -> Self {
        Self { answers: VecDeque::new(), bytes: 0 }
    }

    /// Adds an answer. If there is no room for its bytes, it loses them and this is false: the host then
    /// takes its call for lost, and asks again.
    fn push(&mut self, Outgoing { query, bytes }: Outgoing<Q>) -> bool {
        let len = bytes.as_ref().map_or(0, Bytes::len);
        let fits = len == 0 || self.bytes == 0 || self.bytes + len <= MOST_BYTES;
        if fits {
            self.bytes += len;
        }
        self.answers.push_back(Outgoing { query, bytes: bytes.filter(|_| fits) });
        fits
    }

    fn pop(&mut self) -> Option<Outgoing<Q>> {
        let next = self.answers.pop_front()?;
        self.bytes -= next.bytes.as_ref().map_or(0, Bytes::len);
        Some(next)
    }
}

impl Lanes {
    pub(crate) fn new(threads: Handle) -> Self {
        Self { threads, state: Mutex::default(), sent: Condvar::new() }
    }

    /// What answers `query`, whose payload has been read.
    pub(crate) fn reply(self: &Arc<Self>, from: Arc<str>, op: Op, mut query: Query) -> Reply {
        if let Some(payload) = query.payload_mut() {
            // It would wait with the reply, and a fragment is large.
            *payload = ZBytes::new();
        }
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
        let has_thread = state.lanes.contains_key(&lane);
        let fits = state.lanes.entry(lane.clone()).or_insert_with(Waiting::new).push(outgoing);
        drop(state);
        if !fits {
            tracing::debug!(host = &*lane.0, op = lane.1.name(), "dropped a reply: those before it are not read");
        }
        if !has_thread {
            let lanes = Arc::clone(self);
            self.threads.spawn_blocking(move || lanes.work(&lane));
        }
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
        let next = state.lanes.get_mut(lane).and_then(Waiting::pop);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_keeps_every_query_and_no_more_bytes_than_its_bound() {
        let half = Bytes::from(vec![0_u8; MOST_BYTES / 2]);
        let answer = |query: u32| Outgoing { query, bytes: Some(half.clone()) };
        let mut waiting = Waiting::new();
        assert_eq!([1, 2, 3].map(|query| waiting.push(answer(query))), [true, true, false]);
        let taken = [(); 4].map(|()| waiting.pop().map(|next| (next.query, next.bytes.is_some())));
        assert_eq!(taken, [Some((1, true)), Some((2, true)), Some((3, false)), None]);
        // There is room again, also for one that is longer than the bound.
        let long = Bytes::from(vec![0_u8; MOST_BYTES + 1]);
        assert!(waiting.push(Outgoing { query: 4, bytes: Some(long) }));
        assert!(!waiting.push(answer(5)));
        assert!(waiting.push(Outgoing { query: 6, bytes: None }), "it has no bytes to lose");
    }
}
