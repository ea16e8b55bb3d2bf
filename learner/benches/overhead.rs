//! How much of the learner's time goes to anything but waiting, learning and publishing.
//!
//! `cargo bench -p pronk-learner --bench overhead`. Aim: at most 1 % with a real learner on CartPole-sized
//! batches.
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::{
    ActionKind, BatchShape, MultiAgentBatch, NextError, Notifier, ObsKind, Pool, Source, Tag, shutdown, weight_cell,
};
use pronk_learner::{
    ActorCriticConfig, ActorCriticLearner, ActorCriticParts, AlgorithmState, Impala, ImpalaConfig, LearnError, Learned,
    Learner, LearnerLoop, LearnerLoopConfig, LearnerParts, LearnerState, LearnerThread, OptimizerConfig,
    OptimizerState, TrainBatch,
};
use pronk_metrics::{ByPolicy, Info, LearnerInfo, StepLedger, ThreadTime, TimeLedger, default_policy};
use pronk_policy::{CandleNetwork, NetworkSpec, ObsLoader, ParamLayout, Params, Space, distribution_for};

/// Train batches as RLlib's defaults make them: 500 env-steps.
const SHAPE: BatchShape = BatchShape {
    steps: 20,
    columns: 25,
    obs_len: 4,
    obs_kind: ObsKind::F32,
    act_len: 1,
    act_kind: ActionKind::U32,
    dist_len: 2,
    state_len: 0,
};

fn main() -> Result<(), Box<dyn Error>> {
    // Without `--bench` cargo runs this as a test: then it only has to work.
    let passes = if std::env::args().any(|arg| arg == "--bench") { 20_000 } else { 50 };
    println!("{passes} passes over batches of T = {}, B = {}", SHAPE.steps, SHAPE.columns);
    println!(
        "{:<14} {:<14} {:>10} {:>12} {:>12} {:>12} {:>12}",
        "learner", "reader", "us/pass", "checking us", "reporting us", "outside us", "outside %"
    );
    for reader in [Reader::Gathers, Reader::WakesForEach] {
        measure("trivial", Box::new(Trivial::new()), reader, passes)?;
        measure("actor-critic", Box::new(actor_critic()?), reader, passes)?;
    }
    Ok(())
}

/// How the outqueue is read: waking a sleeping reader costs the learner a system call.
#[derive(Clone, Copy, Debug)]
enum Reader {
    /// Looks again a little later, as the trainer does.
    Gathers,
    /// Sleeps until the next report.
    WakesForEach,
}

fn measure(name: &str, learner: Box<dyn Learner>, reader: Reader, passes: u64) -> Result<(), Box<dyn Error>> {
    let (_guard, token) = shutdown();
    let (publisher, _cell) =
        weight_cell(learner.weights().into_iter().map(|(policy, params)| (policy, params.clone())).collect());
    let (steps, time) = (StepLedger::new(), TimeLedger::new());
    let parts = LearnerParts {
        source: Endless { pool: Pool::new(4), steps: steps.clone(), left: passes },
        learner,
        publisher,
        loaders: None,
        steps,
        time: time.clone(),
        token: token.clone(),
        notifier: Notifier::new(),
        journal: None,
    };
    let (learner_loop, outqueue) = LearnerLoop::new(LearnerLoopConfig::default(), parts);
    let thread = LearnerThread::spawn(learner_loop, outqueue)?;
    let metrics = thread.metrics().clone();
    match reader {
        Reader::Gathers => {
            while !thread.outqueue().is_closed() {
                token.sleep(Duration::from_millis(2))?;
                drop(thread.outqueue().drain());
            }
        }
        Reader::WakesForEach => while thread.outqueue().take(Duration::from_secs(60)).is_ok() {},
    }
    if let Some(failure) = thread.join(Duration::from_secs(1)).failure {
        return Err(failure.into());
    }

    let now = metrics.read();
    let time = &time.read()[0];
    let checking = secs_in(time, "learning") - now.grad.total_secs();
    let reporting = secs_in(time, "reporting");
    let known = now.queue.total_secs() + now.grad.total_secs() + secs_in(time, "publishing");
    let outside = time.wall_secs - secs_in(time, "starting") - known;
    let per_pass = |secs: f64| secs / now.num_steps as f64 * 1e6;
    println!(
        "{name:<14} {:<14} {:>10.2} {:>12.2} {:>12.2} {:>12.2} {:>12.2}",
        format!("{reader:?}"),
        per_pass(time.wall_secs),
        per_pass(checking),
        per_pass(reporting),
        per_pass(outside),
        100.0 * outside / time.wall_secs,
    );
    Ok(())
}

fn secs_in(time: &ThreadTime, state: &str) -> f64 {
    time.states.iter().find(|(name, _)| *name == state).map_or(0.0, |(_, secs)| *secs)
}

/// Batches of zeros from recycled storage, without waiting.
struct Endless {
    pool: Pool,
    steps: StepLedger,
    left: u64,
}

impl Source for Endless {
    type Item = MultiAgentBatch;

    fn next(&mut self, _timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        self.left = self.left.checked_sub(1).ok_or(NextError::Closed)?;
        let mut sample = self.pool.take(SHAPE, Tag { slot: self.left, ..Tag::default() });
        // Two equally likely actions, so that nothing runs away however long it learns.
        sample.behaviour_logp_mut().fill(0.5_f32.ln());
        let batch = MultiAgentBatch::single(sample);
        let ticket = self.steps.sampled(batch.steps());
        Ok(batch.with_ticket(ticket))
    }

    fn backlog(&self) -> usize {
        0
    }

    fn drain(&mut self) -> Vec<MultiAgentBatch> {
        Vec::new()
    }
}

fn actor_critic() -> Result<ActorCriticLearner, Box<dyn Error>> {
    let (observation, action) = (Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?, Space::discrete(2)?);
    let spec = NetworkSpec::for_spaces(&observation, &action)?;
    let params = spec.init_params(0)?;
    let parts = ActorCriticParts {
        optimizer: OptimizerConfig::default().build(params.values().len())?,
        network: Box::new(CandleNetwork::cpu(spec)?),
        params,
        distribution: distribution_for(&action)?,
        algorithm: Box::new(Impala::new(ImpalaConfig::default())?),
    };
    Ok(ActorCriticLearner::new(parts, ActorCriticConfig::default())?)
}

/// Learns nothing, and says as much as a real learner.
struct Trivial {
    params: Params,
    info: LearnerInfo,
    global_step: u64,
}

impl Trivial {
    fn new() -> Self {
        let params = Params::zeros(Arc::new(ParamLayout::new([("w", vec![64, 64])])));
        let stats = Info::tree((0..16).map(|n| (format!("statistic_{n}"), f64::from(n))));
        let info = LearnerInfo::from_iter([(default_policy(), Info::tree([("learner_stats", stats)]))]);
        Self { params, info, global_step: 0 }
    }
}

impl Learner for Trivial {
    fn learn(&mut self, _batch: TrainBatch<'_>) -> Result<Learned, LearnError> {
        Ok(Learned { info: self.info.clone(), updates: 1 })
    }

    fn weights(&self) -> ByPolicy<&Params> {
        ByPolicy::from([(default_policy(), &self.params)])
    }

    fn save(&self, _: ByPolicy<LearnerState>) -> ByPolicy<LearnerState> {
        let state = LearnerState {
            params: self.params.clone(),
            optimizer: OptimizerState { optimizer: "none".to_owned(), steps: 0, vectors: Default::default() },
            updates: 0,
            global_step: self.global_step,
            algorithm: AlgorithmState::default(),
            publications: Vec::new(),
        };
        ByPolicy::from([(default_policy(), state)])
    }

    fn load(&mut self, state: ByPolicy<LearnerState>) -> Result<(), LearnError> {
        self.params = state.into_values().next().map_or_else(|| self.params.clone(), |state| state.params);
        Ok(())
    }

    fn advance(&mut self, env_steps: u64) {
        self.global_step += env_steps;
    }

    fn obs_loaders(&self) -> ByPolicy<Arc<dyn ObsLoader>> {
        ByPolicy::new()
    }

    fn published(&mut self, _version: u64) {}
}
