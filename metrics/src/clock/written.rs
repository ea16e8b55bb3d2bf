//! The time of threads in results.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::ThreadTime;
use crate::result::ResultDict;

/// Writes `<thread>.wall_secs`, `<thread>.current`, `<thread>.threads` and `<thread>.states.<state>` below
/// `path`, and for processes `<thread>.processor_secs`.
///
/// ```
/// # use pronk_metrics::{ResultDict, StateClock, TimeLedger, write_thread_times};
/// # pronk_metrics::thread_states! { enum S { Idle = "idle", Busy = "busy" } }
/// let ledger = TimeLedger::new();
/// let clock = StateClock::new("learner", S::Idle);
/// ledger.add(clock.reader());
/// let mut result = ResultDict::new();
/// write_thread_times(&ledger.read(), &mut result, "ledger.time");
/// assert_eq!(result.number("ledger.time.learner.states.busy"), Some(0.0));
/// ```
pub fn write_thread_times(times: &[ThreadTime], dict: &mut ResultDict, path: &str) {
    let entry = |time: &ThreadTime| {
        let states: Map<String, Value> =
            time.states.iter().map(|&(state, secs)| (state.to_owned(), secs.into())).collect();
        let mut entry = json!({
            "wall_secs": time.wall_secs,
            "current": time.current,
            "threads": time.n_threads,
            "states": states,
        });
        if let Some(secs) = time.processor_secs {
            entry["processor_secs"] = secs.into();
        }
        entry
    };
    let threads: Map<String, Value> = times.iter().map(|time| (time.thread.clone(), entry(time))).collect();
    dict.set(path, threads);
}

/// Writes `<thread>.<state>` below `path`: the share, from 0 to 1, of the thread's wall time since `before`,
/// an earlier reading of the same ledger. A thread that is not in `before` counts from its start; one whose
/// time has not advanced has shares of 0.
///
/// ```
/// # use pronk_metrics::{ResultDict, ThreadTime, write_shares};
/// let learner = |idle, busy| ThreadTime {
///     thread: "learner".into(),
///     wall_secs: idle + busy,
///     states: vec![("idle", idle), ("busy", busy)],
///     current: Some("busy"),
///     since_secs: 0.0,
///     n_threads: 1,
///     n_switches: 0,
///     processor_secs: None,
/// };
/// let mut result = ResultDict::new();
/// write_shares(&[learner(3.0, 9.0)], &[learner(2.0, 6.0)], &mut result, "ledger.time_this_iter");
/// assert_eq!(result.number("ledger.time_this_iter.learner.busy"), Some(0.75));
/// ```
pub fn write_shares(now: &[ThreadTime], before: &[ThreadTime], dict: &mut ResultDict, path: &str) {
    let before: HashMap<&str, &ThreadTime> = before.iter().map(|time| (&*time.thread, time)).collect();
    let entry = |time: &ThreadTime| -> Map<String, Value> {
        let shares = shares(time, before.get(&*time.thread).copied());
        shares.into_iter().map(|(state, share)| (state.to_owned(), share.into())).collect()
    };
    let threads: Map<String, Value> = now.iter().map(|time| (time.thread.clone(), entry(time).into())).collect();
    dict.set(path, threads);
}

/// The share of each state of the wall time between two readings of a thread, or since its start.
pub fn shares(now: &ThreadTime, before: Option<&ThreadTime>) -> Vec<(&'static str, f64)> {
    let wall = now.wall_secs - before.map_or(0.0, |before| before.wall_secs);
    now.states
        .iter()
        .map(|&(state, secs)| {
            let earlier = before
                .and_then(|before| before.states.iter().find(|(name, _)| *name == state))
                .map_or(0.0, |&(_, secs)| secs);
            // Differences of rounded seconds can leave the range by one bit.
            let share = if wall > 0.0 { ((secs - earlier) / wall).clamp(0.0, 1.0) } else { 0.0 };
            (state, share)
        })
        .collect()
}
