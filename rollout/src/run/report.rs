//! What a worker says sideways: episodes, failures and its own end.

use pronk_buffer::Fold;
use pronk_metrics::{ByPolicy, Steps};

use super::failure::WorkerFailure;
use crate::env::{EpisodeStat, ReturnStat};

/// Episodes that one report lists one by one; the counts and sums know all of them.
const MAX_EPISODES: usize = 1024;

/// Failures whose text one report keeps; the count knows all of them.
const MAX_FAILURES: usize = 32;

/// Threads abandoned that are kept in words; the count knows all of them.
const MAX_ABANDONED: usize = 20;

/// What one or more workers did since the last report: posted once per fragment, folded together when nobody reads.
///
/// Folding keeps every count and sum exact and the lists bounded: of episodes and of failure texts, the newest stay.
///
/// ```
/// use pronk_buffer::Fold;
/// use pronk_rollout::WorkerReport;
///
/// let mut report = WorkerReport { fragments: 1, n_episodes: 2, return_sum: 30.0, ..WorkerReport::default() };
/// report.fold(WorkerReport { fragments: 1, n_episodes: 1, return_sum: 9.0, ..WorkerReport::default() });
/// assert_eq!((report.fragments, report.episode_return_mean()), (2, Some(13.0)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct WorkerReport {
    /// Completed fragments.
    pub fragments: u64,
    /// The steps of the completed fragments.
    pub steps: Steps,
    /// The newest finished episodes, oldest first, and at most 1024; the figures below are those of all finished episodes.
    /// Episodes of a fragment that failed are among them.
    pub episodes: Vec<EpisodeStat>,
    /// How many episodes finished.
    pub n_episodes: u64,
    /// The sum of their returns.
    pub return_sum: f64,
    /// The lowest of their returns; `None` when there are none.
    pub return_min: Option<f64>,
    /// The highest of their returns; `None` when there are none.
    pub return_max: Option<f64>,
    /// The sum of their lengths, in steps.
    pub len_sum: u64,
    /// The returns of single agents, by the policy that each played: one for each episode of an agent that acted in it. Empty
    /// where environments have one agent, whose returns are those of the episodes.
    pub policy_returns: ByPolicy<ReturnStat>,
    /// How often a worker rebuilt its environments.
    pub restarts: u64,
    /// How often environments failed, in steps, resets or while they were rebuilt.
    pub n_failures: u64,
    /// The newest failures in words, oldest first.
    pub failures: Vec<String>,
    /// Workers that gave up, and why.
    pub ended: Vec<WorkerFailure>,
    /// Threads that were abandoned in an environment that hangs.
    pub abandoned: AbandonedThreads,
}

impl WorkerReport {
    /// The mean return of the finished episodes; `None` when there are none.
    pub fn episode_return_mean(&self) -> Option<f64> {
        (self.n_episodes > 0).then(|| self.return_sum / self.n_episodes as f64)
    }

    /// The mean length of the finished episodes in steps; `None` when there are none.
    pub fn episode_len_mean(&self) -> Option<f64> {
        (self.n_episodes > 0).then(|| self.len_sum as f64 / self.n_episodes as f64)
    }

    /// Adds finished episodes.
    pub(crate) fn add_episodes(&mut self, episodes: Vec<EpisodeStat>) {
        for episode in &episodes {
            self.n_episodes += 1;
            self.return_sum += episode.episode_return;
            self.return_min = either(self.return_min, Some(episode.episode_return), f64::min);
            self.return_max = either(self.return_max, Some(episode.episode_return), f64::max);
            self.len_sum += u64::from(episode.episode_len);
        }
        append_bounded(&mut self.episodes, episodes, MAX_EPISODES);
    }

    /// Adds a failure in words.
    pub(crate) fn add_failure(&mut self, failure: String) {
        self.n_failures += 1;
        append_bounded(&mut self.failures, vec![failure], MAX_FAILURES);
    }
}

impl Fold for WorkerReport {
    fn fold(&mut self, later: Self) {
        self.fragments += later.fragments;
        self.steps += later.steps;
        append_bounded(&mut self.episodes, later.episodes, MAX_EPISODES);
        self.n_episodes += later.n_episodes;
        self.return_sum += later.return_sum;
        self.return_min = either(self.return_min, later.return_min, f64::min);
        self.return_max = either(self.return_max, later.return_max, f64::max);
        self.len_sum += later.len_sum;
        for (policy, returns) in later.policy_returns {
            self.policy_returns.entry(policy).and_modify(|own| own.fold(returns)).or_insert(returns);
        }
        self.restarts += later.restarts;
        self.n_failures += later.n_failures;
        append_bounded(&mut self.failures, later.failures, MAX_FAILURES);
        // Bounded by itself: a worker ends once.
        self.ended.extend(later.ended);
        self.abandoned.fold(later.abandoned);
    }
}

/// Threads that were abandoned in environments that hang: how many, and the newest of them in words.
///
/// ```
/// use pronk_buffer::Fold;
/// use pronk_rollout::AbandonedThreads;
///
/// let mut abandoned = AbandonedThreads::default();
/// for hang in 0..1000 {
///     abandoned.fold(AbandonedThreads::from(vec![format!("rollout-1.{hang}: environment 0 hangs")]));
/// }
/// assert_eq!((abandoned.count, abandoned.newest.len()), (1000, 20));
/// assert_eq!(abandoned.newest[19], "rollout-1.999: environment 0 hangs");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbandonedThreads {
    /// How many threads.
    pub count: u64,
    /// The newest 20, oldest first: the name of each thread, and what it is stuck in.
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

/// The one of two figures that `choose` picks, or the only one there is.
fn either(first: Option<f64>, second: Option<f64>, choose: fn(f64, f64) -> f64) -> Option<f64> {
    match (first, second) {
        (Some(first), Some(second)) => Some(choose(first, second)),
        (first, second) => first.or(second),
    }
}

/// Appends `later` and forgets the oldest entries past `limit`.
fn append_bounded<T>(list: &mut Vec<T>, later: Vec<T>, limit: usize) {
    list.extend(later);
    list.drain(..list.len().saturating_sub(limit));
}

#[cfg(test)]
mod tests;
