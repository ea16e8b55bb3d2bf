//! The interface of workers.

use std::fmt;

use pronk_buffer::{MultiAgentBatch, Versioned};
use pronk_metrics::{ByPolicy, StateClock};
use pronk_policy::Params;

use super::config::WorkerState;
use super::error::{BuildError, SampleError};
use crate::env::{
    CallMonitor, EnvError, EnvFailure, EnvFailureCause, EnvSpec, EpisodeStat, MultiAgentSpec, ReturnStat, VectorContext,
};

/// A worker: weights in, fragments out.
///
/// [`RolloutWorker`](crate::RolloutWorker) and [`MultiAgentWorker`](crate::MultiAgentWorker) implement it;
/// [`WorkerSet`](crate::WorkerSet) and [`InlineSource`](crate::InlineSource) run any implementation.
///
/// # Contract
/// Every step of its environments is booked once: with the ticket of a fragment, or as lost or dropped by the
/// time the worker is dropped. After [`SampleError::Environment`] the next call increments
/// [`incarnation`](Self::incarnation) and begins with rebuilt environments.
///
/// ```
/// use pronk_rollout::{RolloutWorker, Sampler};
///
/// fn thread_of(sampler: &dyn Sampler) -> String {
///     format!("rollout-{}", sampler.worker())
/// }
/// # let _: fn(&RolloutWorker) -> String = |worker| thread_of(worker);
/// ```
pub trait Sampler: Send {
    /// The worker's number.
    fn worker(&self) -> u32;

    /// How often it has rebuilt its environments.
    fn incarnation(&self) -> u32;

    /// The spec of its environments.
    fn env_spec(&self) -> AnyEnvSpec;

    /// Makes one fragment, with one version of the weights.
    ///
    /// Blocks: for a fragment; when the run ends, for one step of the environments.
    ///
    /// # Errors
    /// Why there is none. The steps made for it are booked.
    fn sample(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<MultiAgentBatch, SampleError>;

    /// Takes the episodes that ended since the last call, those of failed fragments included.
    fn take_episodes(&mut self) -> Vec<EpisodeStat>;

    /// Takes the returns of agents whose episodes ended since the last call, by policy. Empty for
    /// environments with one agent, whose returns are those of the episodes.
    fn take_policy_returns(&mut self) -> ByPolicy<ReturnStat> {
        ByPolicy::new()
    }

    /// Takes the failures since the last call that cost only some environments, which the worker rebuilds.
    fn take_failures(&mut self) -> Vec<EnvFailure> {
        Vec::new()
    }

    /// Takes the threads abandoned since the last call, each with the call that it hangs in.
    fn take_abandoned(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Ends the worker's own threads, if any, and waits briefly for them. Returns those still running.
    fn close(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Books the steps made before [`sample`](Self::sample) panicked as lost to `cause`.
    fn lose_fragment(&mut self, cause: &'static str);

    /// Drops the environments; a panic while one is dropped is contained.
    fn drop_envs(&mut self);
}

/// Builds the worker of a seat, on the thread that will run it or on the one that starts the run.
pub type MakeSampler = dyn Fn(&WorkerSeat) -> Result<Box<dyn Sampler>, BuildError> + Send + Sync;

/// A worker's place in a run; a replacement takes the same seat.
///
/// ```
/// use pronk_rollout::{CallMonitor, WorkerSeat};
///
/// let first = WorkerSeat { worker: 3, incarnation: 0, monitor: CallMonitor::new() };
/// # let _ = first;
/// ```
#[derive(Clone, Debug)]
pub struct WorkerSeat {
    /// The worker's number: its thread is `rollout-<worker>`; 0 is the inline worker.
    pub worker: u32,
    /// The first incarnation of its environments.
    pub incarnation: u32,
    /// Records which environment it is calling: for its [`WorkerLinks`](crate::WorkerLinks).
    pub monitor: CallMonitor,
}

/// The spec of a worker's environments, with one agent or several.
///
/// ```
/// use pronk_rollout::{AnyEnvSpec, CartPole, Env, Rendezvous, MultiAgentEnv};
///
/// let alone = AnyEnvSpec::Single(CartPole::new().spec());
/// let together = AnyEnvSpec::MultiAgent(Rendezvous::new().spec());
/// assert!(alone.has_spaces_of(&alone) && !alone.has_spaces_of(&together));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum AnyEnvSpec {
    /// One agent.
    Single(EnvSpec),
    /// Several.
    MultiAgent(MultiAgentSpec),
}

impl AnyEnvSpec {
    /// Whether agents and spaces are equal; name and time limit may differ.
    pub fn has_spaces_of(&self, other: &AnyEnvSpec) -> bool {
        match (self, other) {
            (AnyEnvSpec::Single(own), AnyEnvSpec::Single(other)) => own.has_spaces_of(other),
            (AnyEnvSpec::MultiAgent(own), AnyEnvSpec::MultiAgent(other)) => own.has_spaces_of(other),
            _ => false,
        }
    }

    /// Checks the spec of rebuilt environments against this one, which the run began with.
    pub(crate) fn check_rebuilt(&self, rebuilt: &AnyEnvSpec, context: &VectorContext) -> Result<(), EnvFailure> {
        if self.has_spaces_of(rebuilt) {
            return Ok(());
        }
        let text = format!("the rebuilt environment is {rebuilt}, but the run began with {self}");
        Err(context.failure_to_make(EnvFailureCause::Error(EnvError::new(text))))
    }

    /// The environment's name.
    pub fn name(&self) -> &str {
        match self {
            AnyEnvSpec::Single(spec) => &spec.name,
            AnyEnvSpec::MultiAgent(spec) => &spec.name,
        }
    }
}

impl fmt::Display for AnyEnvSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyEnvSpec::Single(spec) => spec.fmt(f),
            AnyEnvSpec::MultiAgent(spec) => spec.fmt(f),
        }
    }
}
