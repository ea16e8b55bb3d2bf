//! How does data become weights?
//!
//! An [`Algorithm`] turns a batch and the network's outputs into gradients of those outputs, on plain slices;
//! the network, into gradients of the weights; an [`Optimizer`], into new weights. V-trace, schedules and
//! losses are pure functions, generic over the float type.

mod error;
mod learner;
#[cfg(all(test, pronk_model))]
#[allow(clippy::unwrap_used)]
mod models;
mod stack;
mod state;
mod sync;

mod lag;
mod metrics;
mod report;
mod thread;

mod actor_critic;
mod algorithm;
mod algorithms;
mod explained_variance;
mod gae;
mod optim;
mod policy_learners;
mod rhythm;
mod schedule;
mod vtrace;

pub use actor_critic::{ActorCriticConfig, ActorCriticLearner, ActorCriticParts, InitialState};
pub use algorithm::{Algorithm, LossInputs};
pub use algorithms::appo::{
    Appo, AppoConfig, AppoForm, AppoGrads, AppoLossConfig, AppoLossInput, AppoLossStats, appo_loss,
};
pub use algorithms::impala::{
    Impala, ImpalaConfig, ImpalaGrads, ImpalaLossConfig, ImpalaLossInput, ImpalaLossStats, impala_loss,
};
pub use algorithms::ppo::{Ppo, PpoConfig};
pub use algorithms::surrogate::{
    SurrogateConfig, SurrogateGrads, SurrogateInput, SurrogateStats, ValueLoss, surrogate_loss,
};
pub use algorithms::targets::{LastStep, MaskedSteps, Targets};
pub use algorithms::{AlgorithmConfig, KlCoeff, OffPolicyStats};
pub use error::{LearnError, ShapeError};
pub use gae::{Advantages, GaeInput, GaeOutput, gae};
pub use lag::PolicyLag;
pub use learner::{Learned, Learner, TrainBatch};
pub use metrics::{LearnerMetrics, LearnerReadings, OverwriteLearnerInfo};
pub use optim::{
    Adam, AdamConfig, ClippedNorm, Optimizer, OptimizerConfig, OptimizerState, RmsProp, RmsPropConfig, RmsPropForm,
    Sgd, StepOptions, clip_global_norm,
};
pub use policy_learners::PolicyLearners;
pub use report::LearnerReport;
pub use rhythm::UpdateRhythm;
pub use schedule::{PiecewiseLinear, Schedule, ScheduleError};
pub use stack::{HoldsBatch, Stack, StackLoader};
pub(crate) use state::cloned;
pub use state::{AlgorithmState, LearnerState, TargetState};
pub use thread::{
    BatchName, Clock, ClosedBy, CutStorage, Diagnosis, Journal, JournalEntry, LearnerCut, LearnerEnd, LearnerFailure,
    LearnerFailureCause, LearnerLoop, LearnerLoopConfig, LearnerLoopError, LearnerParts, LearnerThread,
    LearnerThreadState, MonotonicClock, NonFinite, OnStarved, Quarantine, SavedLoop, StateError, StepOutcome,
    TrainedPass,
};
pub use vtrace::{EpisodeEnds, PgBootstrap, VtraceConfig, VtraceInput, VtraceOutput, vtrace};
