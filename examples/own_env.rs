//! An environment of your own, and a policy trained for it: walk along a corridor to the door.
//!
//! ```text
//! cargo run --release --example own_env
//! ```

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/saving.rs"]
mod saving;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pronk::prelude::*;

/// Keeps freed memory for the next update; the system's allocator gives large blocks back each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Ten cells in a row. The walker starts in the first one and the door is in the last one; every step costs
/// 0.1.
struct Corridor {
    cell: u32,
}

const DOOR: u32 = 9;

impl Env for Corridor {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "Corridor".to_owned(),
            observation: pronk::Space::Box {
                low: vec![0.0],
                high: vec![1.0],
                shape: vec![1],
                dtype: pronk::policy::ObsDtype::F32,
            },
            action: pronk::Space::Discrete { n: 2 },
            max_episode_steps: Some(100),
            action_mask: false,
        }
    }

    fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.cell = 0;
        obs.write(&[0.0])
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let forward = action.discrete()? == 1;
        self.cell = if forward { self.cell + 1 } else { self.cell.saturating_sub(1) };
        obs.write(&[self.cell as f32 / DOOR as f32])?;
        Ok(match self.cell {
            DOOR => Step { reward: 1.0, end: End::Terminated },
            _ => Step { reward: -0.1, end: End::No },
        })
    }
}

/// Trains a policy for the corridor.
#[derive(Parser)]
struct Args {
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Folder for logs and the trained policy [default: runs/own_env/<UTC time>-s<seed>]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print only the last line
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    saving: saving::Saving,
}

fn main() -> Result<ExitCode, failure::Failure> {
    let args = Args::parse();
    pronk::check_env(Corridor { cell: 0 }, args.seed)?;
    let mut config = TrainerConfig { seed: args.seed, ..TrainerConfig::default() };
    config.workers.num_rollout_workers = 1;
    config.workers.num_envs_per_worker = 16;
    config.workers.rollout_fragment_length = 20;
    config.learner.train_batch_size = 320;
    config.learner.lr = 0.001;
    config.model.fcnet_hiddens = vec![32];
    config.results.min_time_s_per_iteration = 0.1;
    let out = args.saving.folder("runs/own_env", args.out.as_deref(), args.seed)?;
    let builder = args.saving.builder(config, &out);
    let mut trainer = builder.env(|_: &EnvContext| Corridor { cell: 0 }).build()?;
    trainer.log_to(&out)?;
    if !args.quiet {
        trainer.add_reporter(Console::stderr());
    }
    // The shortest way takes nine steps: 1 - 8 × 0.1 = 0.2.
    let stop = StopWhen { episode_return_mean: Some(0.15), env_steps: Some(2_000_000), ..StopWhen::default() };
    let run = trainer.run(stop)?;
    run.save(&out)?;
    println!("{}", run.summary());
    Ok(run.exit_status().into())
}
