//! What workers report to the trainer: steps, episodes, failures, restarts.

use pronk_buffer::Fold;
use pronk_metrics::{ByPolicy, Steps};
use serde::{Deserialize, Serialize};

use super::failure::WorkerFailure;
use crate::env::{EpisodeStat, ReturnStat};
use crate::worker::SeatState;

/// Failures whose text one report keeps; its count includes all.
const MAX_FAILURES: usize = 32;

/// Abandoned threads that one report describes; its count includes all.
const MAX_ABANDONED: usize = 20;

/// What one or more workers did since the last report: posted once per fragment, folded when the reader lags.
/// Folding keeps counts and sums exact, and the newest entries of bounded lists.
///
/// ```
/// use pronk_buffer::Fold;
/// use pronk_rollout::WorkerReport;
///
/// let mut report = WorkerReport { fragments: 1, n_episodes: 2, return_sum: 30.0, ..WorkerReport::default() };
/// report.fold(WorkerReport { fragments: 1, n_episodes: 1, return_sum: 9.0, ..WorkerReport::default() });
/// assert_eq!((report.fragments, report.episode_return_mean()), (2, Some(13.0)));
/// ```
///
/// It is serialised without what only the process of its worker can use: slots, seats, and workers that
/// ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkerReport {
    /// The worker, and how many fragments it had completed before; `None` for the supervisor's reports.
    #[serde(skip)]
    pub slot: Option<(u32, u64)>,
    /// Completed fragments.
    pub fragments: u64,
    /// The steps of the completed fragments.
    pub steps: Steps,
    /// The newest finished episodes, oldest first, at most [`MAX_EPISODES`](Self::MAX_EPISODES). The figures
    /// below are those of all.
    pub episodes: Vec<EpisodeStat>,
    /// How many episodes finished.
    pub n_episodes: u64,
    /// The sum of their returns.
    pub return_sum: f64,
    /// The lowest of their returns; `None` without episodes.
    pub return_min: Option<f64>,
    /// The highest of their returns; `None` without episodes.
    pub return_max: Option<f64>,
    /// The sum of their lengths, in steps.
    pub len_sum: u64,
    /// The returns of agents, by policy: one for each episode in which an agent acted. Empty for single-agent
    /// environments.
    pub policy_returns: ByPolicy<ReturnStat>,
    /// How often environments were rebuilt.
    pub restarts: u64,
    /// How often environments failed.
    pub n_failures: u64,
    /// The texts of the newest failures, oldest first, at most 32.
    pub failures: Vec<String>,
    /// Workers that gave up, and why.
    #[serde(skip)]
    pub ended: Vec<WorkerFailure>,
    /// Threads abandoned in environments that hang.
    pub abandoned: AbandonedThreads,
    /// Environments of a resumed run that could not get back into their episodes, each with the reason.
    #[serde(skip)]
    pub restarted: Vec<String>,
    /// Workers that met the mark of a checkpoint, in the order in which they did.
    #[serde(skip)]
    pub seats: Vec<PostedSeat>,
}

/// The state of a worker, for a checkpoint.
#[derive(Clone, Debug)]
pub struct PostedSeat {
    /// The worker.
    pub worker: u32,
    /// The number of the checkpoint.
    pub number: u64,
    /// The state, or why there is none.
    pub state: Result<SeatState, String>,
}

impl WorkerReport {
    /// Episodes that one report lists; its counts and sums include all.
    pub const MAX_EPISODES: usize = 1024;

    /// The mean return of the finished episodes; `None` without episodes.
    pub fn episode_return_mean(&self) -> Option<f64> {
        (self.n_episodes > 0).then(|| self.return_sum / self.n_episodes as f64)
    }

    /// The mean length of the finished episodes in steps; `None` without episodes.
    pub fn episode_len_mean(&self) -> Option<f64> {
        (self.n_episodes > 0).then(|| self.len_sum as f64 / self.n_episodes as f64)
    }

    pub(crate) fn add_episodes(&mut self, episodes: Vec<EpisodeStat>) {
        for episode in &episodes {
            self.n_episodes += 1;
            self.return_sum += episode.episode_return;
            let episode_return = Some(episode.episode_return);
            self.return_min = self.return_min.into_iter().chain(episode_return).reduce(f64::min);
            self.return_max = self.return_max.into_iter().chain(episode_return).reduce(f64::max);
            self.len_sum += u64::from(episode.episode_len);
        }
        append_bounded(&mut self.episodes, episodes, Self::MAX_EPISODES);
    }

    pub(crate) fn add_failure(&mut self, failure: String) {
        self.n_failures += 1;
        append_bounded(&mut self.failures, vec![failure], MAX_FAILURES);
    }
}

impl Fold for WorkerReport {
    fn fold(&mut self, later: Self) {
        self.slot = later.slot.or(self.slot);
        self.fragments += later.fragments;
        self.steps += later.steps;
        append_bounded(&mut self.episodes, later.episodes, Self::MAX_EPISODES);
        self.n_episodes += later.n_episodes;
        self.return_sum += later.return_sum;
        self.return_min = self.return_min.into_iter().chain(later.return_min).reduce(f64::min);
        self.return_max = self.return_max.into_iter().chain(later.return_max).reduce(f64::max);
        self.len_sum += later.len_sum;
        for (policy, returns) in later.policy_returns {
            self.policy_returns.entry(policy).and_modify(|own| own.fold(returns)).or_insert(returns);
        }
        self.restarts += later.restarts;
        self.n_failures += later.n_failures;
        append_bounded(&mut self.failures, later.failures, MAX_FAILURES);
        // Bounded without a limit, because a worker ends once.
        self.ended.extend(later.ended);
        self.abandoned.fold(later.abandoned);
        // Bounded without a limit, because an environment is brought back once.
        self.restarted.extend(later.restarted);
        self.seats.extend(later.seats);
    }
}

/// Threads abandoned in environments that hang: how many, and a description of the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbandonedThreads {
    /// How many threads.
    pub count: u64,
    /// The newest 20, oldest first: the name of each thread, and the call it is stuck in.
    pub newest: Vec<String>,
}

impl From<Vec<String>> for AbandonedThreads {
    fn from(threads: Vec<String>) -> Self {
        let mut abandoned = Self { count: threads.len() as u64, newest: Vec::new() };
        append_bounded(&mut abandoned.newest, threads, MAX_ABANDONED);
        abandoned
    }
}

impl Fold for AbandonedThreads {
    fn fold(&mut self, later: Self) {
        self.count += later.count;
        append_bounded(&mut self.newest, later.newest, MAX_ABANDONED);
    }
}

/// Appends `later` and drops the oldest entries past `limit`.
fn append_bounded<T>(list: &mut Vec<T>, later: Vec<T>, limit: usize) {
    list.extend(later);
    list.drain(..list.len().saturating_sub(limit));
}

#[cfg(test)]
mod tests;
