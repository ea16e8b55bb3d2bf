//! The protocols of this room under many schedules. `cargo xtask model` runs them; each says in one sentence
//! what holds.

mod cut;
mod ending;
mod requests;

use std::num::NonZeroU32;
use std::sync::Arc;

use pronk_buffer::{
    ActionKind, BatchShape, Gate, InqueueSender, MultiAgentBatch, Notifier, ObsKind, SampleBatch, ShutdownGuard,
    ShutdownToken, Source, Tag, WeightPublisher, inqueue, shutdown, weight_cell,
};
use pronk_metrics::{ByPolicy, DEFAULT_POLICY, LearnerInfo, StepLedger, Steps, TimeLedger, default_policy};
use pronk_model::thread;
use pronk_model::time::FOREVER;
use pronk_policy::{ObsLoader, ParamLayout, Params};

use crate::{
    AlgorithmState, HoldsBatch, LearnError, Learned, Learner, LearnerLoop, LearnerLoopConfig, LearnerParts,
    LearnerState, LearnerThread, OptimizerState, TrainBatch,
};

/// Of each model; they have too many to try all.
const SCHEDULES: usize = 3_000;

/// Of a batch in a model, which is one fragment.
const SHAPE: BatchShape = BatchShape {
    steps: 1,
    columns: 1,
    obs_len: 1,
    obs_kind: ObsKind::F32,
    act_len: 1,
    act_kind: ActionKind::U32,
    dist_len: 2,
    state_len: 0,
};
const STEP: Steps = Steps { env: 1, agent: 1 };

/// What happens in the second update.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Second {
    Succeeds,
    Fails,
    Panics,
    /// It succeeds, and a copy of the state after it panics.
    CannotBeSaved,
}

/// A learner that counts its passes before an update and in its one weight after it: between two passes both
/// are equal.
struct Counting {
    begun: u64,
    weight: Params,
    env_steps: u64,
    second: Second,
}

impl Counting {
    fn new(second: Second) -> Self {
        let weight = Params::zeros(Arc::new(ParamLayout::new([("w", vec![1])])));
        Self { begun: 0, weight, env_steps: 0, second }
    }
}

/// Without the hook, which would print it in every schedule.
fn quiet_panic() -> ! {
    std::panic::resume_unwind(Box::new("planted panic"));
}

impl Learner for Counting {
    fn learn(&mut self, _: TrainBatch<'_>) -> Result<Learned, LearnError> {
        self.begun += 1;
        thread::yield_now();
        match self.second {
            Second::Fails if self.begun == 2 => return Err(LearnError::Config { reason: "planted".to_owned() }),
            Second::Panics if self.begun == 2 => quiet_panic(),
            _ => {}
        }
        self.weight.values_mut()[0] += 1.0;
        Ok(Learned { info: LearnerInfo::default(), updates: 1 })
    }

    fn weights(&self) -> ByPolicy<&Params> {
        ByPolicy::from([(default_policy(), &self.weight)])
    }

    fn save(&self, _: ByPolicy<LearnerState>) -> ByPolicy<LearnerState> {
        if self.second == Second::CannotBeSaved && self.begun >= 2 {
            quiet_panic();
        }
        let state = LearnerState {
            params: self.weight.clone(),
            optimizer: OptimizerState { optimizer: String::new(), steps: self.begun, vectors: Default::default() },
            updates: self.begun,
            global_step: self.env_steps,
            algorithm: AlgorithmState::default(),
            publications: Vec::new(),
        };
        ByPolicy::from([(default_policy(), state)])
    }

    fn load(&mut self, _: ByPolicy<LearnerState>) -> Result<(), LearnError> {
        unreachable!("no model resumes a learner")
    }

    fn advance(&mut self, env_steps: u64) {
        self.env_steps += env_steps;
    }

    fn published(&mut self, _: u64) {}

    fn obs_loaders(&self) -> ByPolicy<Arc<dyn ObsLoader>> {
        ByPolicy::new()
    }
}

/// The updates of a state, which must be one of between two passes.
fn updates(states: &ByPolicy<LearnerState>) -> u64 {
    let state = &states[DEFAULT_POLICY];
    assert_eq!(state.params.values(), [state.updates as f32]);
    state.updates
}

fn fragment(worker: u32, slot: u64, version: u64) -> MultiAgentBatch {
    MultiAgentBatch::single(SampleBatch::blank(SHAPE, Tag { worker, slot, version, ..Tag::default() }))
}

fn weight() -> ByPolicy<Params> {
    ByPolicy::from([(default_policy(), Counting::new(Second::Succeeds).weight)])
}

/// What a run has around its learner.
struct Around {
    token: ShutdownToken,
    notifier: Notifier,
    steps: StepLedger,
    publisher: WeightPublisher<ByPolicy<Params>>,
}

impl Around {
    fn new(token: ShutdownToken) -> Self {
        let (publisher, _) = weight_cell(weight());
        Self { token, notifier: Notifier::new(), steps: StepLedger::new(), publisher }
    }

    /// Starts a learner that makes so many passes over each batch.
    fn learn<S>(self, source: S, second: Second, passes: u32) -> LearnerThread
    where
        S: Source<Item: HoldsBatch + Send> + Send + 'static,
    {
        let config = LearnerLoopConfig {
            num_sgd_iter: NonZeroU32::new(passes).unwrap(),
            learner_queue_timeout: FOREVER,
            ..LearnerLoopConfig::default()
        };
        let parts = LearnerParts {
            source,
            learner: Box::new(Counting::new(second)),
            publisher: self.publisher,
            loaders: None,
            steps: self.steps,
            time: TimeLedger::new(),
            token: self.token,
            notifier: self.notifier,
            journal: None,
        };
        let (learner_loop, outqueue) = LearnerLoop::new(config, parts);
        LearnerThread::spawn(learner_loop, outqueue).unwrap()
    }
}

/// A learner with an inqueue for one fragment, from which each batch is one.
struct Run {
    guard: ShutdownGuard,
    fragments: InqueueSender<MultiAgentBatch>,
    steps: StepLedger,
}

fn start(second: Second, passes: u32) -> (Run, LearnerThread) {
    let (guard, token) = shutdown();
    let (fragments, source) = inqueue(1, Gate::Bounded, &token).unwrap();
    let around = Around::new(token);
    let run = Run { guard, fragments, steps: around.steps.clone() };
    (run, around.learn(source, second, passes))
}

/// Pushes so many fragments with their tickets, or fewer if the learner ends.
fn sample(worker: u32, n: u64, fragments: &InqueueSender<MultiAgentBatch>, steps: &StepLedger) {
    for slot in 0..n {
        let sampled = fragment(worker, slot, 0).with_ticket(steps.sampled(STEP));
        if fragments.push(sampled).is_err() {
            break;
        }
    }
}
