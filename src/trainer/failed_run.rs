//! [`FailedRun`]: why a run failed, and its outcome.

use std::error::Error;
use std::fmt;

use super::run::{Run, Whole};
use crate::error::TrainError;

/// A run that failed: the cause, and the outcome of the run.
///
/// The text is the cause and what of the learner is intact; the cause is also the [`source`](Error::source).
///
/// # Example
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
/// use pronk::Whole;
///
/// // A learning rate that soon makes updates non-finite.
/// let mut config = TrainerConfig::default();
/// config.workers.num_rollout_workers = 0;
/// config.learner.lr = 1e38;
/// let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
/// let failed = trainer.run(StopWhen::default()).expect_err("no update is finite");
/// println!("{failed}");
/// assert!(failed.run.ledger_closed());
/// if failed.run.whole != Whole::Nothing {
///     failed.run.save(tempfile::tempdir()?)?; // as after a success
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FailedRun {
    /// Why it failed.
    pub cause: TrainError,
    /// The outcome: the last result, the ledgers, the failures, and the checkpoints of what is intact.
    pub run: Box<Run>,
}

impl fmt::Display for FailedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = match self.run.whole {
            Whole::Learner => "the learner is intact and can be saved",
            Whole::PublishedWeights => "the newest published weights are intact and can be saved",
            Whole::Nothing => "nothing of the learner is left",
        };
        write!(f, "{}; {left}, after {} env-steps", self.cause, self.run.steps.sampled.env)
    }
}

impl fmt::Debug for FailedRun {
    /// Without the run, whose ledgers and weights would bury the cause in the output of a failing program.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailedRun").field("cause", &self.cause).field("whole", &self.run.whole).finish_non_exhaustive()
    }
}

impl Error for FailedRun {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// The cause alone.
impl From<FailedRun> for TrainError {
    fn from(failed: FailedRun) -> Self {
        failed.cause
    }
}
