//! Loads a trained policy and measures its return over whole episodes.
//!
//! ```text
//! cargo run --release --example cartpole
//! cargo run --release --example evaluate              # the newest run
//! cargo run --release --example evaluate -- runs/mine # a run of yours, also while it saves checkpoints
//! ```
//!
//! The last line on stdout is one JSON object with the mean and the standard deviation of the return.

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "flags/failure.rs"]
mod failure;

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Parser;
use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{ActionSelection, Checkpoint, CheckpointError, Rng, RunFolder, evaluate};

/// Keeps freed memory for the next forward pass; the system's allocator gives large blocks back each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Evaluates a policy trained by the `cartpole` example.
#[derive(Parser)]
struct Args {
    /// Folder of a run, or of runs, to take the newest
    #[arg(default_value = "runs/cartpole")]
    checkpoint: PathBuf,
    /// Episodes to play
    #[arg(long, default_value_t = 100)]
    episodes: usize,
    /// Seed of the episodes
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Sample actions from the policy's distribution, as in training, instead of taking the most likely one
    #[arg(long)]
    sample: bool,
}

fn main() -> Result<(), failure::Failure> {
    let args = Args::parse();
    let run = RunFolder::newest(&args.checkpoint);
    let checkpoint = match Checkpoint::load(&run) {
        // The policy is saved as the run ends.
        Err(CheckpointError::Io { .. }) if run.join("checkpoints").exists() => {
            Checkpoint::load(run.join("checkpoints"))?
        }
        loaded => loaded?,
    };
    let env = CartPole::new().spec().name;
    if checkpoint.env != env {
        return Err(anyhow!("the policy was trained on {}, not on {env}", checkpoint.env).into());
    }

    let mut policy = checkpoint.policy()?;
    let mut choice =
        if args.sample { ActionSelection::Sample(Rng::seed_from(args.seed)) } else { ActionSelection::Mode };
    let factory = |_: &EnvContext| CartPole::new();
    let evaluation = evaluate(&mut policy, &mut choice, &factory, args.episodes, args.seed)?;

    let summary = serde_json::json!({
        "env": env,
        "episodes": evaluation.episodes.len(),
        "episode_return_mean": evaluation.return_mean(),
        "episode_return_std": evaluation.return_std(),
        "episode_len_mean": evaluation.len_mean(),
    });
    println!("{summary}");
    Ok(())
}
