//! [`Figures`]: what the list shows of a result.

use pronk::ResultDict;
use serde::Serialize;
use serde_json::Value;

use crate::settings::as_text;
use crate::short::{MAX_ERROR_CHARS, short};

/// The figures of one result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    #[serde(serialize_with = "as_text")]
    pub(crate) env_steps: Option<u64>,
    pub(crate) episode_return: Option<f64>,
    pub(crate) best_evaluation: Option<f64>,
    pub(crate) newest_evaluation: Option<f64>,
    /// The number of evaluations so far: their curve has fewer points if there are many.
    pub(crate) evaluations: Option<u64>,
    pub(crate) wall_secs: Option<f64>,
    /// Since the start of the run.
    pub(crate) env_steps_per_s: Option<f64>,
    /// The number of results so far.
    pub(crate) results: Option<u64>,
    /// The error that ended the run.
    #[serde(skip)]
    pub(crate) failure: Option<String>,
}

impl Figures {
    pub(crate) fn of(result: &ResultDict) -> Self {
        let count = |path: &str| result.get(path).and_then(Value::as_u64);
        let env_steps = count("num_env_steps_sampled").or_else(|| count("timesteps_total"));
        let wall_secs = result.number("time_total_s");
        let mean_rate = || Some(env_steps? as f64 / wall_secs.filter(|secs| *secs > 0.0)?);
        Self {
            env_steps,
            episode_return: result.number("episode_return_mean").or_else(|| result.number("episode_reward_mean")),
            best_evaluation: result.number("evaluation.best.episode_reward_mean"),
            newest_evaluation: result.number("evaluation.episode_reward_mean"),
            evaluations: count("evaluation.made"),
            wall_secs,
            env_steps_per_s: result.number("throughput.env_steps_per_s_since_start").or_else(mean_rate),
            results: count("training_iteration"),
            failure: result.get("run_failed").and_then(Value::as_str).map(|text| short(text, MAX_ERROR_CHARS)),
        }
    }
}
