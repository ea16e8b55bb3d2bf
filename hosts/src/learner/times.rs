//! The time of hosts in the ledger of the run.

use std::collections::BTreeSet;

use pronk_metrics::{ThreadState, ThreadTime, TimeLedger};
use pronk_rollout::{EnvThreadState, InferenceState, SupervisorState, WorkerState};

use crate::actor_states::{BeatState, CourierState, FetchState};
use crate::wire::KindTime;

/// Most kinds of threads that a host may have.
const MAX_KINDS: usize = 32;

/// Most states of a kind, most threads, and the longest time: more than any host has.
const MAX_STATES: usize = 64;
const MAX_THREADS: u64 = 1 << 20;
const MAX_SECS: f64 = 1e12;

/// The account of all hosts that have left.
pub(super) const LEFT: &str = "left";

/// Replaces the time of a host, which has named the `kinds` before.
///
/// # Errors
/// What no host can have.
pub(super) fn adopt(
    ledger: &TimeLedger,
    host: &str,
    times: &[KindTime],
    kinds: &mut BTreeSet<String>,
) -> Result<(), String> {
    for KindTime { kind, wall_secs, states, threads } in times {
        let is_time = |secs: &f64| (0.0..=MAX_SECS).contains(secs);
        let is_name = !kind.is_empty() && kind.len() <= 64 && !kind.contains(['/', '.']);
        let is_short = states.len() <= MAX_STATES && *threads <= MAX_THREADS;
        if !is_name || !is_short || !is_time(wall_secs) || !states.iter().all(|(_, secs)| is_time(secs)) {
            return Err("it states a time that is no time, or that of no kind of threads".to_owned());
        }
        if kinds.len() == MAX_KINDS && !kinds.contains(kind) {
            return Err(format!("it states the time of more than {MAX_KINDS} kinds of threads"));
        }
        kinds.insert(kind.clone());
        let mut time = ThreadTime {
            thread: format!("{host}/{kind}"),
            wall_secs: *wall_secs,
            states: Vec::new(),
            current: None,
            since_secs: 0.0,
            n_threads: *threads,
            n_switches: 0,
            processor_secs: None,
        };
        for (state, secs) in states {
            let state = known(state);
            match time.states.iter_mut().find(|(known, _)| *known == state) {
                Some((_, sum)) => *sum += secs,
                None => time.states.push((state, *secs)),
            }
        }
        if !time.is_closed() {
            return Err(format!("the states of its {kind} threads are not their wall time of {wall_secs} s"));
        }
        ledger.adopt(time);
    }
    Ok(())
}

/// Moves the time of a host that is gone, by kind. `left` are the kinds that have such an account.
pub(super) fn end(ledger: &TimeLedger, host: &str, kinds: BTreeSet<String>, left: &mut BTreeSet<String>) {
    for kind in kinds {
        let thread = format!("{host}/{kind}");
        // Hosts that come and go and invent names do not add accounts for ever.
        let kind = if left.len() >= MAX_KINDS && !left.contains(&kind) { "other".to_owned() } else { kind };
        ledger.end_adopted(&thread, &format!("{LEFT}/{kind}"));
        left.insert(kind);
    }
}

/// The name of a state, which is one of those that pronk's threads have.
fn known(state: &str) -> &'static str {
    let all = [
        WorkerState::NAMES,
        EnvThreadState::NAMES,
        InferenceState::NAMES,
        SupervisorState::NAMES,
        CourierState::NAMES,
        BeatState::NAMES,
        FetchState::NAMES,
    ];
    // Threads of plug-ins have states that are not known here.
    all.into_iter().flatten().find(|known| **known == state).copied().unwrap_or("other")
}
