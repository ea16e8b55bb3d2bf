//! Whether a run trains as fast as its learner does alone, with the learner on any device.
//!
//! ```text
//! cargo bench --bench device
//! cargo bench --bench device --features cuda -- --device cuda --trace target/device.json
//! ```
//!
//! Games of 84 × 84 pixels that cost next to nothing, the network of Mnih et al. (2015), IMPALA. First the
//! learner repeats one train batch, while the workers wait behind a full queue: that is the learner alone,
//! with the observations in a stack on its device, and with those that every pass copies. Then the run goes
//! on with stacks. `benches/gpu.py overlap` reads from the trace how much of the loading overlaps with
//! learning.
//!
//! The run is as fast as the learner only where the learner is the limit: the last line says what is. More
//! `--passes` give it more to do, more `--workers` bring it more.

#![allow(clippy::print_stdout)] // A bench prints its result.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use pronk::learner::{Learned, LearnerState, TrainBatch};
use pronk::metrics::ByPolicy;
use pronk::policy::ObsLoader;
use pronk::prelude::*;
use pronk::{DeviceSpec, LearnError, Learner, Params, Space, Timeline, TrainResult};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The share of the learner's own throughput that a run should reach.
const WANTED: f64 = 0.95;
/// Train batches before the one that is repeated: the first calls load kernels, and the first batches get
/// fewer passes.
const BATCHES_BEFORE: u32 = 4;

/// Measures a run and its learner.
#[derive(Parser)]
struct Args {
    /// Device of the learner: cpu, cuda:0 or metal
    #[arg(long, default_value_t)]
    device: DeviceSpec,
    /// Rollout threads [default: one per core, but for two]
    #[arg(long)]
    workers: Option<usize>,
    /// Environments per rollout thread
    #[arg(long, default_value_t = 32)]
    envs: usize,
    /// Steps of each environment in a fragment; a train batch is two fragments
    #[arg(long, default_value_t = 20)]
    fragment: usize,
    /// Passes over each train batch
    #[arg(long, default_value_t = 4)]
    passes: usize,
    /// Stacks that batches are loaded into ahead of the learner
    #[arg(long, default_value_t = 2)]
    stacks: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10.0, allow_negative_numbers = true)]
    seconds: f64,
    /// File for a timeline of all threads
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Fail if the run reaches less than 95 % of the learner alone
    #[arg(long)]
    strict: bool,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let timeline = args.trace.as_ref().map(|path| Timeline::create(path, Timeline::DEFAULT_EVENTS)).transpose()?;
    tracing_subscriber::registry().with(timeline.as_ref().map(Timeline::layer)).init();
    let (tell, told) = channel();
    let seconds = Duration::try_from_secs_f64(args.seconds).context("--seconds")?;
    let screen = Screen { spec: screen_spec()?, shade: 0 };
    let mut trainer = Trainer::builder(config(&args))
        .env(move |_: &EnvContext| screen.clone())
        .learner(move |inner| Ok(Box::new(Alone { inner, seconds, batches: 0, tell })))
        .build()?;
    if let Some(timeline) = timeline {
        trainer.add_reporter(timeline);
    }
    let (alone, before, after) = measure(&mut trainer, &told)?;
    trainer.finish()?;
    Ok(report(&args, &alone, &before, &after))
}

fn config(args: &Args) -> TrainerConfig {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = args.workers.unwrap_or(cores.saturating_sub(2).max(1));
    config.workers.num_envs_per_worker = args.envs;
    config.workers.rollout_fragment_length = args.fragment;
    config.learner.train_batch_size = 2 * args.fragment * args.envs;
    config.learner.num_sgd_iter = args.passes;
    config.learner.num_multi_gpu_tower_stacks = args.stacks;
    config.learner.num_data_load_threads = 1;
    config.learner.devices = vec![args.device];
    // The weights hardly matter, but must stay finite.
    config.learner.lr = 1e-6;
    config.results.min_time_s_per_iteration = args.seconds;
    config
}

/// Throughput of the learner alone, and the results at the beginning and the end of the measurement of the
/// run.
fn measure(trainer: &mut Trainer, told: &Receiver<Rates>) -> anyhow::Result<(Rates, TrainResult, TrainResult)> {
    let mut next = || anyhow::Ok(trainer.next().context("the run ended by itself")??);
    let alone = loop {
        next()?;
        if let Ok(alone) = told.try_recv() {
            break alone;
        }
    };
    // The queue, full since the learner repeated its batch, is back to normal.
    Ok((alone, next()?, next()?))
}

fn report(args: &Args, alone: &Rates, before: &TrainResult, after: &TrainResult) -> ExitCode {
    let run = (after.env_steps_trained - before.env_steps_trained) as f64 / after.time_this_iteration.as_secs_f64();
    let share = run / alone.loaded;
    println!("learner on {}, {} passes over each train batch, {} stacks", args.device, args.passes, args.stacks);
    println!("learner alone, observations loaded: {:>10.0} env-steps/s, once per pass", alone.loaded);
    println!("learner alone, observations copied: {:>10.0} env-steps/s", alone.copied);
    println!("run:                                {run:>10.0} env-steps/s, {:.1} % of the first", 100.0 * share);
    if let Some(bottleneck) = &after.bottleneck {
        println!("{bottleneck}");
    }
    if args.strict && share < WANTED {
        println!("FAILED: the run should reach {:.0} %", 100.0 * WANTED);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Env-steps that a learner alone trains on per second, once per pass.
struct Rates {
    loaded: f64,
    copied: f64,
}

/// A learner that repeats one of its train batches.
struct Alone {
    inner: Box<dyn Learner>,
    seconds: Duration,
    batches: u32,
    tell: Sender<Rates>,
}

impl Alone {
    fn measure(&mut self, batch: TrainBatch<'_>) -> Result<Rates, LearnError> {
        // In the timeline, what is within this span does not count.
        let _alone = tracing::debug_span!("alone").entered();
        // Workers fill the queue, and wait.
        self.rate(batch)?;
        Ok(Rates { loaded: self.rate(batch)?, copied: self.rate(TrainBatch { loaded: None, ..batch })? })
    }

    fn rate(&mut self, batch: TrainBatch<'_>) -> Result<f64, LearnError> {
        let (start, mut steps) = (Instant::now(), 0);
        while start.elapsed() < self.seconds {
            self.inner.learn(batch)?;
            steps += batch.samples.env_steps();
        }
        Ok(steps as f64 / start.elapsed().as_secs_f64())
    }
}

impl Learner for Alone {
    fn learn(&mut self, batch: TrainBatch<'_>) -> Result<Learned, LearnError> {
        self.batches += 1;
        if self.batches == BATCHES_BEFORE {
            let rates = self.measure(batch)?;
            // Refused only when the run has ended, and then they are not wanted.
            let _ = self.tell.send(rates);
        }
        self.inner.learn(batch)
    }

    fn weights(&self) -> ByPolicy<&Params> {
        self.inner.weights()
    }

    fn save(&self, spare: ByPolicy<LearnerState>) -> ByPolicy<LearnerState> {
        self.inner.save(spare)
    }

    fn load(&mut self, state: ByPolicy<LearnerState>) -> Result<(), LearnError> {
        self.inner.load(state)
    }

    fn advance(&mut self, env_steps: u64) {
        self.inner.advance(env_steps);
    }

    fn published(&mut self, version: u64) {
        self.inner.published(version);
    }

    fn obs_loaders(&self) -> ByPolicy<Arc<dyn ObsLoader>> {
        self.inner.obs_loaders()
    }
}

/// A game whose pictures have one shade each.
#[derive(Clone)]
struct Screen {
    spec: EnvSpec,
    shade: u8,
}

fn screen_spec() -> anyhow::Result<EnvSpec> {
    Ok(EnvSpec {
        name: "Screen".to_owned(),
        observation: Space::bytes(vec![4, 84, 84])?,
        action: Space::discrete(6)?,
        max_episode_steps: Some(500),
        action_mask: false,
    })
}

impl Env for Screen {
    fn spec(&self) -> EnvSpec {
        self.spec.clone()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.shade = (seed % 256) as u8;
        obs.u8()?.fill(self.shade);
        Ok(())
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let right = action.discrete()? == u32::from(self.shade % 6);
        self.shade = self.shade.wrapping_add(37);
        obs.u8()?.fill(self.shade);
        Ok(Step { reward: f32::from(u8::from(right)), end: pronk::End::No })
    }
}
