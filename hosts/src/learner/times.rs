//! The time of hosts in the ledger of the run.

use std::collections::BTreeMap;

use pronk_metrics::{ThreadState, ThreadTime, TimeLedger};
use pronk_rollout::{EnvThreadState, InferenceState, SupervisorState, WorkerState};

use crate::actor_states::{BeatState, CourierState, FetchState};
use crate::sync::{Mutex, PoisonError};
use crate::wire::KindTime;

/// Most kinds of threads that a host may have.
const MAX_KINDS: usize = 32;

/// Most states of a kind, most threads, and the longest time: more than any host has.
const MAX_STATES: usize = 64;
const MAX_THREADS: u64 = 1 << 20;
const MAX_SECS: f64 = 1e12;

/// What the accounts of the other hosts begin with, and of all that have left.
pub(super) const TOGETHER: [&str; 2] = ["others", "left"];

/// The time of each kind of threads.
pub(super) type ByKind = BTreeMap<String, ThreadTime>;

/// The time of the hosts in the ledger of the run: of listed ones by their names, of the others together.
pub(super) struct Times {
    ledger: TimeLedger,
    others: Sum,
    left: Sum,
}

impl Times {
    pub(super) fn new(ledger: TimeLedger) -> Self {
        let [others, left] = TOGETHER.map(|name| Sum { name, by_kind: Mutex::default() });
        Self { ledger, others, left }
    }

    /// Replaces the time of a host, which is `known` so far; `listed` is its name if it is listed.
    ///
    /// # Errors
    /// What no host can have.
    pub(super) fn adopt(&self, listed: Option<&str>, times: &[KindTime], known: &mut ByKind) -> Result<(), String> {
        for stated in times {
            let kind = &stated.kind;
            let time = checked(stated)?;
            if known.len() == MAX_KINDS && !known.contains_key(kind) {
                return Err(format!("it states the time of more than {MAX_KINDS} kinds of threads"));
            }
            let before = known.insert(kind.clone(), time.clone());
            match listed {
                Some(host) => self.ledger.adopt(ThreadTime { thread: account(host, kind), ..time }),
                None => self.others.exchange(&self.ledger, kind, before.as_ref(), Some(&time)),
            }
        }
        Ok(())
    }

    /// Moves the time of a host that is gone.
    pub(super) fn end(&self, listed: Option<&str>, times: ByKind) {
        for (kind, time) in times {
            match listed {
                Some(host) => self.ledger.forget_adopted(&account(host, &kind)),
                None => self.others.exchange(&self.ledger, &kind, Some(&time), None),
            }
            self.left.exchange(&self.ledger, &kind, None, Some(&time));
        }
    }
}

fn account(host: &str, kind: &str) -> String {
    format!("{host}/{kind}")
}

/// The time of several hosts.
struct Sum {
    name: &'static str,
    by_kind: Mutex<ByKind>,
}

impl Sum {
    /// Replaces the part of a host.
    fn exchange(&self, ledger: &TimeLedger, kind: &str, before: Option<&ThreadTime>, now: Option<&ThreadTime>) {
        // Sums of valid times are valid after each line.
        let mut by_kind = self.by_kind.lock().unwrap_or_else(PoisonError::into_inner);
        // Hosts that come and go and invent names do not add accounts for ever.
        let kind = if by_kind.len() >= MAX_KINDS && !by_kind.contains_key(kind) { "other" } else { kind };
        let thread = account(self.name, kind);
        let sum = by_kind.entry(kind.to_owned()).or_insert_with(|| ThreadTime { thread, ..ThreadTime::default() });
        if let Some(before) = before {
            sum.subtract(before);
            sum.n_threads = sum.n_threads.saturating_sub(before.n_threads);
        }
        if let Some(now) = now {
            sum.add(now);
        }
        ledger.adopt(sum.clone());
    }
}

/// What a host states of a kind of threads.
fn checked(KindTime { kind, wall_secs, states, threads }: &KindTime) -> Result<ThreadTime, String> {
    let is_time = |secs: &f64| (0.0..=MAX_SECS).contains(secs);
    let is_name = !kind.is_empty() && kind.len() <= 64 && !kind.contains(['/', '.']);
    let is_short = states.len() <= MAX_STATES && *threads <= MAX_THREADS;
    if !is_name || !is_short || !is_time(wall_secs) || !states.iter().all(|(_, secs)| is_time(secs)) {
        return Err("it states a time that is no time, or that of no kind of threads".to_owned());
    }
    let mut time = ThreadTime { wall_secs: *wall_secs, n_threads: *threads, ..ThreadTime::default() };
    for (state, secs) in states {
        let state = known(state);
        match time.states.iter_mut().find(|(known, _)| *known == state) {
            Some((_, sum)) => *sum += secs,
            None => time.states.push((state, *secs)),
        }
    }
    match time.is_closed() {
        true => Ok(time),
        false => Err(format!("the states of its {kind} threads are not their wall time of {wall_secs} s")),
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
