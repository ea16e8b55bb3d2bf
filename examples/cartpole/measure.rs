//! How fast a run is, and who keeps it from being faster.

use std::time::Duration;

use anyhow::Context;
use pronk::{ResultDict, ThreadTime, TrainResult, Trainer};
use serde_json::{Map, Value};

const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(20);

/// The states in which a thread has nothing to do: workers wait for room, the learner for data, the trainer for news.
const WAITING: [&str; 5] = ["blocked", "idle", "starved", "listening", "away"];

/// Trains for a while, then measures, and adds what it found to the run's summary.
///
/// `threads` is the share of the measured time that each thread spent working and waiting. The one that waited least is
/// the `limit`: the others would have been faster.
pub(crate) fn measure(mut trainer: Trainer, train_batch_size: usize) -> anyhow::Result<ResultDict> {
    let before = result_at(&mut trainer, WARM_UP)?;
    let after = result_at(&mut trainer, before.time_total + MEASURED)?;
    let secs = (after.time_total - before.time_total).as_secs_f64();
    let rate = |count: fn(&TrainResult) -> u64| (count(&after) - count(&before)) as f64 / secs;

    let mut line = ResultDict::new();
    let summary: Map<String, Value> = serde_json::from_str(&trainer.finish()?.summary().to_string())?;
    summary.into_iter().for_each(|(key, value)| line.set(&key, value));
    line.set("measured_secs", secs);
    line.set("env_steps_sampled_per_s", rate(|result| result.env_steps_sampled));
    line.set("env_steps_trained_per_s", rate(|result| result.env_steps_trained_once));
    line.set("updates_per_s", rate(|result| result.env_steps_trained) / train_batch_size as f64);

    let mut limit = (f64::INFINITY, "nobody");
    // The time ledger only grows at its end, so both readings begin with the same threads.
    for (now, then) in after.time.iter().zip(&before.time) {
        let waiting =
            (waiting_secs(now) - waiting_secs(then)) / (now.wall_secs - then.wall_secs).max(f64::MIN_POSITIVE);
        line.set(&format!("threads.{}.working", now.thread), 1.0 - waiting);
        line.set(&format!("threads.{}.waiting", now.thread), waiting);
        if waiting < limit.0 {
            limit = (waiting, &now.thread);
        }
    }
    line.set("limit", limit.1);
    Ok(line)
}

/// The first result that is at least this late.
fn result_at(trainer: &mut Trainer, time: Duration) -> anyhow::Result<TrainResult> {
    let is_late = |result: &TrainResult| result.time_total >= time;
    let found = trainer.find(|result| result.as_ref().map_or(true, is_late));
    Ok(found.context("the run ended by itself")??)
}

fn waiting_secs(thread: &ThreadTime) -> f64 {
    thread.states.iter().filter(|(state, _)| WAITING.contains(state)).map(|(_, secs)| secs).sum()
}
