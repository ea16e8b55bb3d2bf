use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::ends::{Order, Permit};
use crate::sync::channel::Sender;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use crate::{Versioned, WeightCell};

/// How many turns there are.
#[derive(Clone, Copy, Debug)]
pub struct TurnConfig {
    /// `W`: the workers.
    pub workers: NonZeroUsize,
    /// `F`: fragments of a train batch.
    pub fragments_of_a_batch: NonZeroUsize,
    /// `K`: how many train batches the workers may sample ahead of the learner. At 0 they wait while it
    /// trains.
    pub lag: usize,
    /// The fewest env-steps of a fragment, to grant no more turns than a limit has room for.
    pub env_steps_of_a_fragment: u64,
}

/// How far the turns of a run have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnPosition {
    /// The worker whose turn is granted next, from 0.
    pub next: usize,
    /// Turns that were granted.
    pub granted: u64,
}

/// Grants the workers their turns; clones share them.
#[derive(Debug)]
pub struct Turns<W> {
    config: TurnConfig,
    weights: WeightCell<W>,
    schedule: Arc<Mutex<Schedule<W>>>,
}

#[derive(Debug)]
struct Schedule<W> {
    /// To each worker; `None` once it has given up.
    permits: Vec<Option<Sender<Order<W>>>>,
    /// Whose fragment comes next; `None` once all are taken.
    order: Option<Sender<usize>>,
    /// The worker whose turn is granted next.
    next: usize,
    /// Turns that were granted.
    granted: u64,
    /// Granted turns whose fragment has not been taken.
    awaited: u64,
    /// Turns left until the limit of env-steps, if there is one.
    left: Option<u64>,
    /// The weights of the last grant.
    newest: Arc<Versioned<W>>,
}

impl<W> Turns<W> {
    /// Turns granted by these permits, in this order.
    pub(super) fn new(
        config: TurnConfig,
        weights: &WeightCell<W>,
        permits: Vec<Sender<Order<W>>>,
        order: Sender<usize>,
    ) -> Self {
        let schedule = Schedule {
            permits: permits.into_iter().map(Some).collect(),
            order: Some(order),
            next: 0,
            granted: 0,
            awaited: 0,
            left: None,
            newest: weights.load(),
        };
        Self { config, weights: weights.clone(), schedule: Arc::new(Mutex::new(schedule)) }
    }

    /// Grants the first turns, if none are granted: those of `K + 1` train batches, but not more than the
    /// fragments that `env_steps` has room for. A resumed run has used those ahead, and is granted none. A
    /// limit may also be set later, and once.
    pub fn begin(&self, env_steps: Option<u64>) {
        let mut schedule = self.lock();
        if let (None, Some(limit)) = (schedule.left, env_steps) {
            let all = limit.div_ceil(self.config.env_steps_of_a_fragment.max(1));
            schedule.left = Some(all.saturating_sub(schedule.granted));
        }
        if schedule.granted == 0 {
            schedule.newest = self.weights.load();
            schedule.grant((self.config.lag + 1) * self.config.fragments_of_a_batch.get());
        }
    }

    /// Where the rotation is, for a checkpoint.
    pub fn position(&self) -> TurnPosition {
        let schedule = self.lock();
        TurnPosition { next: schedule.next, granted: schedule.granted }
    }

    /// Continues a rotation, before [`begin`](Self::begin).
    pub fn resume(&self, position: TurnPosition) {
        let mut schedule = self.lock();
        schedule.next = position.next % schedule.permits.len().max(1);
        schedule.granted = position.granted;
    }

    /// Grants the turns of one more train batch, with the newest weights: called when the learner asks for
    /// its next one, but for the first.
    pub fn grant(&self) {
        let mut schedule = self.lock();
        schedule.newest = self.weights.load();
        schedule.grant(self.config.fragments_of_a_batch.get());
    }

    /// Sends the mark of a checkpoint to every worker that may have further turns, behind the turns granted
    /// so far, and returns which those are, from 0. There is room for one mark at a time: the caller waits
    /// for the states of all workers before the next one.
    pub fn mark(&self, number: u64) -> Vec<usize> {
        let schedule = self.lock();
        let sent = |permits: &Sender<Order<W>>| permits.try_send(Order::Mark(number)).is_ok();
        let workers = schedule.permits.iter().enumerate();
        workers.filter_map(|(worker, permits)| permits.as_ref().is_some_and(sent).then_some(worker)).collect()
    }

    /// How many turns were granted: the workers wait once they have sampled as many fragments.
    pub fn granted(&self) -> u64 {
        self.lock().granted
    }

    /// Grants no more turns.
    pub(super) fn end(&self) {
        self.lock().end();
    }

    /// The fragment of the oldest turn was taken.
    pub(super) fn taken(&self) {
        self.lock().awaited -= 1;
    }

    /// Ends the workers' waits if the fragments of all turns are taken: until then a turn may pass on. Called
    /// when the learner asks for another one, so that all workers are there until it has none.
    pub(super) fn end_with_the_last(&self) {
        let mut schedule = self.lock();
        if schedule.left == Some(0) && schedule.awaited == 0 {
            schedule.end();
        }
    }

    /// Passes the turn of a worker that has given up on to another. Returns whether there is one.
    pub(super) fn pass_on(&self, worker: usize) -> bool {
        let mut schedule = self.lock();
        schedule.permits[worker] = None;
        schedule.left = schedule.left.map(|left| left + 1);
        (schedule.granted, schedule.awaited) = (schedule.granted - 1, schedule.awaited - 1);
        schedule.grant(1);
        schedule.permits.iter().any(Option::is_some)
    }

    fn lock(&self) -> MutexGuard<'_, Schedule<W>> {
        // Nothing that can panic runs under this lock.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W> Clone for Turns<W> {
    fn clone(&self) -> Self {
        Self { config: self.config, weights: self.weights.clone(), schedule: Arc::clone(&self.schedule) }
    }
}

impl<W> Schedule<W> {
    fn grant(&mut self, turns: usize) {
        let Some(order) = &self.order else { return };
        let turns = self.left.map_or(turns, |left| turns.min(usize::try_from(left).unwrap_or(usize::MAX)));
        self.left = self.left.map(|left| left - turns as u64);
        let mut fragments = vec![0; self.permits.len()];
        for _ in 0..turns {
            let Some(worker) = next_worker(&self.permits, &mut self.next) else { break };
            fragments[worker] += 1;
            (self.granted, self.awaited) = (self.granted + 1, self.awaited + 1);
            // There is room: a turn is granted for each one taken.
            let _ = order.try_send(worker);
        }
        for (permits, fragments) in self.permits.iter().zip(fragments) {
            if let Some(permits) = permits.as_ref().filter(|_| fragments > 0) {
                // Refused only by a worker that has given up: its closed lane will say so.
                let permit = Permit { weights: Arc::clone(&self.newest), fragments, incarnation: None };
                let _ = permits.try_send(Order::Permit(permit));
            }
        }
    }

    fn end(&mut self) {
        self.order = None;
        self.permits.fill_with(|| None);
    }
}

/// The next worker in rotation that has not given up.
fn next_worker<P>(permits: &[Option<P>], next: &mut usize) -> Option<usize> {
    for _ in 0..permits.len() {
        let worker = *next;
        *next = (worker + 1) % permits.len();
        if permits[worker].is_some() {
            return Some(worker);
        }
    }
    None
}
