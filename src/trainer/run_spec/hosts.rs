//! What workers on other machines must agree on with the learner, and what their fragments look like.

use std::collections::BTreeSet;
use std::sync::Arc;

use pronk_buffer::{ActionKind, BatchShape, ObsKind};
use pronk_hosts::{Expected, ExpectedPolicy, Facts, Layouts};
use pronk_metrics::PolicyId;
use pronk_policy::{ObsDtype, PolicyError, distribution_with};
use pronk_rollout::{BuildError, StartError, probe_multi_agent_spec};

use super::{Agents, PolicySpec, RunSpec, Training};
use crate::config::{TrainerConfig, WorkersConfig};
use crate::error::{HostsError, TrainError};

/// How many rounds of all agents an agent may wait for its turn before a host's fragment counts as too long.
const SLOW_TURNS: u64 = 64;

impl RunSpec {
    /// Whether the worker and the learner share the caller's thread.
    pub(in crate::trainer) fn has_no_threads(&self, config: &TrainerConfig) -> bool {
        config.workers.num_rollout_workers == 0 && !self.listens
    }

    /// Whether nothing of the run depends on time, and all of it rests between two results.
    pub(in crate::trainer) fn goes_on_exactly(&self, config: &TrainerConfig) -> bool {
        config.goes_on_exactly() && !self.listens
    }

    /// Lives in this life of the run.
    pub(in crate::trainer) fn live(&mut self, life: u64) {
        self.life = life;
    }

    /// What a host on another machine must agree on with the learner, by name: the environment, its spaces,
    /// the parameters of every network, the weights of frozen policies, and the discount of an algorithm that
    /// the settings may not say.
    pub(in crate::trainer) fn facts(&self) -> Result<Facts, PolicyError> {
        let mut facts = Facts::from([("environment".to_owned(), self.env.clone())]);
        for (policy, spec) in &self.policies {
            facts.insert(format!("observation space of {policy}"), spec.spec.observation.to_string());
            facts.insert(format!("action space of {policy}"), spec.spec.action.to_string());
            if spec.spec.observation.scales_by_bounds() {
                facts.insert(format!("what scales the bytes of {policy}"), "their bounds".to_owned());
            }
            for tensor in spec.networks.acting(&spec.spec)?.layout().entries() {
                facts.insert(format!("shape of {} of {policy}", tensor.name), format!("{:?}", tensor.shape));
            }
        }
        facts.insert("digest of frozen weights".to_owned(), self.frozen().to_string());
        if let Some(gamma) = self.normalize.return_gamma {
            facts.insert("discount that rewards are normalised by".to_owned(), gamma.to_string());
        }
        Ok(facts)
    }

    /// All policies, those that are not trained among them.
    pub(in crate::trainer) fn policy_ids(&self) -> BTreeSet<PolicyId> {
        self.policies.keys().cloned().collect()
    }

    /// The layout of the parameters of each trained policy.
    pub(in crate::trainer) fn layouts(&self) -> Result<Layouts, PolicyError> {
        let trained = self.policies.iter().filter(|(_, spec)| matches!(spec.training, Training::Learns(_)));
        trained
            .map(|(policy, spec)| Ok((policy.clone(), Arc::clone(spec.networks.acting(&spec.spec)?.layout()))))
            .collect()
    }

    /// What the fragments of a host on another machine look like.
    pub(in crate::trainer) fn expected(&self, config: &TrainerConfig) -> Result<Expected, TrainError> {
        let WorkersConfig { num_envs_per_worker, rollout_fragment_length, .. } = config.workers;
        let policy = |spec: &PolicySpec, columns| -> Result<ExpectedPolicy, TrainError> {
            let PolicySpec { spec, networks, gaussian, .. } = spec;
            let shape = BatchShape {
                steps: rollout_fragment_length,
                columns,
                obs_len: spec.observation.obs_len(),
                obs_kind: match spec.observation.obs_dtype() {
                    ObsDtype::F32 => ObsKind::F32,
                    ObsDtype::U8 => ObsKind::U8,
                },
                act_len: spec.action.act_len(),
                act_kind: if spec.action.has_discrete_actions() { ActionKind::U32 } else { ActionKind::F32 },
                dist_len: distribution_with(&spec.action, *gaussian)?.dist_len(),
                state_len: networks.acting(spec)?.shape().state_len,
            };
            Ok(ExpectedPolicy::new(shape, &spec.observation, spec.action.clone()).map_err(HostsError::from)?)
        };
        let expected = match &self.agents {
            Agents::One(_) => {
                let only = self.policies.values().next().ok_or(BuildError::NothingTrained { frozen: 0 });
                let only =
                    only.map_err(|cause| StartError::Worker { thread: "hosts".to_owned(), cause: cause.into() })?;
                Expected::single(self.life, policy(only, num_envs_per_worker)?, self.normalize)
            }
            Agents::Several(env, _) => {
                let agents = probe_multi_agent_spec(env.as_ref(), config.seed)?.agents.len();
                // A column is full after as many turns of its agent as it has steps, so each agent of each
                // environment fills one at most. A fragment waits for the first to be full, which takes
                // longer the seldomer the agents with trained policies have a turn.
                let env_steps = SLOW_TURNS * (agents * num_envs_per_worker * rollout_fragment_length) as u64;
                let trained = self.policies.iter().filter(|(_, spec)| matches!(spec.training, Training::Learns(_)));
                let policies = trained.map(|(id, spec)| Ok((id.clone(), policy(spec, agents * num_envs_per_worker)?)));
                Expected::multi(self.life, policies.collect::<Result<_, TrainError>>()?, env_steps)
            }
        };
        Ok(expected.map_err(HostsError::from)?)
    }
}
