//! Golden numbers: what pronk computes, compared with what the systems it re-implements computed.
//!
//! Each file of a golden directory was made by running one of those systems. [`run_dir`] gives every
//! file to the runner of its name and returns a [`Report`] that accounts for every entry: compared,
//! named as a deliberate deviation, or listed as having no runner yet.

use std::path::Path;

use serde_json::Value;

pub mod json;
mod ratio_replay;
mod recorder;
mod report;
mod row_distribution;
mod run;
mod scripted;

mod classic_control;
mod distributions;
mod gae;
mod learner_info;
mod learner_thread;
mod losses;
mod minibatch_buffer;
mod multi_gpu;
mod optim;
mod parallel_workers;
mod replay_batching;
mod seed_samplers;
mod stats;
mod timers_mlagents;
mod vtrace;
mod vtrace_rlax;

pub use recorder::{Case, FLOOR, Recorder, relative_error};
pub use report::{Failure, FileReport, NotRun, Report};

type Runner = fn(&Value, &mut Recorder);

/// Which runner takes which file, by the file's stem.
const RUNNERS: &[(&str, Runner)] = &[
    ("classic_control", classic_control::run),
    ("distributions", distributions::run),
    ("gae", gae::run),
    ("learner_info", learner_info::run),
    ("learner_thread", learner_thread::run),
    ("losses", losses::run),
    ("minibatch_buffer", minibatch_buffer::run),
    ("optim", optim::run),
    ("parallel_workers", parallel_workers::run),
    ("replay_batching", replay_batching::run),
    ("seed_samplers", seed_samplers::run),
    ("stats", stats::run),
    ("timers_mlagents", timers_mlagents::run),
    ("vtrace", vtrace::run),
    ("vtrace_rlax", vtrace_rlax::run),
];

/// Runs every `*.json` file of `dir`, in the order of their names.
///
/// # Errors
/// The directory cannot be read or holds no golden file. A file that cannot be read or parsed is a
/// failure inside the report instead, so that the other files are still run.
pub fn run_dir(dir: &Path) -> anyhow::Result<Report> {
    run::run_dir(dir, RUNNERS)
}
