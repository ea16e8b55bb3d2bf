//! [`Cell`]: the matrix.

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
    /// With an error that says one of these.
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
    /// How long nothing may move before the run is taken to hang.
    pub(crate) patience_secs: u64,
}

impl Cell {
    const fn new(name: &'static str, about: &'static str, train: Train) -> Self {
        let (fault, end) = (Fault::Inside, End::Well);
        let (may, shows, is_exact, spare_threads, patience_secs): (&[&str], _, _, _, _) = (&[], None, false, 0, 60);
        Self { name, about, train, fault, end, may, shows, is_exact, spare_threads, patience_secs }
    }

    const fn exact(self) -> Self {
        Self { is_exact: true, ..self }
    }

    const fn hit_by(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    const fn shows(self, figure: &'static str) -> Self {
        Self { shows: Some(figure), ..self }
    }

    const fn may(self, may: &'static [&'static str]) -> Self {
        Self { may, ..self }
    }

    const fn spare_threads(self, spare_threads: u64) -> Self {
        Self { spare_threads, ..self }
    }

    const fn fails(self, words: &'static [&'static str]) -> Self {
        Self { end: End::Fails(words), ..self }
    }

    const fn patience(self, patience_secs: u64) -> Self {
        Self { patience_secs, ..self }
    }

    /// A cell of the matrix, or one whose fault is to be found.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        MATRIX.iter().chain(SABOTAGE).find(|cell| cell.name == name)
    }
}

const LOST: &str = "counters.num_env_steps_lost";

/// What an allocation says that fails, and a thread for which there is no room.
const NO_MEMORY: &[&str] = &["memory allocation of", "out of memory", "Cannot allocate memory"];

pub(crate) static MATRIX: &[Cell] = &[
    Cell::new("plain", "nothing goes wrong: IMPALA, free workers", trainings::plain).exact(),
    Cell::new("without-threads", "nothing: one thread does all", trainings::without_threads).exact(),
    Cell::new("in-turns", "nothing: PPO, deterministic admission, minibatches", trainings::in_turns).exact(),
    Cell::new("replay", "nothing: APPO, replay, loaders, a ring of minibatches", trainings::replayed).exact(),
    Cell::new("shared", "nothing: shared inference, moments, evaluation", trainings::shared_inference).exact(),
    Cell::new("groups", "nothing: groups of environments on threads, LSTM", trainings::groups),
    Cell::new("policies", "nothing: two agents with a policy each", trainings::policies),
    Cell::new("panics", "environments panic and err", trainings::panics).shows(LOST),
    Cell::new("panics-groups", "the same on threads of groups", trainings::panics_of_groups).shows(LOST),
    Cell::new("hangs", "environments hang, and come back when they are replaced", trainings::hangs)
        .shows("workers.num_abandoned")
        .may(&["abandoned"])
        .spare_threads(64),
    Cell::new("lies", "environments return NaN, infinity, wrong lengths, nothing", trainings::lies).shows(LOST),
    Cell::new("children", "processes of environments are killed and stopped", trainings::processes)
        .hit_by(Fault::Children)
        .shows(LOST),
    Cell::new("lying-children", "processes of environments break the protocol", trainings::lying_processes)
        .shows("workers.restarts"),
    Cell::new("disk", "the disk of checkpoints, record and logs is full now and then", trainings::recorded)
        .hit_by(Fault::FullDisk)
        .may(&["checkpoint_failures", "reporter_failures"])
        .shows("ended.checkpoint_failures"),
    Cell::new("clock", "the wall clock steps by hours and days", trainings::plain).hit_by(Fault::Clock).exact(),
    Cell::new("memory", "a limit of memory that is just enough", trainings::plain)
        .hit_by(Fault::Memory { kib: 80 << 10 })
        .exact(),
    Cell::new("little-memory", "a limit of memory that is too low", trainings::large)
        .hit_by(Fault::Memory { kib: 320 << 10 })
        .fails(NO_MEMORY),
    Cell::new("reporters", "a reporter blocks for seconds, another panics", trainings::reporters)
        .may(&["reporter_failures"])
        .shows("ended.reporter_failures")
        .exact(),
    Cell::new("signals", "SIGINT, SIGTERM and SIGKILL at random, and resumed", trainings::plain).hit_by(Fault::Signals),
    Cell::new("hosts", "hosts come, go and are cut off, on a bad network", hosts::train).shows("hosts.joined"),
];

/// What the checks have to find: `tests/soak.rs` runs these.
static SABOTAGE: &[Cell] = &[
    Cell::new("leaks-descriptors", "", sabotage::leaks_descriptors),
    Cell::new("leaks-threads", "", sabotage::leaks_threads),
    Cell::new("leaks-memory", "", sabotage::leaks_memory),
    Cell::new("miscounts", "", sabotage::miscounts),
    Cell::new("loses-time", "", sabotage::loses_time),
    Cell::new("goes-back", "", sabotage::goes_back),
    Cell::new("skips-a-step", "", sabotage::skips_a_step).exact(),
    Cell::new("stalls", "", sabotage::stalls).patience(3),
    Cell::new("fails", "", sabotage::fails),
];
