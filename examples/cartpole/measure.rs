//! The throughput of a run, and its bottleneck.

use anyhow::Context;
use pronk::{ResultDict, TrainResult, Trainer};
use serde_json::{Map, Value};

/// Seconds of an iteration: the first warms up, the second is measured.
pub(crate) const ITERATION_SECS: f64 = 10.0;

/// Trains for one iteration, measures the next, and adds the figures to the summary.
///
/// `limit` and `bottleneck` are the run's own; `threads` has each thread's share of time by state.
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
