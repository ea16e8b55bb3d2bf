//! [`Cell`]: the matrix.

use std::time::Duration;

use crate::hosts;
use crate::sabotage;
use crate::trainings::{self, Train};

/// What is done to the process of a cell from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing: what goes wrong is inside.
    Inside,
    /// Its children are killed, and stopped for a while.
    Children,
    /// It is interrupted, terminated or killed, and started again.
    Signals,
    /// Its file system, of this size, is full now and then.
    FullDisk,
    /// Its wall clock steps back and forth.
    Clock,
    /// It has so much memory for data.
    Memory { kib: u64 },
}

/// How the run of a cell has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At its limit of time, or by the signal that it was sent.
    Well,
    /// With an error that has one of these texts.
    Fails(&'static [&'static str]),
}

/// One run under one fault.
pub(crate) struct Cell {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) train: Train,
    pub(crate) fault: Fault,
    pub(crate) end: End,
    /// What the outcome may list, which others have to leave empty.
    pub(crate) may: &'static [&'static str],
    /// The figure of results or of the outcome that shows that the fault was felt.
    pub(crate) shows: Option<&'static str>,
    /// Whether the environments have made as many steps as the ledger has.
    pub(crate) is_exact: bool,
    /// Threads that the fault may leave for a while.
    pub(crate) spare_threads: u64,
    /// How long there may be no new env-steps and no thread that runs before the run is taken to hang.
    pub(crate) patience_secs: u64,
}

impl Cell {
    const fn new(name: &'static str, about: &'static str, train: Train) -> Self {
        let (fault, end) = (Fault::Inside, End::Well);
        let (may, shows): (&[&str], _) = (&[], None);
        Self { name, about, train, fault, end, may, shows, is_exact: false, spare_threads: 0, patience_secs: 60 }
    }

    pub(crate) const fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_secs)
    }

    /// How long a run may take to end after its limit of time or a signal, and its process after it has
    /// closed its output.
    pub(crate) const fn overtime(&self) -> Duration {
        Duration::from_secs(2 * self.patience_secs)
    }

    /// A cell of the matrix, or one that the checks have to fail.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        MATRIX.iter().chain(SABOTAGE).find(|cell| cell.name == name)
    }
}

const LOST: Option<&str> = Some("counters.num_env_steps_lost");

/// The errors of an allocation, and of a thread for which there is no memory.
const NO_MEMORY: &[&str] = &["memory allocation of", "out of memory", "Cannot allocate memory"];

pub(crate) static MATRIX: &[Cell] = &[
    Cell { is_exact: true, ..Cell::new("plain", "no fault: IMPALA, free workers", trainings::plain) },
    Cell { is_exact: true, ..Cell::new("without-threads", "no fault: one thread", trainings::without_threads) },
    Cell { is_exact: true, ..Cell::new("in-turns", "no fault: PPO, deterministic admission", trainings::in_turns) },
    Cell { is_exact: true, ..Cell::new("replay", "no fault: APPO, replay, loaders", trainings::replayed) },
    Cell {
        is_exact: true,
        ..Cell::new("shared", "no fault: shared inference, evaluation", trainings::shared_inference)
    },
    Cell::new("groups", "no fault: groups of environments on threads, LSTM", trainings::groups),
    Cell::new("policies", "no fault: two agents with a policy each", trainings::policies),
    Cell { shows: LOST, ..Cell::new("panics", "environments panic and return errors", trainings::panics) },
    Cell { shows: LOST, ..Cell::new("panics-groups", "the same on threads of groups", trainings::panics_of_groups) },
    Cell {
        shows: Some("workers.num_abandoned"),
        may: &["abandoned"],
        spare_threads: 64,
        ..Cell::new("hangs", "environments hang, and come back when they are replaced", trainings::hangs)
    },
    Cell { shows: LOST, ..Cell::new("lies", "environments return NaN and wrong lengths", trainings::lies) },
    Cell {
        fault: Fault::Children,
        shows: LOST,
        ..Cell::new("children", "processes are killed and stopped", trainings::processes)
    },
    Cell {
        shows: Some("workers.restarts"),
        ..Cell::new("lying-children", "processes break the protocol", trainings::lying_processes)
    },
    Cell {
        fault: Fault::FullDisk,
        may: &["checkpoint_failures", "reporter_failures"],
        shows: Some("ended.checkpoint_failures"),
        ..Cell::new("disk", "the disk of checkpoints, record and logs is full now and then", trainings::recorded)
    },
    Cell {
        fault: Fault::Clock,
        is_exact: true,
        ..Cell::new("clock", "the wall clock steps by days", trainings::plain)
    },
    Cell {
        // The allocator's least, 64 MiB, and the stacks of eight threads.
        fault: Fault::Memory { kib: 84 << 10 },
        is_exact: true,
        ..Cell::new("memory", "a limit of memory that is just enough", trainings::plain)
    },
    Cell {
        fault: Fault::Memory { kib: 320 << 10 },
        end: End::Fails(NO_MEMORY),
        ..Cell::new("little-memory", "a limit of memory that is too low", trainings::large)
    },
    Cell {
        may: &["reporter_failures"],
        shows: Some("ended.reporter_failures"),
        is_exact: true,
        ..Cell::new("reporters", "a reporter blocks for seconds, another panics", trainings::reporters)
    },
    Cell {
        fault: Fault::Signals,
        shows: Some("life"),
        ..Cell::new("signals", "SIGINT, SIGTERM and SIGKILL at random, and resumed", trainings::plain)
    },
    Cell { shows: Some("hosts.lost"), ..Cell::new("hosts", "hosts come, go and are cut off", hosts::train) },
];

/// Runs that the checks have to fail: `tests/soak.rs` has the check for each.
static SABOTAGE: &[Cell] = &[
    Cell::new("leaks-descriptors", "", sabotage::leaks_descriptors),
    Cell::new("leaks-threads", "", sabotage::leaks_threads),
    Cell::new("leaks-memory", "", sabotage::leaks_memory),
    Cell { is_exact: true, ..Cell::new("skips-a-step", "", sabotage::skips_a_step) },
    Cell { patience_secs: 1, ..Cell::new("stalls", "", sabotage::stalls) },
    Cell { fault: Fault::Signals, patience_secs: 5, ..Cell::new("ignores-signals", "", sabotage::ignores_signals) },
    Cell::new("fails", "", sabotage::fails),
];
