//! [`EvaluationConfig`]: evaluations beside a run.

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::check::refuse;
use super::every::Every;

/// The most episodes of an evaluation, which keeps the return of each.
const MOST_EPISODES: usize = 1 << 20;

/// How often a run evaluates its policy, and how; off by default.
///
/// A thread, `evaluator`, plays whole episodes in environments of its own with the newest published weights,
/// while the run goes on; training does not wait for it, and its weights do not depend on it. The results
/// have the figures under `evaluation`. The policy with the highest mean return so far is kept: in
/// [`Run::best`](crate::Run::best), and, in a run that saves
/// [`checkpoints`](crate::TrainerBuilder::checkpoints), in the folder `best` below theirs.
///
/// Every evaluation of a run plays the same episodes, those that [`evaluate`](crate::evaluate) plays for the
/// seed of the run, and none of training. So two evaluations differ only by their weights.
///
/// One evaluation is made at a time. One that is due while the one before still runs is made as soon as that
/// has ended; further ones that become due meanwhile are skipped, and counted. The same weights are not
/// evaluated twice in a row. Without threads, and in runs that [repeat](crate::config::Admission),
/// evaluations begin between two iterations, so that they are of the same weights in each run unless one was
/// late.
///
/// The end of a run interrupts an evaluation, and none is made of the final weights: an end does not wait for
/// episodes. To evaluate them, call [`evaluate`](crate::evaluate) with the policy of the run's checkpoint.
///
/// A failure of an environment fails its evaluation and not the run. A run that listens for workers on other
/// machines evaluates on its own.
///
/// With several agents all policies play, also frozen ones, as the mapping has them in training, and the
/// figures are in total and by policy. The best is the evaluation in which the agents of the policies that
/// learn got the most together; all policies of it are kept. Where these play against each other for a fixed
/// sum, no evaluation is better than another, and the first is kept: to see progress, let a policy learn
/// against a frozen one.
///
/// ```
/// use pronk::config::Selection;
/// use pronk::{Every, TrainerConfig};
///
/// let file = r#"{ "evaluation": { "every": "50k env-steps", "selection": "sample" } }"#;
/// let config: TrainerConfig = serde_json::from_str(file)?;
/// assert_eq!(config.evaluation.every, Some(Every::EnvSteps(50_000)));
/// assert_eq!((config.evaluation.episodes, config.evaluation.selection), (20, Selection::Sample));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// A program that saves the best policy itself, and plays the episodes of its evaluation again:
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
/// use pronk::{ActionSelection, DEFAULT_POLICY, evaluate};
///
/// let folder = tempfile::tempdir()?;
/// let mut config = TrainerConfig::default();
/// config.results.min_time_s_per_iteration = 0.01;
/// config.evaluation.every = Some("10 ms".parse()?);
/// let (seed, episodes) = (config.seed, config.evaluation.episodes);
/// let env = |_: &EnvContext| CartPole::new();
///
/// let mut trainer = Trainer::new(config, env)?;
/// for result in trainer.by_ref() {
///     if result?.dict.number("evaluation.episode_reward_mean").is_some() {
///         break;
///     }
/// }
/// let run = trainer.finish()?;
/// if let Some(best) = run.best.get(DEFAULT_POLICY) {
///     best.save(folder.path())?;
///     let again = evaluate(&mut best.policy()?, &mut ActionSelection::Mode, &env, episodes, seed)?;
///     assert_eq!(again.return_mean(), best.score.map(|score| score.return_mean));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationConfig {
    /// How often; `None` for never (the default).
    pub every: Option<Every>,
    /// Whole episodes of each evaluation (20), of which up to 32 are played together.
    pub episodes: usize,
    /// How actions are selected (the most likely ones).
    pub selection: Selection,
    /// After how many steps an episode is ended that goes on, so that an evaluation ends; it counts with the
    /// return that it has come to. `None`, the default, for 108,000, or the environment's own limit if that
    /// is higher.
    pub max_episode_steps: Option<u32>,
}

impl Default for EvaluationConfig {
    fn default() -> Self {
        Self { every: None, episodes: 20, selection: Selection::Mode, max_episode_steps: None }
    }
}

impl EvaluationConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.max_episode_steps == Some(0) {
            let reason = "an episode has a step; for the usual limit, leave it out";
            return Err(refuse("evaluation.max_episode_steps", 0, reason));
        }
        let reason = match self.episodes {
            0 => "an evaluation needs an episode; to evaluate never, leave evaluation.every out",
            1..=MOST_EPISODES => return Ok(()),
            _ => "a mean of fewer says as much, and the return of each is kept; set at most 2^20",
        };
        Err(refuse("evaluation.episodes", self.episodes, reason))
    }
}

/// How an evaluation selects actions.
///
/// ```
/// use pronk::config::Selection;
///
/// assert_eq!(serde_json::from_str::<Selection>(r#""mode""#)?, Selection::Mode);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// The most likely action.
    Mode,
    /// A sample from the policy's distribution, as in training. Each evaluation draws anew from
    /// `Rng::seed_from(seed)`, with the seed of the run.
    Sample,
}
