//! [`CheckpointConfig`]: how often a run saves itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::every::Every;

/// How often a run saves itself, and which checkpoints it keeps; where is said by
/// [`TrainerBuilder::checkpoints`](crate::TrainerBuilder::checkpoints).
///
/// ```
/// use pronk::{Every, TrainerConfig};
///
/// let file = r#"{ "checkpoint": { "every": "1M env-steps", "keep": 5, "keep_best": true } }"#;
/// let config: TrainerConfig = serde_json::from_str(file)?;
/// assert_eq!((config.checkpoint.every, config.checkpoint.keep), (Every::EnvSteps(1_000_000), 5));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointConfig {
    /// How often, at the end of the iteration in which it becomes due (60 s).
    pub every: Every,
    /// How many of the newest are kept (3).
    pub keep: usize,
    /// Keeps one of every so many env-steps for good (none).
    pub keep_every: Option<u64>,
    /// Keeps the one with the highest mean return over enough episodes for good (false).
    pub keep_best: bool,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { every: Every::Time(Duration::from_secs(60)), keep: 3, keep_every: None, keep_best: false }
    }
}
