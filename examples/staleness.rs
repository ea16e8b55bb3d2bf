//! The cost of stale data, with and without V-trace: CartPole-v1 with a fixed policy lag.
//!
//! ```text
//! cargo run --release --example staleness
//! cargo run --release --example staleness -- --seeds 5 --env-steps 500000 --lr 0.0003
//! ```
//!
//! It wires a worker and a learner by hand, without queues or threads: the worker always acts with the
//! weights from `lag` updates ago. It prints a table of the mean return in the last quarter of a run, over
//! seeds.

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "flags/failure.rs"]
mod failure;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use clap::Parser;
use pronk::buffer::{Pool, Versioned, shutdown};
use pronk::envs::CartPole;
use pronk::learner::{ActorCriticConfig, ActorCriticLearner, ActorCriticParts, Impala, Learner, OptimizerConfig};
use pronk::metrics::{StateClock, StepLedger};
use pronk::policy::{Activation, CpuNetwork, Encoder, GaussianConfig, NetworkSpec, Torso, distribution_for};
use pronk::prelude::*;
use pronk::rollout::{NormalizerConfig, RolloutWorker, WorkerConfig, WorkerLinks, WorkerState, probe_spec};
use pronk::{ByPolicy, ImpalaConfig, Params, Schedule};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the cost of stale data.
#[derive(Parser)]
struct Args {
    /// Policy lags, in versions
    #[arg(long, value_delimiter = ',', default_value = "0,1,4,16")]
    lags: Vec<usize>,
    /// Number of seeds, from 0
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// Env-steps of each run
    #[arg(long, default_value_t = 300_000)]
    env_steps: u64,
    /// Learning rate
    #[arg(long, default_value_t = 0.001, allow_negative_numbers = true)]
    lr: f64,
}

fn main() -> Result<(), failure::Failure> {
    let args = Args::parse();
    println!(
        "mean return in the last quarter of {} env-steps, {} seeds (lowest–highest)\n",
        args.env_steps, args.seeds
    );
    println!("| lag in versions | IMPALA with V-trace | without |\n|---|---|---|");
    for &lag in &args.lags {
        print!("| {lag} |");
        for vtrace in [true, false] {
            let returns =
                (0..args.seeds).map(|seed| run(&args, seed, lag, vtrace)).collect::<anyhow::Result<Vec<_>>>()?;
            let mean = returns.iter().sum::<f64>() / returns.len() as f64;
            let (low, high) = returns.iter().fold((f64::MAX, f64::MIN), |(low, high), &x| (low.min(x), high.max(x)));
            print!(" {mean:.0} ({low:.0}–{high:.0}) |");
        }
        println!();
    }
    Ok(())
}

/// Trains at a policy lag, and returns the mean return of the last quarter.
fn run(args: &Args, seed: u64, lag: usize, vtrace: bool) -> anyhow::Result<f64> {
    let make = |_: &EnvContext| CartPole::new();
    let env = probe_spec(&make, seed)?;
    let spec = NetworkSpec {
        encoder: Encoder::Mlp { hidden: vec![64, 64], activation: Activation::Tanh },
        torso: Torso::Separate,
        ..NetworkSpec::for_spaces(&env.observation, &env.action)?
    };
    let params = spec.init_params(seed)?;
    let parts = ActorCriticParts {
        network: Box::new(CpuNetwork::new(&spec)?),
        optimizer: OptimizerConfig::default().build(params.values().len())?,
        params,
        distribution: distribution_for(&env.action)?,
        algorithm: Box::new(Impala::new(ImpalaConfig {
            gamma: 0.98,
            vtrace,
            behaviour_kl_coeff: 0.0,
            ..ImpalaConfig::default()
        })?),
    };
    let config = ActorCriticConfig { lr: Schedule::Constant(args.lr), ..ActorCriticConfig::default() };
    let mut learner = ActorCriticLearner::new(parts, config)?;

    let (_guard, token) = shutdown();
    let worker = WorkerConfig {
        worker: 0,
        incarnation: 0,
        seed,
        num_envs_per_worker: NonZeroUsize::MIN.saturating_add(15),
        rollout_fragment_length: NonZeroUsize::MIN.saturating_add(19),
        gaussian: GaussianConfig::default(),
        normalize: NormalizerConfig::default(),
    };
    let links = WorkerLinks::new(Pool::new(2), StepLedger::new(), token);
    let mut worker = RolloutWorker::new(worker, Arc::new(make), Box::new(CpuNetwork::new(&spec)?), links)?;
    let mut clock = StateClock::new("rollout-0", WorkerState::Starting);

    // The newest version is at the back, the one to act with in front.
    let version_of = |version, learner: &ActorCriticLearner| Versioned::new(version, copy(learner.weights()));
    let mut versions = VecDeque::from([version_of(0, &learner)]);
    let (mut env_steps, mut version) = (0, 0);
    let (mut n_episodes, mut returns) = (0, 0.0);
    while env_steps < args.env_steps {
        let mut batch = worker.sample(&versions[0], &mut clock)?;
        env_steps += batch.env_steps();
        learner.learn((&batch).into())?;
        learner.advance(batch.env_steps());
        if let Some(ticket) = batch.take_ticket() {
            ticket.trained();
        }
        version += 1;
        learner.published(version);
        versions.push_back(version_of(version, &learner));
        while versions.len() > lag + 1 {
            versions.pop_front();
        }
        let ended = worker.take_collected().episodes;
        if 4 * env_steps > 3 * args.env_steps {
            n_episodes += ended.len();
            returns += ended.iter().map(|episode| episode.episode_return).sum::<f64>();
        }
    }
    Ok(returns / n_episodes as f64)
}

fn copy(weights: ByPolicy<&Params>) -> ByPolicy<Params> {
    weights.into_iter().map(|(policy, params)| (policy, params.clone())).collect()
}
