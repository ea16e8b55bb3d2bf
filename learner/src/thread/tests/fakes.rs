//! Learners, sources and batches that do what a test says.

use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pronk_buffer::{
    ActionKind, BatchShape, Gate, InqueueReceiver, InqueueSender, Mailbox, MultiAgentBatch, NextError, Notifier,
    ObsKind, SampleBatch, ShutdownGuard, ShutdownToken, Source, Tag, WeightCell, inqueue, shutdown, weight_cell,
};
use pronk_metrics::{ByPolicy, DEFAULT_POLICY, Info, LearnerInfo, StepLedger, StepTotals, TimeLedger, default_policy};
use pronk_policy::{ObsLoader, ParamLayout, Params};

use crate::{
    AlgorithmState, HoldsBatch, LearnError, Learned, Learner, LearnerLoop, LearnerLoopConfig, LearnerParts,
    LearnerReport, LearnerState, OptimizerState, TrainBatch,
};

/// Far longer than any test takes.
pub(super) const LONG: Duration = Duration::from_secs(120);

pub(super) const T: usize = 4;
pub(super) const B: usize = 2;
/// Steps of one batch.
pub(super) const STEPS: u64 = (T * B) as u64;

/// A learner whose update is a closure over the number of the call, from 1, and the batch.
pub(super) struct FakeLearner<F> {
    pub(super) params: Params,
    pub(super) calls: u64,
    pub(super) global_step: u64,
    pub(super) published: Arc<Mutex<Vec<u64>>>,
    pub(super) update: F,
}

impl<F> FakeLearner<F>
where
    F: FnMut(u64, &MultiAgentBatch) -> Result<LearnerInfo, LearnError> + Send + 'static,
{
    pub(super) fn boxed(update: F) -> Box<dyn Learner> {
        Box::new(Self { params: one_weight(), calls: 0, global_step: 0, published: Arc::default(), update })
    }
}

impl<F> Learner for FakeLearner<F>
where
    F: FnMut(u64, &MultiAgentBatch) -> Result<LearnerInfo, LearnError> + Send,
{
    fn learn(&mut self, batch: TrainBatch<'_>) -> Result<Learned, LearnError> {
        self.calls += 1;
        let info = (self.update)(self.calls, batch.samples)?;
        self.params.values_mut()[0] += 1.0;
        Ok(Learned { info, updates: 1 })
    }

    fn weights(&self) -> ByPolicy<&Params> {
        ByPolicy::from([(default_policy(), &self.params)])
    }

    fn save(&self, _: ByPolicy<LearnerState>) -> ByPolicy<LearnerState> {
        let state = LearnerState {
            params: self.params.clone(),
            optimizer: OptimizerState { optimizer: "none".to_owned(), steps: self.calls, vectors: Default::default() },
            updates: self.calls,
            global_step: self.global_step,
            algorithm: AlgorithmState::default(),
            publications: Vec::new(),
        };
        ByPolicy::from([(default_policy(), state)])
    }

    fn load(&mut self, mut state: ByPolicy<LearnerState>) -> Result<(), LearnError> {
        self.params = state.remove(DEFAULT_POLICY).unwrap().params;
        Ok(())
    }

    fn advance(&mut self, env_steps: u64) {
        self.global_step += env_steps;
    }

    fn obs_loaders(&self) -> ByPolicy<Arc<dyn ObsLoader>> {
        ByPolicy::new()
    }

    fn published(&mut self, version: u64) {
        self.published.lock().unwrap().push(version);
    }
}

pub(super) fn one_weight() -> Params {
    Params::zeros(Arc::new(ParamLayout::new([("w", vec![1])])))
}

/// What a learner says that found a loss of `loss`.
pub(super) fn loss_info(loss: f64) -> LearnerInfo {
    let tree = Info::tree([("learner_stats", Info::tree([("total_loss", loss)]))]);
    LearnerInfo::from_iter([(default_policy(), tree)])
}

/// A learner that is always content.
pub(super) fn content() -> Box<dyn Learner> {
    FakeLearner::boxed(|call, _| Ok(loss_info(call as f64)))
}

pub(super) fn not_finite() -> LearnError {
    LearnError::NonFinite { what: "the total loss", at: "test: NaN".to_owned() }
}

pub(super) fn batch(sequence: u64) -> MultiAgentBatch {
    MultiAgentBatch::single(sample(sequence))
}

pub(super) fn sample(sequence: u64) -> SampleBatch {
    let shape = BatchShape {
        steps: T,
        columns: B,
        obs_len: 1,
        obs_kind: ObsKind::F32,
        act_len: 1,
        act_kind: ActionKind::U32,
        dist_len: 2,
        state_len: 0,
    };
    SampleBatch::blank(shape, Tag { worker: 3, incarnation: 1, slot: sequence, ..Tag::default() })
}

/// Everything around a loop that a run would hold.
pub(super) struct Bench {
    pub(super) ledger: StepLedger,
    pub(super) time: TimeLedger,
    pub(super) shutdown: Option<ShutdownGuard>,
    pub(super) weights: WeightCell<ByPolicy<Params>>,
}

/// A loop fed from an inqueue, that queue's sender, and the outqueue.
pub(super) type Rig =
    (LearnerLoop<InqueueReceiver<MultiAgentBatch>>, InqueueSender<MultiAgentBatch>, Mailbox<LearnerReport>);

impl Bench {
    /// A loop with its inqueue of `capacity`.
    pub(super) fn set_up(config: LearnerLoopConfig, capacity: usize, learner: Box<dyn Learner>) -> (Self, Rig) {
        let (shutdown, token) = shutdown();
        let (sender, receiver) = inqueue(capacity, Gate::Bounded, &token).unwrap();
        let (bench, learner_loop, outqueue) = Self::over(config, (shutdown, token), receiver, learner);
        (bench, (learner_loop, sender, outqueue))
    }

    /// A loop over any source.
    pub(super) fn over<S: Source<Item: HoldsBatch>>(
        config: LearnerLoopConfig,
        (shutdown, token): (ShutdownGuard, ShutdownToken),
        source: S,
        learner: Box<dyn Learner>,
    ) -> (Self, LearnerLoop<S>, Mailbox<LearnerReport>) {
        let (publisher, weights) = weight_cell(ByPolicy::from([(default_policy(), one_weight())]));
        let (ledger, time) = (StepLedger::new(), TimeLedger::new());
        let parts = LearnerParts {
            source,
            learner,
            publisher,
            loaders: None,
            steps: ledger.clone(),
            time: time.clone(),
            token,
            notifier: Notifier::new(),
            journal: None,
        };
        let (learner_loop, outqueue) = LearnerLoop::new(config, parts);
        (Self { ledger, time, shutdown: Some(shutdown), weights }, learner_loop, outqueue)
    }

    /// A batch whose steps are in the ledger.
    pub(super) fn sampled(&self, sequence: u64) -> MultiAgentBatch {
        self.sampled_from(sample(sequence))
    }

    pub(super) fn sampled_from(&self, sample: SampleBatch) -> MultiAgentBatch {
        let batch = MultiAgentBatch::single(sample);
        let ticket = self.ledger.sampled(batch.steps());
        batch.with_ticket(ticket)
    }

    /// The ledger's totals, which must add up.
    pub(super) fn totals(&self) -> StepTotals {
        let totals = self.ledger.snapshot();
        assert!(totals.is_closed(), "{totals:?}");
        totals
    }

    /// The ledger's totals at the end of a run.
    pub(super) fn final_totals(&self) -> StepTotals {
        let totals = self.totals();
        assert_eq!(totals.in_flight.env, 0, "{totals:?}");
        totals
    }
}

/// Options of a loop that never waits.
pub(super) fn config(num_sgd_iter: u32) -> LearnerLoopConfig {
    LearnerLoopConfig {
        num_sgd_iter: NonZeroU32::new(num_sgd_iter).unwrap(),
        learner_queue_timeout: Duration::ZERO,
        ..LearnerLoopConfig::default()
    }
}

pub(super) fn slots(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// A source that plays a script and then is closed.
pub(super) struct Script(pub(super) VecDeque<Play>);

pub(super) enum Play {
    Give(MultiAgentBatch),
    Panic(&'static str),
    Fail(&'static str),
}

impl Source for Script {
    type Item = MultiAgentBatch;

    fn next(&mut self, _timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        match self.0.pop_front() {
            Some(Play::Give(batch)) => Ok(batch),
            Some(Play::Panic(message)) => panic!("{message}"),
            Some(Play::Fail(message)) => Err(NextError::Failed(message.into())),
            None => Err(NextError::Closed),
        }
    }

    fn backlog(&self) -> usize {
        self.0.len()
    }

    fn drain(&mut self) -> Vec<MultiAgentBatch> {
        let plays = self.0.drain(..);
        plays.filter_map(|play| if let Play::Give(batch) = play { Some(batch) } else { None }).collect()
    }
}

/// The one weight of a learner.
pub(super) fn weight_of(learner: &dyn Learner) -> f32 {
    learner.weights()[DEFAULT_POLICY].values()[0]
}

/// What a learner of one policy would save.
pub(super) fn state_of(learner: &dyn Learner) -> LearnerState {
    learner.save(ByPolicy::new()).remove(DEFAULT_POLICY).unwrap()
}
