//! Multi-agent games: noughts and crosses against a frozen opponent, and two walkers who learn to meet.
//!
//! ```text
//! cargo run --release --example multi_agent
//! cargo run --release --example multi_agent -- --game rendezvous --policies separate
//! cargo run --release --example multi_agent -- --opponent runs/crosses/learner   # what an earlier run saved with --out
//! ```
//!
//! The opponent in noughts and crosses has its initial weights, almost random, or those of a saved run; sides
//! change from game to game. The last line on stdout is one JSON object; the exit status is 0 only when the
//! return was reached.

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/saving.rs"]
mod saving;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use pronk::envs::{Rendezvous, TicTacToe};
use pronk::policy::Torso;
use pronk::prelude::*;
use pronk::{Checkpoint, MultiAgentConfig, PolicyMapping, PpoConfig, Schedule};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains the players of a game.
#[derive(Parser)]
struct Args {
    /// The game
    #[arg(long, value_enum, default_value_t = Game::TicTacToe)]
    game: Game,
    /// Rendezvous: whether the two share a policy
    #[arg(long, value_enum, default_value_t = Policies::Shared)]
    policies: Policies,
    /// Noughts and crosses: the saved policy of the opponent, FOLDER or FOLDER/NAME
    #[arg(long)]
    opponent: Option<PathBuf>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Env-steps after which to give up
    #[arg(long, default_value_t = 5_000_000)]
    max_env_steps: u64,
    /// Folder for the trained policies
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print only the last line
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    saving: saving::Saving,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Game {
    TicTacToe,
    Rendezvous,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policies {
    Shared,
    Separate,
}

fn main() -> Result<ExitCode, failure::Failure> {
    let args = Args::parse();
    let mut config = TrainerConfig {
        seed: args.seed,
        algorithm: PpoConfig {
            gamma: 0.97,
            lambda: 0.95,
            clip_param: 0.2,
            kl_coeff: 0.0,
            vf_clip_param: None,
            entropy_coeff: Schedule::Constant(0.01),
            ..PpoConfig::default()
        }
        .into(),
        ..TrainerConfig::default()
    };
    config.workers.num_rollout_workers = 0;
    config.workers.num_envs_per_worker = 32;
    config.workers.rollout_fragment_length = 32;
    config.learner.train_batch_size = 1024;
    config.learner.num_sgd_iter = 6;
    config.learner.sgd_minibatch_size = NonZeroUsize::new(256);
    config.learner.lr = 0.001;
    config.learner.grad_clip = Some(0.5);
    config.model.fcnet_hiddens = vec![64, 64];
    config.model.torso = Torso::Separate;
    config.results.min_time_s_per_iteration = 0.1;
    let limit = StopWhen { env_steps: Some(args.max_env_steps), ..StopWhen::default() };
    let folder = args.out.clone().unwrap_or_else(|| "runs/multi_agent".into());
    let builder = args.saving.builder(config, &folder);
    let (mut trainer, stop) = match args.game {
        Game::TicTacToe => {
            let opponent = args.opponent.as_ref().map(Checkpoint::load).transpose()?;
            let agents = MultiAgentConfig {
                policies: [("learner".into(), None), ("opponent".into(), opponent)].into(),
                // Whoever has the crosses begins, so they take turns at it.
                policy_mapping: PolicyMapping::new(|agent, episode| {
                    let learns = (agent == "x") == episode.is_multiple_of(2);
                    if learns { "learner".into() } else { "opponent".into() }
                }),
                policies_to_train: Some(["learner".into()].into()),
            };
            let stop = StopWhen { policy_return_mean: Some(("learner".into(), 0.8)), ..limit };
            (builder.multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents).build()?, stop)
        }
        Game::Rendezvous => {
            let agents = match args.policies {
                Policies::Shared => MultiAgentConfig::shared("walker"),
                Policies::Separate => MultiAgentConfig::separate([("agent_0", "first"), ("agent_1", "second")]),
            };
            let stop = StopWhen { episode_return_mean: Some(1.8), ..limit };
            (builder.multi_agent_env(|_: &EnvContext| Rendezvous::new(), agents).build()?, stop)
        }
    };
    if !args.quiet {
        trainer.add_reporter(Console::stderr());
    }
    let run = trainer.run(stop)?;
    if let Some(dir) = &args.out {
        run.save(dir)?;
    }
    println!("{}", run.summary());
    Ok(run.exit_status().into())
}
