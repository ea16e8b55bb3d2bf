//! Where the time of threads went, as a result shows it.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::ThreadTime;
use crate::result::ResultDict;

/// Writes `<thread>.wall_secs`, `<thread>.current` and `<thread>.states.<state>` below `path`.
///
/// A further thread of a name that is there already appears as `name#2`, so no time is hidden.
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
    let threads: Map<String, Value> = names(times)
        .into_iter()
        .zip(times)
        .map(|(name, time)| {
            let states: Map<String, Value> =
                time.states.iter().map(|&(state, secs)| (state.to_owned(), secs.into())).collect();
            let entry = json!({"wall_secs": time.wall_secs, "current": time.current, "states": states});
            (name, entry)
        })
        .collect();
    dict.set(path, threads);
}

/// Writes `<thread>.<state>` below `path`: the share, from 0 to 1, of the thread's wall time since `before` that it spent
/// in the state.
///
/// Both readings are of one ledger, `before` the earlier one. A thread that is not in `before` is measured from its
/// start; one whose time stood still has shares of 0. The names are those of [`write_thread_times`].
///
/// ```
/// # use pronk_metrics::{ResultDict, ThreadTime, write_shares};
/// let learner = |idle, busy| ThreadTime {
///     thread: "learner".into(),
///     wall_secs: idle + busy,
///     states: vec![("idle", idle), ("busy", busy)],
///     current: Some("busy"),
///     since_secs: 0.0,
/// };
/// let mut result = ResultDict::new();
/// write_shares(&[learner(3.0, 9.0)], &[learner(2.0, 6.0)], &mut result, "ledger.time_this_iter");
/// assert_eq!(result.number("ledger.time_this_iter.learner.busy"), Some(0.75));
/// ```
pub fn write_shares(now: &[ThreadTime], before: &[ThreadTime], dict: &mut ResultDict, path: &str) {
    // A ledger only grows at its end, so a thread has the same name in both readings.
    let names_before = names(before);
    let threads: Map<String, Value> = names(now)
        .into_iter()
        .zip(now)
        .map(|(name, time)| {
            let at = names_before.iter().position(|earlier| *earlier == name);
            let shares = shares(time, at.map(|at| &before[at]));
            (name, Value::Object(shares))
        })
        .collect();
    dict.set(path, threads);
}

fn shares(now: &ThreadTime, before: Option<&ThreadTime>) -> Map<String, Value> {
    let wall = now.wall_secs - before.map_or(0.0, |before| before.wall_secs);
    now.states
        .iter()
        .map(|&(state, secs)| {
            let earlier = before
                .and_then(|before| before.states.iter().find(|(name, _)| *name == state))
                .map_or(0.0, |&(_, secs)| secs);
            // Differences of rounded seconds can leave the range by a bit.
            let share = if wall > 0.0 { ((secs - earlier) / wall).clamp(0.0, 1.0) } else { 0.0 };
            (state.to_owned(), share.into())
        })
        .collect()
}

/// A name for each thread: its own, or where that is taken its own and a number.
fn names(times: &[ThreadTime]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names = Vec::with_capacity(times.len());
    for time in times {
        let mut name = time.thread.clone();
        let mut n = 1;
        while !taken.insert(name.clone()) {
            n += 1;
            name = format!("{}#{n}", time.thread);
        }
        names.push(name);
    }
    names
}
