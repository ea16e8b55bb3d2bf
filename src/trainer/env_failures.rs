//! [`EnvFailures`]: how often environments failed in a run.

use pronk_rollout::{FailureLog, WorkerReport};

use crate::error::TrainError;

/// Fragments for each failure from which on failures are too rare to be why no episode was completed: an
/// environment whose episodes never end may fail now and then.
const RARE: u64 = 100;

/// How often environments failed in a run, or since it was resumed.
///
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
///
/// let mut config = TrainerConfig::default();
/// config.results.min_time_s_per_iteration = 0.01;
/// let run = Trainer::new(config, |_: &EnvContext| CartPole::new())?.finish()?;
/// assert_eq!((run.env_failures.count, run.env_failures.newest), (0, None));
/// # Ok::<(), pronk::TrainError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvFailures {
    /// How often.
    pub count: u64,
    /// The newest failure.
    pub newest: Option<String>,
    /// Fragments and episodes that were completed beside them.
    fragments: u64,
    episodes: u64,
}

impl EnvFailures {
    /// Adds those of a report.
    pub(super) fn add(&mut self, report: &WorkerReport) {
        self.count += report.n_failures;
        self.fragments += report.fragments;
        self.episodes += report.n_episodes;
        self.newest = report.failures.last().cloned().or(self.newest.take());
    }

    /// The error of a run that has completed no episode because of them; its last result covers so many, and
    /// it has sampled so many env-steps.
    pub(super) fn why_no_episode(&self, episodes_covered: u64, env_steps: u64) -> Option<TrainError> {
        // Those of the processes before a resume are covered.
        let has_episode = self.episodes > 0 || episodes_covered > 0;
        // A single one may have come just before the end.
        let is_repeated = self.count > 1 || env_steps == 0;
        let is_their_fault = !has_episode && is_repeated && self.count.saturating_mul(RARE) > self.fragments;
        let newest = self.newest.as_deref().filter(|_| is_their_fault)?;
        Some(TrainError::NoEpisode { failures: self.count, newest: FailureLog::one_line(newest) })
    }
}
