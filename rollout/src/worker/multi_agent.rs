//! One worker of environments with several agents: weights in, fragments out.

mod cast;
mod config;

use std::sync::Arc;

use pronk_buffer::{MultiAgentBatch, Tag, Versioned};
use pronk_metrics::{ByPolicy, StateClock, StepTicket, Steps, catch};
use pronk_policy::Params;

use super::config::{SHUTDOWN, WorkerLinks, WorkerState};
use super::error::{BuildError, SampleError};
use super::sampler::{AnyEnvSpec, Sampler};
use crate::act::PolicyFault;
use crate::env::{
    EnvError, EnvFailure, EpisodeStat, FailureCause, FailurePlace, MultiAgentSpec, ReturnStat, VectorContext, Watch,
};
use crate::pool::{MultiAgentFactory, make_envs};
use crate::vector::MultiAgentEnvs;

use cast::Cast;

pub use config::MultiAgentWorkerConfig;

/// The reason under which steps of frozen policies are dropped.
const NOT_TRAINED: &str = "not_trained";

/// Fragments' lengths without a step of a policy that is trained, after which there will be none.
const NOBODY_FOR: usize = 1000;

/// Steps environments with several agents, each of which plays a policy, with one version of the weights per fragment.
///
/// # Columns
/// Each column of a batch is one agent's own time line: `T` steps that it took under one policy, one after the other, whatever
/// the others did in between. A step is complete when the agent is next asked to act or its episode ends; what it was paid
/// until then is the step's reward. Columns that are not full wait for the next fragment. A fragment ends after `T` steps of
/// every environment, or after as many more as it takes until a column is full, and holds all that are, in the order of
/// environments and agents.
///
/// # Steps
/// The env-steps of a fragment are those made since the last one, its agent-steps are those of its columns. What frozen
/// policies do is booked as dropped under `"not_trained"`, agent-steps alone. Agent-steps whose columns are not full when the
/// worker ends or its environments fail are booked then.
///
/// What it makes depends on the seed, its own number and the versions of the weights it is handed, never on time.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
///
/// use pronk_buffer::{Pool, Versioned, lifeline};
/// use pronk_metrics::{ByPolicy, StateClock, StepLedger};
/// use pronk_policy::{CpuNetwork, GaussianConfig, NetworkSpec};
/// use pronk_rollout::{
///     EnvContext, MultiAgentWorkerConfig, MultiAgentEnv, MultiAgentWorker, PolicyMapping, Sampler, TicTacToe, Watch,
///     WorkerLinks, WorkerPolicy, WorkerState,
/// };
///
/// // One policy plays both sides.
/// let spec = TicTacToe::new().spec();
/// let (observation, action) = (spec.agents[0].observation.clone(), spec.agents[0].action.clone());
/// let network = NetworkSpec::for_spaces(&observation, &action)?;
/// let weights = ByPolicy::from([("player".into(), network.init_params(1)?)]);
/// let network = Box::new(CpuNetwork::new(&network)?);
/// let player = WorkerPolicy { network, observation, action, gaussian: GaussianConfig::default(), frozen: None };
///
/// let (_lifeline, tether) = lifeline();
/// let steps = StepLedger::new();
/// let config = MultiAgentWorkerConfig {
///     worker: 1,
///     incarnation: 0,
///     seed: 1,
///     num_envs_per_worker: NonZeroUsize::new(2).expect("2 > 0"),
///     rollout_fragment_length: NonZeroUsize::new(4).expect("4 > 0"),
///     policies: ByPolicy::from([("player".into(), player)]),
///     mapping: PolicyMapping::shared("player"),
/// };
/// let links = WorkerLinks::new(Pool::new(2), steps.clone(), tether);
/// let mut worker = MultiAgentWorker::new(config, Arc::new(|_: &EnvContext| TicTacToe::new()), links)?;
/// let mut clock = StateClock::new("rollout-1", WorkerState::Starting);
/// let fragment = worker.sample(&Versioned { version: 0, weights }, &mut clock)?;
/// assert!(fragment.get("player").is_some_and(|batch| batch.shape().steps == 4));
/// assert_eq!(steps.snapshot().in_flight, fragment.steps());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MultiAgentWorker {
    worker: u32,
    seed: u64,
    n_envs: usize,
    /// `T`.
    length: usize,
    links: WorkerLinks,
    factory: Arc<dyn MultiAgentFactory>,
    spec: MultiAgentSpec,
    cast: Cast,
    /// `None` once they failed; the next fragment then begins with making new ones.
    envs: Option<MultiAgentEnvs>,
    incarnation: u32,
    /// Number of the next fragment within the incarnation.
    sequence: u64,
    /// Whether the environments are in the middle of what the columns tell, or must be reset first.
    under_way: bool,
}

impl MultiAgentWorker {
    /// Makes the environments of the worker, and holds the policies against their agents.
    ///
    /// # Errors
    /// The environment that could not be made; the policy whose network or weights do not fit; the agent that is given no
    /// policy, or one that it cannot play, in the first episode of an environment.
    pub fn new(
        config: MultiAgentWorkerConfig,
        factory: Arc<dyn MultiAgentFactory>,
        links: WorkerLinks,
    ) -> Result<Self, BuildError> {
        let MultiAgentWorkerConfig { worker, incarnation, seed, policies, mapping, .. } = config;
        let (n_envs, length) = (config.num_envs_per_worker.get(), config.rollout_fragment_length.get());
        let context = VectorContext { worker, incarnation, first_env: 0, seed };
        let envs = make_envs(factory.as_ref(), context, n_envs, &links.watch)?;
        let spec = envs.spec().clone();
        let cast = Cast::new(policies, mapping, &envs, length, &context)?;
        Ok(Self {
            worker,
            seed,
            n_envs,
            length,
            links,
            factory,
            spec,
            cast,
            envs: Some(envs),
            incarnation,
            sequence: 0,
            under_way: false,
        })
    }

    /// What the environments are.
    pub fn spec(&self) -> &MultiAgentSpec {
        &self.spec
    }

    fn fill(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<MultiAgentBatch, SampleError> {
        let envs = match &mut self.envs {
            Some(envs) => envs,
            None => {
                clock.enter(WorkerState::Restarting);
                self.incarnation += 1;
                self.sequence = 0;
                let context =
                    VectorContext { worker: self.worker, incarnation: self.incarnation, first_env: 0, seed: self.seed };
                self.cast.begin(&context);
                let (factory, watch) = (self.factory.as_ref(), &self.links.watch);
                self.envs.insert(remake_envs(factory, context, self.n_envs, watch, &self.spec)?)
            }
        };

        // Whatever goes wrong from here on, the environments will have moved past what the columns tell.
        if !std::mem::take(&mut self.under_way) {
            clock.enter(WorkerState::Stepping);
            for env in 0..self.n_envs {
                self.cast.reset(env, envs)?;
            }
        }
        let (mut steps, mut acted) = (0, self.cast.trained_steps());
        while steps < self.length || !self.cast.has_full_column(envs) {
            if self.links.tether.is_cut() || self.links.watch.is_taken_over() {
                return Err(SampleError::Closed);
            }
            self.cast.act(envs, weights, clock)?;
            clock.enter(WorkerState::Stepping);
            for env in 0..self.n_envs {
                self.cast.step(env, envs)?;
            }
            self.links.watch.made(self.cast.made());
            steps += 1;
            if steps.is_multiple_of(NOBODY_FOR.saturating_mul(self.length)) {
                if self.cast.trained_steps() == acted {
                    let policies = self.cast.trained().cloned().collect();
                    return Err(SampleError::Policy(PolicyFault::NobodyPlays { policies, steps }));
                }
                acted = self.cast.trained_steps();
            }
        }
        clock.enter(WorkerState::Inferring);
        self.cast.close(envs, weights)?;

        let tag = Tag { worker: self.worker, incarnation: self.incarnation, sequence: self.sequence };
        let batch = self.cast.take_batch(&self.links.pool, tag).map_err(SampleError::Batch)?;
        self.under_way = true;
        self.sequence += 1;
        Ok(batch)
    }

    /// Counts `steps` as sampled, and what frozen policies did as dropped; `None` if somebody else has, because the worker was
    /// replaced.
    fn book(&mut self, steps: Steps) -> Option<StepTicket> {
        let untrained = Steps { env: 0, agent: self.cast.take_untrained() };
        let ledger = &self.links.steps;
        let ticket = self.links.watch.book(|| {
            if untrained.agent > 0 {
                ledger.sampled(untrained).dropped(NOT_TRAINED);
            }
            ledger.sampled(steps)
        });
        // What waits in columns that are not full stays to be booked.
        self.links.watch.made(self.cast.made());
        ticket
    }

    /// Forgets what was not sent, and counts it as lost to `cause`, or dropped because the run ends.
    fn give_up(&mut self, cause: Option<&'static str>) {
        self.under_way = false;
        let made = self.cast.give_up();
        match (self.book(made), cause) {
            (Some(ticket), Some(cause)) => ticket.lost(cause),
            (Some(ticket), None) => ticket.dropped(SHUTDOWN),
            (None, _) => {}
        }
    }
}

impl Sampler for MultiAgentWorker {
    fn worker(&self) -> u32 {
        self.worker
    }

    fn incarnation(&self) -> u32 {
        self.incarnation
    }

    fn env_spec(&self) -> AnyEnvSpec {
        AnyEnvSpec::MultiAgent(self.spec.clone())
    }

    /// Makes one fragment, with one version of the weights.
    ///
    /// It goes on where the one before ended. After a failure it begins with new environments, of the next incarnation: other
    /// episodes, so that a seed which leads to the failure is not tried again.
    ///
    /// Blocks: for `T` steps of every environment, and until a column of a policy that is trained is full; when the run ends,
    /// for one step.
    ///
    /// # Errors
    /// All steps that no fragment holds are then booked as lost under a short name of the cause, or as dropped under
    /// `"shutdown"` when the run ends.
    fn sample(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<MultiAgentBatch, SampleError> {
        match self.fill(weights, clock) {
            Ok(batch) => {
                self.cast.sent(batch.steps());
                let ticket = self.book(batch.steps()).ok_or(SampleError::Closed)?;
                Ok(batch.with_ticket(ticket))
            }
            Err(error) => {
                if let SampleError::Environment(_) = &error {
                    self.drop_envs();
                    // Somebody has reported it long since.
                    if self.links.watch.is_taken_over() {
                        return Err(SampleError::Closed);
                    }
                }
                self.give_up(error.cause_key());
                Err(error)
            }
        }
    }

    fn take_episodes(&mut self) -> Vec<EpisodeStat> {
        self.cast.take_episodes()
    }

    fn take_policy_returns(&mut self) -> ByPolicy<ReturnStat> {
        self.cast.take_policy_returns()
    }

    fn lose_fragment(&mut self, cause: &'static str) {
        self.give_up(Some(cause));
    }

    fn drop_envs(&mut self) {
        let failed = self.envs.take();
        self.links.watch.at(0, FailurePlace::Unknown);
        let _inside = self.links.watch.enter(self.incarnation);
        // What failed may panic once more while it is dropped. The failure that is reported is the first.
        let _ = catch(|| drop(failed));
    }
}

impl Drop for MultiAgentWorker {
    /// Columns that are not full when the worker ends are learned from by nobody.
    fn drop(&mut self) {
        self.give_up(None);
    }
}

/// Makes the environments anew and holds their agents against the ones that the worker began with.
fn remake_envs(
    factory: &dyn MultiAgentFactory,
    context: VectorContext,
    n_envs: usize,
    watch: &Watch,
    spec: &MultiAgentSpec,
) -> Result<MultiAgentEnvs, EnvFailure> {
    let envs = make_envs(factory, context, n_envs, watch)?;
    if envs.spec().has_spaces_of(spec) {
        return Ok(envs);
    }
    let text = format!("the rebuilt environment is {}, but the run began with {spec}", envs.spec());
    Err(context.failure_to_make(FailureCause::Error(EnvError::new(text))))
}

#[cfg(test)]
mod tests;
