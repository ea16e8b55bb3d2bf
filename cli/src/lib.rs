//! The program `pronk`: trains agents from a config file, evaluates, compares and exports them.
//!
//! It stands on the public interface of the library alone. Public here is what the program reads:
//! [`RunFile`], the settings of a run.

/// Prints a line to the standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a line to the standard error.
macro_rules! note {
    ($($text:tt)*) => { $crate::note(format_args!("{}\n", format_args!($($text)*))) };
}

mod compare;
mod completions;
mod config;
mod doctor;
mod environment;
mod envs;
mod evaluate;
mod export;
mod messages;
mod run_dir;
mod run_file;
mod run_lock;
mod spread;
mod start_up;
mod sweep;
mod table;
mod train;
mod watch;

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, Subcommand};

pub use run_file::{Entry, FileError, RunFile, Source};

/// Asynchronous actor-learner reinforcement learning: IMPALA, APPO and PPO.
#[derive(Parser)]
#[command(name = "pronk", version, after_help = STATUSES, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

const STATUSES: &str = "\
Exit status: 0 done, and the target return reached if there was one; 1 a failure, or the target missed; \
2 wrong usage or settings; 130 after Ctrl-C; 143 after SIGTERM; 129 after SIGHUP.
Colours appear on a terminal only, and not if NO_COLOR is set.";

#[derive(Subcommand)]
enum Command {
    Train(train::Train),
    Sweep(sweep::Sweep),
    Evaluate(evaluate::Evaluate),
    Compare(compare::Compare),
    Watch(watch::Watch),
    Export(export::Export),
    Config(config::Config),
    Envs(envs::Envs),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
}

/// Settings or arguments that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
struct Unusable(anyhow::Error);

/// The error of settings or arguments that cannot be used: exit status 2.
fn unusable(error: impl Into<anyhow::Error>) -> anyhow::Error {
    Unusable(error.into()).into()
}

/// Reads an argument that counts something there must be one of.
fn at_least_one(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "a whole number is expected, 1 or more")
}

/// Whether something could not be printed.
static UNPRINTED: AtomicBool = AtomicBool::new(false);

/// Prints to the standard output. A reader that is gone, such as `head`, has what it wanted; of other
/// failures, such as a full disk, the exit status tells.
fn print(text: fmt::Arguments<'_>) {
    if let Err(error) = std::io::stdout().lock().write_fmt(text)
        && error.kind() != ErrorKind::BrokenPipe
        && !UNPRINTED.swap(true, Ordering::Relaxed)
    {
        note!("error: cannot write to the standard output: {error}");
    }
}

/// Prints to the standard error, unless that is gone: a terminal that was closed ends no run.
fn note(text: fmt::Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// The program: reads the arguments of the process, and does what they say.
pub fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Train(args) => args.run(),
        Command::Sweep(args) => args.run(),
        Command::Evaluate(args) => args.run(),
        Command::Compare(args) => args.run(),
        Command::Watch(args) => args.run(),
        Command::Export(args) => args.run(),
        Command::Config(args) => args.run(),
        Command::Envs(args) => args.run(),
        Command::Doctor(args) => args.run(),
        Command::Completions(args) => args.run(),
    };
    match outcome {
        Ok(_) if UNPRINTED.load(Ordering::Relaxed) => ExitCode::FAILURE,
        Ok(status) => status,
        Err(error) => {
            // A wrong setting is wrong usage, as clap has it.
            let status = if error.is::<Unusable>() { 2 } else { 1 };
            note!("error: {error:#}");
            ExitCode::from(status)
        }
    }
}
