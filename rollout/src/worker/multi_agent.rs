//! One worker of environments with several agents: weights in, fragments out.

mod config;
mod policy_router;

use std::sync::Arc;

use pronk_buffer::{MultiAgentBatch, Versioned};
use pronk_metrics::{ByPolicy, StateClock};
use pronk_policy::Params;

use super::account::Account;
use super::config::{WorkerLinks, WorkerState};
use super::error::{BuildError, SampleError};
use super::fragment_worker::{FragmentWorker, MakeFragments};
use super::sampler::AnyEnvSpec;
use crate::act::PolicyFault;
use crate::env::{MultiAgentSpec, VectorContext};
use crate::pool::{MultiAgentFactory, make_envs};
use crate::vector::MultiAgentEnvs;

use policy_router::PolicyRouter;

pub use config::MultiAgentWorkerConfig;

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
/// use pronk_buffer::{Pool, Versioned, shutdown};
/// use pronk_metrics::{ByPolicy, StateClock, StepLedger};
/// use pronk_policy::{CpuNetwork, GaussianConfig, NetworkSpec};
/// use pronk_rollout::{
///     EnvContext, MultiAgentWorkerConfig, MultiAgentEnv, MultiAgentWorker, PolicyMapping, Sampler, TicTacToe, CallMonitor,
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
/// let (_lifeline, token) = shutdown();
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
/// let links = WorkerLinks::new(Pool::new(2), steps.clone(), token);
/// let mut worker = MultiAgentWorker::new(config, Arc::new(|_: &EnvContext| TicTacToe::new()), links)?;
/// let mut clock = StateClock::new("rollout-1", WorkerState::Starting);
/// let fragment = worker.sample(&Versioned { version: 0, weights }, &mut clock)?;
/// assert!(fragment.get("player").is_some_and(|batch| batch.shape().steps == 4));
/// assert_eq!(steps.snapshot().in_flight, fragment.steps());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type MultiAgentWorker = FragmentWorker<MultiAgent>;

/// Steps environments with several agents, and has every policy act for the agents that play it.
pub struct MultiAgent {
    seed: u64,
    n_envs: usize,
    /// `T`.
    length: usize,
    factory: Arc<dyn MultiAgentFactory>,
    spec: MultiAgentSpec,
    router: PolicyRouter,
    /// `None` once they failed; the next fragment then begins with making new ones.
    envs: Option<MultiAgentEnvs>,
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
        let envs = make_envs(factory.as_ref(), context, n_envs, &links.monitor)?;
        let spec = envs.spec().clone();
        let router = PolicyRouter::new(policies, mapping, &envs, length, &context)?;
        let maker = MultiAgent { seed, n_envs, length, factory, spec, router, envs: Some(envs), under_way: false };
        Ok(Self { maker, account: Account::new(worker, incarnation, links) })
    }

    /// The spec of the environments.
    pub fn spec(&self) -> &MultiAgentSpec {
        &self.maker.spec
    }
}

impl MakeFragments for MultiAgent {
    fn env_spec(&self) -> AnyEnvSpec {
        AnyEnvSpec::MultiAgent(self.spec.clone())
    }

    /// Blocks for `T` steps of every environment, and until a column of a policy that is trained is full.
    fn fill(
        &mut self,
        account: &mut Account,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<MultiAgentBatch, SampleError> {
        let envs = match &mut self.envs {
            Some(envs) => envs,
            None => {
                clock.enter(WorkerState::Restarting);
                let (incarnation, seed) = (account.begin_incarnation(), self.seed);
                let context = VectorContext { worker: account.worker(), incarnation, first_env: 0, seed };
                self.router.begin(&context);
                let (factory, monitor) = (self.factory.as_ref(), &account.links.monitor);
                let rebuilt = make_envs(factory, context, self.n_envs, monitor)?;
                let now = AnyEnvSpec::MultiAgent(rebuilt.spec().clone());
                AnyEnvSpec::MultiAgent(self.spec.clone()).check_rebuilt(&now, &context)?;
                self.envs.insert(rebuilt)
            }
        };

        // Should anything fail from here on, the environments have moved past what the columns tell.
        if !std::mem::take(&mut self.under_way) {
            clock.enter(WorkerState::Stepping);
            for env in 0..self.n_envs {
                self.router.reset(env, envs)?;
            }
        }
        let (mut steps, mut acted) = (0, account.made().agent);
        while steps < self.length || !self.router.has_full_column(envs) {
            if account.is_ending() {
                return Err(SampleError::Closed);
            }
            self.router.act(envs, weights, clock)?;
            clock.enter(WorkerState::Stepping);
            for env in 0..self.n_envs {
                self.router.step(env, envs, account)?;
            }
            steps += 1;
            if steps.is_multiple_of(NOBODY_FOR.saturating_mul(self.length)) {
                if account.made().agent == acted {
                    let policies = self.router.trained().cloned().collect();
                    return Err(SampleError::Policy(PolicyFault::NobodyPlays { policies, steps }));
                }
                acted = account.made().agent;
            }
        }
        clock.enter(WorkerState::Inferring);
        self.router.close(envs, weights)?;

        let (pool, env_steps) = (&account.links.pool, account.made().env);
        let batch = self.router.take_batch(pool, account.tag(), env_steps)?;
        self.under_way = true;
        Ok(batch)
    }

    fn forget(&mut self) {
        self.under_way = false;
        self.router.forget();
    }

    fn drop_envs(&mut self, account: &Account) {
        account.drop_envs(self.envs.take());
    }
}

#[cfg(test)]
mod tests;
