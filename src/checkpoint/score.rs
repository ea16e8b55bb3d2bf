//! [`Score`]: how a policy did in an evaluation beside its run.

use pronk_metrics::ByPolicy;
use pronk_rollout::ReturnStat;
use serde::{Deserialize, Serialize};

/// How a policy did in an evaluation beside its run: see [`EvaluationConfig`](crate::config::EvaluationConfig).
///
/// ```no_run
/// use pronk::Checkpoint;
///
/// let best = Checkpoint::load("runs/cartpole/checkpoints/best")?;
/// if let Some(score) = best.score {
///     println!("{} over {} episodes", score.return_mean, score.episodes);
/// }
/// # Ok::<(), pronk::CheckpointError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Score {
    /// Mean return. With several agents that of the policies that learn: what their agents got together in an
    /// episode. A frozen policy's agents do not count.
    pub return_mean: f64,
    /// Number of episodes.
    pub episodes: u64,
    /// The version of the evaluated weights: the number of their publication.
    pub version: u64,
    /// Env-steps that the run had sampled when the evaluation began.
    pub env_steps: u64,
}

/// The figures of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) score: Score,
    /// Over all agents, which the score is not; `None` where an older version saved it.
    #[serde(default)]
    pub(crate) return_mean: Option<f64>,
    pub(crate) return_min: f64,
    pub(crate) return_max: f64,
    pub(crate) len_mean: f64,
    /// Of agents, by policy; empty for one agent.
    #[serde(default)]
    pub(crate) policy_returns: ByPolicy<ReturnStat>,
    /// Of its episodes.
    pub(crate) env_steps: u64,
    pub(crate) took_secs: f64,
}

/// What a run's checkpoint says of its evaluations. One that is in progress is not among them: a resumed run
/// makes it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedEvaluations {
    /// Evaluations made, and those that failed.
    pub(crate) made: u64,
    pub(crate) failed: u64,
    /// Intervals that passed without one of their own.
    pub(crate) skipped: u64,
    pub(crate) last_failure: Option<String>,
    pub(crate) newest: Option<Figures>,
    pub(crate) best: Option<Score>,
    /// The next one is counted for from these env-steps on, and since so many seconds.
    pub(crate) since_env_steps: u64,
    pub(crate) since_secs: f64,
}
