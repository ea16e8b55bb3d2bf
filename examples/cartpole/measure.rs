//! How fast a run is, and what keeps it from being faster.

use anyhow::Context;
use pronk::{ResultDict, TrainResult, Trainer};
use serde_json::{Map, Value};

/// How long an iteration is to be. The first one warms up, the second is measured.
pub(crate) const ITERATION_SECS: f64 = 10.0;

/// Trains for one iteration, then measures the next, and adds what it found to the run's summary.
///
/// `limit` is what the run itself found out about that iteration, and `bottleneck` why; `threads` has the
/// share of it that each thread spent in each state.
pub(crate) fn measure(mut trainer: Trainer, train_batch_size: usize) -> anyhow::Result<ResultDict> {
    let mut next = || anyhow::Ok(trainer.next().context("the run ended by itself")??);
    let (before, after) = (next()?, next()?);
    let secs = after.time_this_iteration.as_secs_f64();
    let rate = |count: fn(&TrainResult) -> u64| (count(&after) - count(&before)) as f64 / secs;
    let of_result = |path: &str| after.dict.get(path).cloned().unwrap_or(Value::Null);

    let mut line = ResultDict::new();
    let summary: Map<String, Value> = serde_json::from_str(&trainer.finish()?.summary().to_string())?;
    summary.into_iter().for_each(|(key, value)| line.set(&key, value));
    line.set("measured_secs", secs);
    line.set("env_steps_sampled_per_s", rate(|result| result.env_steps_sampled));
    line.set("env_steps_trained_per_s", rate(|result| result.env_steps_trained_once));
    line.set("updates_per_s", rate(|result| result.env_steps_trained) / train_batch_size as f64);
    line.set("threads", of_result("ledger.time_this_iter"));
    line.set("limit", of_result("bottleneck.limit"));
    line.set("bottleneck", of_result("bottleneck"));
    Ok(line)
}
