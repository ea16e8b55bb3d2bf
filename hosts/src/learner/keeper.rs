//! The thread that looks after hosts: it ends leases, answers beats, and hands out weights.

use std::time::Duration;

use pronk_metrics::{StateClock, thread_states};

use super::desk::{HostsDesk, WeightsAsked};
use super::store::Store;
use crate::sync::channel::{Receiver, RecvTimeoutError, select};
use crate::sync::{Arc, Instant};

thread_states! {
    /// What the thread that looks after hosts is doing.
    pub enum KeeperState {
        /// Waiting for the next thing to do.
        Waiting = "waiting",
        /// Answering hosts.
        Answering = "answering",
    }
}

/// Longest time between two looks at all hosts.
const LONGEST: Duration = Duration::from_millis(250);

pub(super) struct Keeper {
    pub(super) desk: Arc<HostsDesk>,
    pub(super) store: Store,
    pub(super) clock: StateClock<KeeperState>,
}

impl Keeper {
    pub(super) const NAME: &'static str = "hosts";

    /// Runs until `open` closes.
    pub(super) fn run(mut self, asked: &Receiver<WeightsAsked>, open: &Receiver<()>) {
        // Often enough to end a lease in time, and to tell hosts soon that the run drains.
        let interval = (self.desk.run.terms.beat / 4).clamp(Duration::from_millis(1), LONGEST);
        let mut next = Instant::now();
        loop {
            self.clock.enter(KeeperState::Waiting);
            let until_next = next.saturating_duration_since(Instant::now());
            let request = select! {
                recv(asked) -> request => request.map_err(|_| RecvTimeoutError::Disconnected),
                recv(open) -> _ => return,
                default(until_next) => Err(RecvTimeoutError::Timeout),
            };
            self.clock.enter(KeeperState::Answering);
            if let Ok(WeightsAsked { session, version, piece, reply }) = request {
                let answer = self.store.reply(session.id, version, piece, Instant::now());
                session.lock().figures.weights_bytes += answer.len() as u64;
                reply.send(answer);
            }
            let now = Instant::now();
            if now >= next {
                self.desk.look_after(now);
                next = now + interval;
            }
        }
    }
}
