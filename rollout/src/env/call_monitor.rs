//! What a worker is doing in its environments, seen from outside, and what its environments ask of the run.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pronk_buffer::{ObsColumn, ObsView};
use pronk_metrics::{Steps, TimeLedger};

use super::failure::FailurePlace;
use super::reaper::ReaperHandle;

/// A live view of one worker's calls of its environments, and who the fragment in the making belongs to.
///
/// The worker writes into it: a few plain stores for each call. Others read it at any time. When an environment hangs, its
/// worker cannot say so; whoever finds it out takes the worker's place *over*, with the steps that were not booked. Should
/// the call come back after all, the worker finds that it has been replaced, and ends without booking anything.
///
/// It is also what environments know of the run: its [time ledger](Self::time), for what they run in other processes, and its
/// [`Reaper`](crate::Reaper), for what takes its time to end.
///
/// ```
/// use pronk_rollout::CallMonitor;
///
/// let monitor = CallMonitor::new();
/// assert_eq!(monitor.call(), None, "the worker is in none of its environments");
/// ```
#[derive(Clone, Debug, Default)]
pub struct CallMonitor {
    shared: Arc<Shared>,
    time: TimeLedger,
    /// `None` where no run would wait for it.
    reaper: Option<ReaperHandle>,
}

#[derive(Debug, Default)]
struct Shared {
    /// One more whenever the worker goes into the code of its environments, and when it comes back: odd while it is in there.
    passages: AtomicU64,
    kind: AtomicU8,
    index: AtomicU32,
    episode_seed: AtomicU64,
    step: AtomicU32,
    incarnation: AtomicU32,
    /// Steps of the fragment in the making.
    env_steps: AtomicU64,
    agent_steps: AtomicU64,
    keeps_observations: bool,
    fragment: Mutex<Fragment>,
}

/// The fragment in the making.
#[derive(Debug, Default)]
struct Fragment {
    taken_over: bool,
    /// `[B, obs_len]`: what its environments were last seen to be in; empty if that is not kept.
    obs: ObsColumn,
    n_envs: usize,
}

/// A call of an environment that has not come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvCall {
    /// Which environment of the worker, from 0.
    pub index: u32,
    /// What it was asked to do.
    pub place: FailurePlace,
    /// How often the worker has rebuilt its environments.
    pub incarnation: u32,
    /// Tells this call from every other of the worker.
    passage: u64,
}

/// What whoever takes a worker's place over is left with.
#[derive(Debug)]
pub(crate) struct TakenOver {
    /// Steps that nobody has booked.
    pub(crate) steps: Steps,
    /// `[obs_len]`: the last observation of the environment that hangs, if observations are kept.
    pub(crate) last_obs: Option<ObsColumn>,
}

impl CallMonitor {
    /// A view that keeps no observations.
    pub fn new() -> Self {
        Self::default()
    }

    /// A view that keeps a copy of the observations that were last acted upon, so that they can be shown.
    pub fn keeping_observations() -> Self {
        Self { shared: Arc::new(Shared { keeps_observations: true, ..Shared::default() }), ..Self::default() }
    }

    /// The same view, for environments of a run with that ledger and that reaper.
    #[must_use]
    pub fn of_run(&self, time: &TimeLedger, reaper: &ReaperHandle) -> Self {
        Self { shared: Arc::clone(&self.shared), time: time.clone(), reaper: Some(reaper.clone()) }
    }

    /// A view of another thread's calls, in the same run.
    pub(crate) fn of_another_thread(&self) -> Self {
        Self { shared: Arc::default(), ..self.clone() }
    }

    /// Where time is written down that environments spend elsewhere, such as in processes; without a run nobody reads it.
    pub fn time(&self) -> &TimeLedger {
        &self.time
    }

    /// Ends what environments leave behind when they are dropped: on a thread of that name which the run waits for when it ends, or
    /// here and now without a run.
    ///
    /// `limit` is how long `end` takes at most. If the system gives no thread, `end` is dropped here instead of called: what it holds has to
    /// end when it is dropped.
    pub fn reap(&self, thread: &str, limit: Duration, end: impl FnOnce() + Send + 'static) {
        match &self.reaper {
            Some(reaper) => reaper.add(thread, limit, end),
            None => end(),
        }
    }

    /// The call that the worker is in now; `None` while it is in none of its environments.
    pub fn call(&self) -> Option<EnvCall> {
        let shared = &*self.shared;
        let passage = shared.passages.load(Ordering::Acquire);
        if passage.is_multiple_of(2) {
            return None;
        }
        let (episode_seed, step) = (shared.episode_seed.load(Ordering::Relaxed), shared.step.load(Ordering::Relaxed));
        let place = match shared.kind.load(Ordering::Relaxed) {
            RESET => FailurePlace::Reset { episode_seed },
            STEP => FailurePlace::Step { episode_seed, step },
            MASK => FailurePlace::Mask { episode_seed, step },
            MAKE => FailurePlace::Make,
            _ => FailurePlace::Unknown,
        };
        let index = shared.index.load(Ordering::Relaxed);
        Some(EnvCall { index, place, incarnation: shared.incarnation.load(Ordering::Relaxed), passage })
    }

    /// The worker goes into the code of its environments, which are those of `incarnation`; it comes back when the returned
    /// value is dropped.
    pub(crate) fn enter(&self, incarnation: u32) -> Inside<'_> {
        self.shared.incarnation.store(incarnation, Ordering::Relaxed);
        self.pass();
        Inside(self)
    }

    /// Which environment the worker now calls, and what for: said by a [`VectorEnv`](crate::VectorEnv) before it does.
    #[inline]
    pub fn at(&self, index: u32, place: FailurePlace) {
        let (kind, episode_seed, step) = match place {
            FailurePlace::Make => (MAKE, 0, 0),
            FailurePlace::Unknown => (UNKNOWN, 0, 0),
            FailurePlace::Reset { episode_seed } => (RESET, episode_seed, 0),
            FailurePlace::Step { episode_seed, step } => (STEP, episode_seed, step),
            FailurePlace::Mask { episode_seed, step } => (MASK, episode_seed, step),
        };
        let shared = &*self.shared;
        shared.kind.store(kind, Ordering::Relaxed);
        shared.index.store(index, Ordering::Relaxed);
        shared.episode_seed.store(episode_seed, Ordering::Relaxed);
        shared.step.store(step, Ordering::Relaxed);
    }

    /// What the `n_envs` environments are about to be stepped from: `[B, obs_len]`.
    pub(crate) fn see(&self, obs: ObsView<'_>, n_envs: usize) {
        if !self.shared.keeps_observations {
            return;
        }
        let mut fragment = self.fragment();
        fragment.n_envs = n_envs;
        match (&mut fragment.obs, obs) {
            (ObsColumn::F32(kept), ObsView::F32(obs)) => {
                kept.clear();
                kept.extend_from_slice(obs);
            }
            (ObsColumn::U8(kept), ObsView::U8(obs)) => {
                kept.clear();
                kept.extend_from_slice(obs);
            }
            (kept, ObsView::F32(obs)) => *kept = ObsColumn::F32(obs.to_vec()),
            (kept, ObsView::U8(obs)) => *kept = ObsColumn::U8(obs.to_vec()),
        }
    }

    /// The fragment in the making has so many steps by now.
    pub(crate) fn made(&self, steps: Steps) {
        self.shared.env_steps.store(steps.env, Ordering::Relaxed);
        self.shared.agent_steps.store(steps.agent, Ordering::Relaxed);
    }

    /// Whether somebody has taken the worker's place over.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.fragment().taken_over
    }

    /// Books the fragment in the making: `None` if that is no longer the worker's to do.
    pub(crate) fn book<T>(&self, book: impl FnOnce() -> T) -> Option<T> {
        let fragment = self.fragment();
        if fragment.taken_over {
            return None;
        }
        self.made(Steps::default());
        // Still under the lock: whoever takes over sees the steps as booked, or takes them.
        Some(book())
    }

    /// Takes the worker's place over, if it still is in that call.
    pub(crate) fn take_over(&self, call: &EnvCall) -> Option<TakenOver> {
        let mut fragment = self.fragment();
        if fragment.taken_over || self.call() != Some(*call) {
            return None;
        }
        fragment.taken_over = true;
        let (env, agent) =
            (self.shared.env_steps.load(Ordering::Relaxed), self.shared.agent_steps.load(Ordering::Relaxed));
        let last_obs = fragment.row(call.index as usize);
        Some(TakenOver { steps: Steps { env, agent }, last_obs })
    }

    fn pass(&self) {
        // One thread writes, so this is no race.
        let passages = self.shared.passages.load(Ordering::Relaxed);
        self.shared.passages.store(passages + 1, Ordering::Release);
    }

    fn fragment(&self) -> MutexGuard<'_, Fragment> {
        // What is kept is whole even if a thread panicked while it held the lock: observations are all that could be half
        // written, and they are only shown.
        self.shared.fragment.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fragment {
    fn row(&self, index: usize) -> Option<ObsColumn> {
        let obs_len = self.obs.view().len().checked_div(self.n_envs).filter(|len| *len > 0)?;
        (index < self.n_envs).then(|| match self.obs.view().row(index, obs_len) {
            ObsView::F32(row) => ObsColumn::F32(row.to_vec()),
            ObsView::U8(row) => ObsColumn::U8(row.to_vec()),
        })
    }
}

/// Calls are looked at so often in the time after which they count as hanging.
pub(crate) const LOOKS: u32 = 8;

/// The time between two looks at calls that count as hanging after `timeout`.
pub(crate) fn time_between_looks(timeout: Duration) -> Duration {
    // However short it is, to look is not all that is done.
    (timeout / LOOKS).max(Duration::from_millis(1))
}

/// Finds out for how long a worker has been in one call. It is looked at from time to time, because the worker itself does not
/// look at clocks.
pub(crate) struct HangDetector {
    known: Option<(EnvCall, Instant)>,
}

impl HangDetector {
    pub(crate) fn new() -> Self {
        Self { known: None }
    }

    /// The call that the worker is in, and how long it has been known to be.
    pub(crate) fn look(&mut self, monitor: &CallMonitor) -> Option<(EnvCall, Duration)> {
        let call = monitor.call();
        self.known = match (call, self.known) {
            (Some(call), Some((known, since))) if call == known => Some((known, since)),
            (call, _) => call.map(|call| (call, Instant::now())),
        };
        self.known.map(|(call, since)| (call, since.elapsed()))
    }
}

const MAKE: u8 = 0;

const RESET: u8 = 1;

const STEP: u8 = 2;

const MASK: u8 = 3;

const UNKNOWN: u8 = 4;

/// While it lives the worker is in the code of its environments.
pub(crate) struct Inside<'a>(&'a CallMonitor);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.pass();
    }
}

#[cfg(test)]
mod tests;
