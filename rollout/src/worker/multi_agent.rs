//! A worker for environments with several agents.

mod config;
mod policy_router;

use std::sync::Arc;

use pronk_buffer::{MultiAgentBatch, Versioned};
use pronk_metrics::{ByPolicy, StateClock};
use pronk_policy::Params;

use super::account::{Account, RESUME};
use super::any_env_spec::AnyEnvSpec;
use super::config::{WorkerLinks, WorkerState};
use super::error::{BuildError, SampleError};
use super::rollout_worker::{BetweenSteps, MakeFragments, RolloutWorker};
use super::seat_state::{SavedMaker, SavedMultiAgent};
use crate::act::PolicyFault;
use crate::env::{MultiAgentSpec, Restarted, VectorContext, caught};
use crate::pool::{MultiAgentFactory, make_envs};
use crate::vector::MultiAgentEnvs;

use policy_router::PolicyRouter;

pub use config::MultiAgentWorkerConfig;

/// Fragment lengths without a step of a trained policy, after which the worker gives up.
const NOBODY_FOR: usize = 1000;

/// Steps environments with several agents; each policy infers once for all agents that play it.
struct MultiAgent {
    seed: u64,
    n_envs: usize,
    /// `T`.
    length: usize,
    factory: Arc<dyn MultiAgentFactory>,
    spec: MultiAgentSpec,
    router: PolicyRouter,
    /// `None` after a failure, until the next fragment rebuilds them.
    envs: Option<MultiAgentEnvs>,
    /// Whether the columns continue where the environments are; they must be reset otherwise.
    under_way: bool,
}

impl RolloutWorker {
    /// A worker for environments with several agents, each of which plays a policy.
    ///
    /// # Columns
    /// A column is `T` consecutive steps of one agent under one policy. A step lasts until the agent next has
    /// to act or its episode ends, and its reward is the sum until then. A fragment ends after `T` steps of
    /// every environment, or later once a column is full, and holds all full columns in the order of
    /// environments and agents; the others wait for the next one.
    ///
    /// # Steps
    /// The env-steps of a fragment are those since the last one, its agent-steps those of its columns.
    /// Agent-steps of frozen policies are dropped as `"not_trained"`, those of incomplete columns at the end
    /// or with a failure. Fragments do not depend on timing.
    ///
    /// # Errors
    /// An environment that cannot be built; a policy whose network or weights do not fit; an agent that is
    /// mapped to no policy, or to one that it cannot play, in a first episode.
    pub fn multi_agent(
        config: MultiAgentWorkerConfig,
        factory: Arc<dyn MultiAgentFactory>,
        links: WorkerLinks,
    ) -> Result<Self, BuildError> {
        let MultiAgentWorkerConfig { worker, incarnation, seed, policies, mapping, .. } = config;
        let (n_envs, length) = (config.num_envs_per_worker.get(), config.rollout_fragment_length.get());
        let context = VectorContext { worker, incarnation, seed, ..VectorContext::default() };
        let mut envs = make_envs(factory.as_ref(), context, n_envs, &links.monitor)?;
        if links.saves_envs {
            envs.keep_for_save();
        }
        let spec = envs.spec().clone();
        let account = Account::new(worker, incarnation, links);
        let router = PolicyRouter::new(policies, mapping, &envs, length, (&account, seed))?;
        let maker = MultiAgent { seed, n_envs, length, factory, spec, router, envs: Some(envs), under_way: false };
        Ok(Self::over(maker, account))
    }
}

impl MakeFragments for MultiAgent {
    fn env_spec(&self) -> AnyEnvSpec {
        AnyEnvSpec::MultiAgent(self.spec.clone())
    }

    /// Blocks for `T` steps of every environment, and until a column of a trained policy is full.
    fn fill(
        &mut self,
        account: &mut Account,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
        between: &mut BetweenSteps<'_>,
    ) -> Result<MultiAgentBatch, SampleError> {
        let envs = match &mut self.envs {
            Some(envs) => envs,
            None => {
                clock.enter(WorkerState::Restarting);
                let (incarnation, seed) = (account.begin_incarnation(), self.seed);
                let context = VectorContext { worker: account.worker(), incarnation, seed, ..VectorContext::default() };
                let (factory, monitor) = (self.factory.as_ref(), &account.links.monitor);
                let rebuilt = make_envs(factory, context, self.n_envs, monitor)?;
                let now = AnyEnvSpec::MultiAgent(rebuilt.spec().clone());
                AnyEnvSpec::MultiAgent(self.spec.clone()).check_rebuilt(&now, &context)?;
                let envs = self.envs.insert(rebuilt);
                if account.links.saves_envs {
                    envs.keep_for_save();
                }
                envs
            }
        };

        self.router.begin(account, self.seed);
        // After an error from here on, the columns would be behind the environments: those must be reset.
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
            between(clock);
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
        let batch = self.router.take_batch(pool, account.tag(weights.version), env_steps)?;
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

    fn save(&mut self, _account: &Account) -> Result<SavedMaker, String> {
        let Some(envs) = &mut self.envs else { return Err("its environments are being rebuilt".to_owned()) };
        let envs = envs.save().map_err(|failure| failure.to_string())?;
        let (players, columns) = self.router.save();
        let under_way = self.under_way;
        Ok(SavedMaker::MultiAgent(Box::new(SavedMultiAgent { envs, players, columns, under_way })))
    }

    fn load(&mut self, account: &mut Account, saved: &SavedMaker) -> Result<Vec<Restarted>, BuildError> {
        let SavedMaker::MultiAgent(saved) = saved else { return Err(BuildError::other_maker(saved)) };
        let Some(envs) = self.envs.as_mut().filter(|_| saved.under_way) else { return Ok(Vec::new()) };
        self.router.load(account, &saved.players, &saved.columns).map_err(|reason| BuildError::State { reason })?;
        let restarted = match caught(|| envs.load(&saved.envs).map_err(|failure| failure.to_string())) {
            Ok(restarted) => restarted,
            Err(why) => {
                // Those of the present incarnation would repeat its episodes.
                self.drop_envs(account);
                self.forget();
                account.give_up(Some(RESUME));
                return Ok(Restarted::all(0, self.n_envs, &why));
            }
        };
        for Restarted { index, .. } in &restarted {
            self.router.begin_anew(*index as usize, envs, account)?;
        }
        self.under_way = true;
        Ok(restarted)
    }
}

#[cfg(test)]
mod tests;
