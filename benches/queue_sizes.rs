//! Time to learn with the default, 1, 2, 4 or 16 fragments in the inqueue: the reason for the default of
//! `learner_queue_size`.
//!
//! ```text
//! cargo bench --features env-process --bench queue_sizes                  # all of it, about 20 minutes
//! cargo bench --features env-process --bench queue_sizes -- Acrobot       # the tasks whose names contain a word
//! ```
//!
//! Each task trains to its target return with every queue size in turn, then with the next seed, so that all
//! sizes meet similar conditions on a shared machine. Apart from `learner_queue_size` the settings are the
//! defaults plus those the task needs. `InvertedPendulum-v5` needs Python with `gymnasium[mujoco]`:
//! `PRONK_PYTHON`, or `target/python/bin/python`, which `cargo xtask gymnasium` fills; without the feature it
//! is left out.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a bench prints its result and may stop at the first surprise

use std::num::NonZeroUsize;
use std::time::Duration;

use pronk::envs::{Acrobot, CartPole, Pendulum};
use pronk::policy::Torso;
use pronk::prelude::*;
use pronk::{AlgorithmConfig, AppoConfig, ImpalaConfig, Schedule};

/// `None` is the default: as many as complete a train batch with the fragments that blocked workers hold.
const QUEUE_SIZES: [Option<usize>; 5] = [None, Some(1), Some(2), Some(4), Some(16)];
const SEEDS: u64 = 5;
/// After this time a run counts as unsolved.
const TIME_LIMIT: Duration = Duration::from_secs(30);

type Start = fn(TrainerConfig) -> Trainer;

struct Task {
    name: &'static str,
    start: Start,
    solved: f64,
    config: fn() -> TrainerConfig,
}

const TASKS: &[Task] = &[
    Task {
        name: "CartPole-v1, a batch is one fragment",
        start: |config| Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap(),
        solved: 475.0,
        config: || small(impala(0.99)),
    },
    Task {
        name: "CartPole-v1, a batch is ten fragments",
        start: |config| Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap(),
        solved: 475.0,
        config: || {
            let (default, mut config) = (TrainerConfig::default(), small(impala(0.99)));
            config.workers = default.workers;
            config.learner.train_batch_size = default.learner.train_batch_size;
            config
        },
    },
    Task {
        name: "Acrobot-v1",
        start: |config| Trainer::new(config, |_: &EnvContext| Acrobot::new()).unwrap(),
        solved: -100.0,
        config: || {
            let mut config = many_passes(impala(0.99));
            config.learner.num_sgd_iter = 1;
            config.learner.sgd_minibatch_size = None;
            config.learner.grad_clip = Some(40.0);
            config
        },
    },
    Task {
        name: "Pendulum-v1",
        start: |config| Trainer::new(config, |_: &EnvContext| Pendulum::new()).unwrap(),
        solved: -250.0,
        config: || many_passes(appo(0.95)),
    },
    #[cfg(feature = "env-process")]
    Task {
        name: "InvertedPendulum-v5",
        start: |config| Trainer::new(config, gymnasium("InvertedPendulum-v5")).unwrap(),
        solved: 950.0,
        config: || {
            let mut config = many_passes(appo(0.99));
            config.workers.num_envs_per_worker = 8;
            config
        },
    },
];

#[cfg(feature = "env-process")]
fn gymnasium(id: &str) -> pronk::env_process::ProcessEnvs {
    use pronk::env_process::{Gymnasium, ProcessEnvs};
    let python = std::env::var_os("PRONK_PYTHON").unwrap_or_else(|| "target/python/bin/python".into()).into();
    ProcessEnvs::new(Gymnasium { python, ..Gymnasium::new(id) })
}

fn impala(gamma: f64) -> AlgorithmConfig {
    ImpalaConfig { gamma, entropy_coeff: Schedule::Constant(0.0), ..ImpalaConfig::default() }.into()
}

fn appo(gamma: f64) -> AlgorithmConfig {
    AppoConfig {
        gamma,
        entropy_coeff: Schedule::Constant(0.0),
        vtrace_lambda: 0.95,
        clip_param: 0.2,
        standardize_advantages: true,
        ..AppoConfig::default()
    }
    .into()
}

/// A small network on a small environment, one pass over each batch.
fn small(algorithm: AlgorithmConfig) -> TrainerConfig {
    let mut config = TrainerConfig { algorithm, ..TrainerConfig::default() };
    config.workers.num_envs_per_worker = 16;
    config.workers.rollout_fragment_length = 20;
    config.learner.train_batch_size = 320;
    config.learner.lr = 0.001;
    config.learner.grad_clip = None;
    config.model.fcnet_hiddens = vec![64, 64];
    config.results.min_time_s_per_iteration = 0.1;
    config
}

/// Several passes in minibatches, as continuous control wants them.
fn many_passes(algorithm: AlgorithmConfig) -> TrainerConfig {
    let mut config = small(algorithm);
    config.model.torso = Torso::Separate;
    config.workers.rollout_fragment_length = 64;
    config.learner.train_batch_size = 1024;
    config.learner.num_sgd_iter = 10;
    config.learner.sgd_minibatch_size = NonZeroUsize::new(256);
    config.learner.grad_clip = Some(0.5);
    config
}

/// The outcome of one run.
struct Outcome {
    reached: bool,
    secs: f64,
    env_steps: f64,
    lag: f64,
}

fn run(task: &Task, learner_queue_size: Option<usize>, seed: u64) -> Outcome {
    let mut config = TrainerConfig { seed, ..(task.config)() };
    config.learner.learner_queue_size = learner_queue_size;
    let stop = StopWhen { episode_return_mean: Some(task.solved), time: Some(TIME_LIMIT), ..StopWhen::default() };
    let run = (task.start)(config).run(stop).unwrap();
    Outcome {
        reached: run.reached(),
        secs: run.time.as_secs_f64(),
        env_steps: run.steps.sampled.env as f64,
        lag: run.result.policy_lag.mean().unwrap_or(f64::NAN),
    }
}

fn median(outcomes: &[Outcome], figure: fn(&Outcome) -> f64) -> f64 {
    let mut figures: Vec<_> = outcomes.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let wanted: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    println!("| task | queue | solved | seconds, median (worst) | env-steps, median | policy lag |");
    println!("|---|---|---|---|---|---|");
    for task in TASKS {
        if !wanted.is_empty() && !wanted.iter().any(|word| task.name.contains(word.as_str())) {
            continue;
        }
        let mut outcomes = QUEUE_SIZES.map(|_| Vec::new());
        for seed in 0..SEEDS {
            for (queue_size, outcomes) in QUEUE_SIZES.into_iter().zip(&mut outcomes) {
                outcomes.push(run(task, queue_size, seed));
            }
        }
        for (queue_size, outcomes) in QUEUE_SIZES.into_iter().zip(&outcomes) {
            let reached = outcomes.iter().filter(|outcome| outcome.reached).count();
            let worst = outcomes.iter().map(|outcome| outcome.secs).fold(0.0, f64::max);
            let queue_size = queue_size.map_or("default".to_owned(), |size| size.to_string());
            println!(
                "| {} | {queue_size} | {reached}/{SEEDS} | {:.1} ({worst:.1}) | {:.0} k | {:.1} |",
                task.name,
                median(outcomes, |outcome| outcome.secs),
                median(outcomes, |outcome| outcome.env_steps) / 1000.0,
                median(outcomes, |outcome| outcome.lag),
            );
        }
    }
}
