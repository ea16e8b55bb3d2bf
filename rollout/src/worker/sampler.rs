//! What makes fragments, whatever its environments are.

use std::fmt;

use pronk_buffer::{MultiAgentBatch, Versioned};
use pronk_metrics::{ByPolicy, StateClock};
use pronk_policy::Params;

use super::config::WorkerState;
use super::error::{BuildError, SampleError};
use crate::env::{
    CallMonitor, EnvError, EnvFailure, EnvFailureCause, EnvSpec, EpisodeStat, MultiAgentSpec, ReturnStat, VectorContext,
};

/// Weights in, fragments out: what a run keeps going, restarts after failures and takes down at its end.
///
/// [`RolloutWorker`](crate::RolloutWorker) is one, for environments with one agent;
/// [`MultiAgentWorker`](crate::MultiAgentWorker) another. A [`WorkerSet`](crate::WorkerSet) and an
/// [`InlineSource`](crate::InlineSource) know neither.
///
/// # What it promises
/// Every step that its environments made is booked once: with the ticket of a fragment, or as lost or dropped by the time it
/// is dropped itself. After [`SampleError::Environment`] the next call begins with new environments, and counts up
/// [`incarnation`](Self::incarnation) first.
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

    /// How often it has begun to rebuild its environments.
    fn incarnation(&self) -> u32;

    /// What its environments are.
    fn env_spec(&self) -> AnyEnvSpec;

    /// Makes one fragment, with one version of the weights.
    ///
    /// Blocks: for a fragment; when the run ends, for one step of the environments.
    ///
    /// # Errors
    /// Why there is none. The steps made for it are then booked.
    fn sample(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<MultiAgentBatch, SampleError>;

    /// Takes the episodes that finished since the last call, those of failed fragments included.
    fn take_episodes(&mut self) -> Vec<EpisodeStat>;

    /// Takes the returns of the agents whose episodes finished since the last call, by the policy they played. Empty where
    /// there is only one agent: its returns are those of the episodes.
    fn take_policy_returns(&mut self) -> ByPolicy<ReturnStat> {
        ByPolicy::new()
    }

    /// Takes the failures of environments since the last call that the worker has dealt with by itself, because they cost only a
    /// part of what it makes.
    fn take_failures(&mut self) -> Vec<EnvFailure> {
        Vec::new()
    }

    /// Takes the threads that the worker has abandoned since the last call, each with what it is stuck in.
    fn take_abandoned(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Ends the threads that the worker has of its own, if it has any, and waits for them a short while: the names of those
    /// that have not ended.
    fn close(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Books what was made before [`sample`](Self::sample) panicked as lost to `cause`.
    fn lose_fragment(&mut self, cause: &'static str);

    /// Drops the environments; a panic while one is dropped is contained.
    fn drop_envs(&mut self);
}

/// Makes the worker of a seat, on the thread that is to run it or on the one that starts the run.
pub type MakeSampler = dyn Fn(&WorkerSeat) -> Result<Box<dyn Sampler>, BuildError> + Send + Sync;

/// A worker's place in a run, which others take when it is replaced.
///
/// ```
/// use pronk_rollout::{CallMonitor, WorkerSeat};
///
/// let first = WorkerSeat { worker: 3, incarnation: 0, monitor: CallMonitor::new() };
/// # let _ = first;
/// ```
#[derive(Clone, Debug)]
pub struct WorkerSeat {
    /// The worker's number: its thread is `rollout-<worker>`; 0 is the one without a thread.
    pub worker: u32,
    /// The incarnation that its environments begin with.
    pub incarnation: u32,
    /// Where it says what it does in its environments: for its [`WorkerLinks`](crate::WorkerLinks).
    pub monitor: CallMonitor,
}

/// What the environments of a worker are, whichever kind it runs.
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
    /// Whether agents, observations and actions are the same; name and time limit may differ.
    pub fn has_spaces_of(&self, other: &AnyEnvSpec) -> bool {
        match (self, other) {
            (AnyEnvSpec::Single(own), AnyEnvSpec::Single(other)) => own.has_spaces_of(other),
            (AnyEnvSpec::MultiAgent(own), AnyEnvSpec::MultiAgent(other)) => own.has_spaces_of(other),
            _ => false,
        }
    }

    /// Checks environments that were made anew against those that the run began with, these.
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
