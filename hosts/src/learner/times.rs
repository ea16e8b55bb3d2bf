//! The time of hosts in the ledger of the run.

use pronk_metrics::{ThreadState, ThreadTime, TimeLedger};
use pronk_rollout::{EnvThreadState, InferenceState, SupervisorState, WorkerState};

use crate::actor_states::{BeatState, CourierState, FetchState};
use crate::wire::KindTime;

/// Most kinds of threads that a host may have.
const MAX_KINDS: usize = 32;

/// The account of all hosts that have left.
const LEFT: &str = "left";

/// Replaces the time of a host.
///
/// # Errors
/// What no host can have.
pub(super) fn adopt(ledger: &TimeLedger, host: &str, times: &[KindTime]) -> Result<(), String> {
    if times.len() > MAX_KINDS {
        return Err(format!("it states the time of more than {MAX_KINDS} kinds of threads"));
    }
    for KindTime { kind, wall_secs, states, threads } in times {
        let is_time = |secs: &f64| secs.is_finite() && *secs >= 0.0;
        let is_name = !kind.is_empty() && kind.len() <= 64 && !kind.contains(['/', '.']);
        if !is_name || !is_time(wall_secs) || !states.iter().all(|(_, secs)| is_time(secs)) {
            return Err("it states a time that is no time, or that of no kind of threads".to_owned());
        }
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
        ledger.adopt(time);
    }
    Ok(())
}

/// Moves the time of a host that is gone.
pub(super) fn end(ledger: &TimeLedger, host: &str) {
    let prefix = format!("{host}/");
    for time in ledger.read() {
        if let Some(kind) = time.thread.strip_prefix(&prefix) {
            ledger.end_adopted(&time.thread, &format!("{LEFT}/{kind}"));
        }
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
