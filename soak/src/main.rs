//! `pronk-soak`: runs under faults for hours, and a checker that looks every second.
//!
//! The driver starts each cell of a matrix as a process of this program, does to it what comes from outside,
//! and judges what it says and what the system says of it. `README.md` has the picture.

mod arguments;
mod cells;
mod census;
mod checker;
mod driver;
mod envs;
mod hosts;
mod outside;
mod play;
mod process;
mod sabotage;
mod slope;
mod stacks;
mod table;
mod tell;
mod tools;
mod trainings;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Work};

/// As in the program `pronk`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    match arguments.work {
        Some(Work::Play(scene)) => play::play(&scene),
        None => {
            let passed = driver::soak(&arguments.plan)?;
            Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}
