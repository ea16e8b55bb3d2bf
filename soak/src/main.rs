//! `pronk-soak`: runs under faults for hours, and a checker that samples them every second.
//!
//! The driver starts each cell of a matrix as a process of this program, does to it what comes from outside,
//! and judges its output and what the system reports of it. `README.md` has the picture.

mod arguments;
mod cells;
mod census;
mod checker;
mod driver;
mod envs;
mod hosts;
mod output;
mod outside;
mod process;
mod run;
mod sabotage;
mod slope;
mod stacks;
mod table;
mod tools;
mod trainings;

use std::process::ExitCode;

use cap::Cap;
use clap::Parser;
use mimalloc::MiMalloc;

use arguments::{Arguments, Work};

/// As in the program `pronk`, but counted.
#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    match arguments.work {
        Some(Work::Run(job)) => run::run(&job),
        None => {
            let passed = driver::soak(&arguments.plan)?;
            Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}
