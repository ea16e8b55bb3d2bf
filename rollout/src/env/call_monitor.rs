use std::time::Duration;

use pronk_buffer::{ObsColumn, ObsView};
use pronk_metrics::{Steps, TimeLedger};

use super::failure::FailurePlace;
use super::reaper::ReaperHandle;
use crate::sync::{self, Arc, Instant, Mutex, MutexGuard, PoisonError};
use calls::Calls;

pub use calls::EnvCall;

mod calls;

/// A live view of one worker's environment calls, at the cost of a few plain stores for each.
///
/// The thread that detects a hang *takes over* the worker's unfinished fragment, with the steps that are not
/// booked yet. If the call returns after all, the worker sees that it was replaced, and ends without booking
/// anything.
///
/// It also gives environments the run's [time ledger](Self::time), for time in other processes, and its
/// [`Reaper`](crate::Reaper), for slow cleanup.
#[derive(Clone, Debug, Default)]
pub struct CallMonitor {
    shared: Arc<Shared>,
    time: TimeLedger,
    /// `None` outside a run.
    reaper: Option<ReaperHandle>,
    /// When calls are to be given up; shared by all threads of the worker.
    give_up_at: Arc<Mutex<Option<Instant>>>,
}

#[derive(Debug, Default)]
struct Shared {
    calls: Calls,
    keeps_observations: bool,
    fragment: Mutex<Fragment>,
}

/// The unfinished fragment.
#[derive(Debug, Default)]
struct Fragment {
    taken_over: bool,
    /// `[B, obs_len]`: the observations that were last acted on; empty if they are not kept.
    obs: ObsColumn,
    n_envs: usize,
}

/// What a take-over yields.
#[derive(Debug)]
pub(crate) struct TakenOver {
    /// Steps that are not booked yet.
    pub(crate) steps: Steps,
    /// Agent-steps beside them of policies that are not trained.
    pub(crate) untrained: u64,
    /// `[obs_len]`: the last observation of the environment that hangs, if observations are kept.
    pub(crate) last_obs: Option<ObsColumn>,
}

impl CallMonitor {
    /// A monitor that keeps no observations.
    pub fn new() -> Self {
        Self::default()
    }

    /// A monitor that keeps a copy of the observations last acted on, to show them with a hang.
    pub fn keeping_observations() -> Self {
        Self { shared: Arc::new(Shared { keeps_observations: true, ..Shared::default() }), ..Self::default() }
    }

    /// The same monitor, with the time ledger and the reaper of a run.
    #[must_use]
    pub fn of_run(&self, time: &TimeLedger, reaper: &ReaperHandle) -> Self {
        Self { time: time.clone(), reaper: Some(reaper.clone()), ..self.clone() }
    }

    /// A monitor of another thread's calls, in the same run.
    pub(crate) fn of_another_thread(&self) -> Self {
        Self { shared: Arc::default(), ..self.clone() }
    }

    /// The run's ledger for time that environments spend elsewhere, such as in processes.
    pub fn time(&self) -> &TimeLedger {
        &self.time
    }

    /// Runs the cleanup `end` of a dropped environment within `limit`: in a run on a thread of that name,
    /// which the run joins; else on the calling thread. If no thread can be spawned, `end` is dropped
    /// uncalled, so what it holds must clean up when dropped.
    pub fn reap(&self, thread: &str, limit: Duration, end: impl FnOnce() + Send + 'static) {
        match &self.reaper {
            Some(reaper) => reaper.add(thread, limit, end),
            None => end(),
        }
    }

    /// Has calls that can be interrupted, such as those of processes, end with an error from `at` on; of two
    /// times the earlier counts. For a worker on the thread that ends its run.
    pub fn give_up_at(&self, at: Instant) {
        let mut set = self.give_up_at.lock().unwrap_or_else(PoisonError::into_inner);
        *set = Some(set.map_or(at, |set| set.min(at)));
    }

    /// Whether a call that can be interrupted is to end. To be asked every few hundred milliseconds.
    pub fn has_to_give_up(&self) -> bool {
        self.give_up_at.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| Instant::now() >= at)
    }

    /// The worker is still in its call, and sees to it that it ends: what measures for how long the call has
    /// hung begins anew. For calls that have a limit of their own.
    pub fn keep_alive(&self) {
        self.shared.calls.renew();
    }

    /// The call that the worker is in; `None` while it is outside its environments.
    pub fn call(&self) -> Option<EnvCall> {
        self.shared.calls.current()
    }

    /// The worker is in code of its environments until the guard is dropped.
    pub(crate) fn enter(&self, incarnation: u32) -> CallGuard<'_> {
        self.shared.calls.enter(incarnation);
        CallGuard(self)
    }

    /// Sets which environment is called next, and for what.
    #[inline]
    pub fn at(&self, index: u32, place: FailurePlace) {
        self.shared.calls.at(index, place);
    }

    /// Keeps the observations that the next step acts on, `[B, obs_len]`.
    pub(crate) fn keep_observations(&self, obs: ObsView<'_>, n_envs: usize) {
        if !self.shared.keeps_observations {
            return;
        }
        let mut fragment = self.fragment();
        fragment.n_envs = n_envs;
        fragment.obs.resize(0);
        // The first observations give the column its element type.
        if fragment.obs.append(obs).is_err() {
            fragment.obs = column_of(obs);
        }
    }

    /// Sets how many steps of the unfinished fragment are not booked yet, and agent-steps beside them of
    /// policies that are not trained.
    pub(crate) fn set_unbooked(&self, steps: Steps, untrained: u64) {
        self.shared.calls.set_unbooked(steps, untrained);
    }

    /// Whether another thread has taken over the worker's fragment.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.fragment().taken_over
    }

    /// Books the fragment unless it has been taken over.
    pub(crate) fn book<T>(&self, book: impl FnOnce() -> T) -> Option<T> {
        let fragment = self.fragment();
        if fragment.taken_over {
            return None;
        }
        self.set_unbooked(Steps::default(), 0);
        // Under the lock, so that a take-over sees the steps either booked or not.
        Some(book())
    }

    /// Takes over the worker's fragment if it is still in that call.
    pub(crate) fn take_over(&self, call: &EnvCall) -> Option<TakenOver> {
        let mut fragment = self.fragment();
        let unbooked = self.shared.calls.unbooked_in(call);
        let (steps, untrained) = unbooked.filter(|_| !fragment.taken_over)?;
        fragment.taken_over = true;
        let last_obs = fragment.row(call.index as usize);
        Some(TakenOver { steps, untrained, last_obs })
    }

    fn fragment(&self) -> MutexGuard<'_, Fragment> {
        // A panic under the lock can only leave half-written observations, which are for display.
        self.shared.fragment.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fragment {
    fn row(&self, index: usize) -> Option<ObsColumn> {
        let obs_len = self.obs.view().len().checked_div(self.n_envs).filter(|len| *len > 0)?;
        (index < self.n_envs).then(|| column_of(self.obs.view().row(index, obs_len)))
    }
}

fn column_of(obs: ObsView<'_>) -> ObsColumn {
    match obs {
        ObsView::F32(obs) => ObsColumn::F32(obs.to_vec()),
        ObsView::U8(obs) => ObsColumn::U8(obs.to_vec()),
    }
}

/// How often a hang detector polls within the timeout of a hang.
pub(crate) const POLLS_PER_TIMEOUT: u32 = 8;

/// The time between two polls of calls that count as hanging after `timeout`.
pub(crate) fn poll_interval(timeout: Duration) -> Duration {
    // However short the timeout, the polling thread has other work to do.
    (timeout / POLLS_PER_TIMEOUT).max(Duration::from_millis(1))
}

/// Measures how long a worker has been in one call. Another thread polls it: the worker reads no clock.
pub(crate) struct HangDetector {
    known: Option<(EnvCall, Instant)>,
}

impl HangDetector {
    pub(crate) fn new() -> Self {
        Self { known: None }
    }

    /// The call that the worker is in, and how long ago a poll first saw it.
    pub(crate) fn poll(&mut self, monitor: &CallMonitor) -> Option<(EnvCall, Duration)> {
        let call = monitor.call()?;
        let since = self.known.filter(|(known, _)| *known == call).map_or_else(Instant::now, |(_, since)| since);
        self.known = Some((call, since));
        Some((call, since.elapsed()))
    }
}

/// The worker is in the code of its environments until this is dropped.
pub(crate) struct CallGuard<'a>(&'a CallMonitor);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.shared.calls.leave();
    }
}

#[cfg(test)]
mod tests;
