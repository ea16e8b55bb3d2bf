//! [`MultiAgentConfig`]: the policies of a multi-agent run, and which agents use them.

use std::collections::BTreeSet;

use pronk_metrics::{ByPolicy, DEFAULT_POLICY, PolicyId, catch};
use pronk_policy::derive_seed;
use pronk_rollout::{AgentSpec, EnvSpec, MultiAgentFactory, PolicyMapping, probe_multi_agent_spec};

use crate::checkpoint::Checkpoint;
use crate::config::ConfigError;
use crate::error::TrainError;

/// Episodes for which the mapping is evaluated before a run, to find the agents of each policy.
const PROBED_EPISODES: u64 = 4096;

/// The policies of a multi-agent run, and which agents use them. Names are RLlib's.
///
/// ```
/// use pronk::{MultiAgentConfig, PolicyMapping};
///
/// // All agents learn and share one policy.
/// let team = MultiAgentConfig::shared("team");
/// // Each has its own, and only one learns; the other keeps its initial weights, or those of a checkpoint.
/// let duel = MultiAgentConfig {
///     policies_to_train: Some(["learner".into()].into()),
///     ..MultiAgentConfig::separate([("x", "learner"), ("o", "opponent")])
/// };
/// assert_eq!((team.policies.len(), duel.policies.len()), (1, 2));
///
/// // The seed of an episode draws which side learns.
/// let sides = PolicyMapping::new(|agent: &str, seed: u64| {
///     if (agent == "x") == (seed % 2 == 0) { "learner".into() } else { "opponent".into() }
/// });
/// let duel = MultiAgentConfig { policy_mapping: sides, ..duel };
/// # let _ = duel;
/// ```
#[derive(Clone, Debug)]
pub struct MultiAgentConfig {
    /// The policies by name, each with the checkpoint that it starts from; `None` initialises new weights.
    pub policies: ByPolicy<Option<Checkpoint>>,
    /// Which policy an agent uses in an episode.
    pub policy_mapping: PolicyMapping,
    /// The policies that learn; `None` for all. The others stay frozen, and their steps count as dropped:
    /// `not_trained`.
    pub policies_to_train: Option<BTreeSet<PolicyId>>,
}

impl MultiAgentConfig {
    /// One new policy that all agents share.
    pub fn shared(policy: impl Into<PolicyId>) -> Self {
        let policy = policy.into();
        let policies = ByPolicy::from([(policy.clone(), None)]);
        Self { policies, policy_mapping: PolicyMapping::shared(policy), policies_to_train: None }
    }

    /// A new policy for each of the agents, by name; several agents may name the same.
    pub fn separate<A: Into<String>, P: Into<PolicyId>>(agents: impl IntoIterator<Item = (A, P)>) -> Self {
        let agents: Vec<(String, PolicyId)> =
            agents.into_iter().map(|(agent, policy)| (agent.into(), policy.into())).collect();
        let policies = agents.iter().map(|(_, policy)| (policy.clone(), None)).collect();
        Self { policies, policy_mapping: PolicyMapping::fixed(agents), policies_to_train: None }
    }

    /// Whether a policy learns.
    pub(crate) fn is_trained(&self, policy: &PolicyId) -> bool {
        self.policies_to_train.as_ref().is_none_or(|to_train| to_train.contains(policy))
    }

    /// The spaces of each policy, as a single-agent environment of its own would have them.
    pub(crate) fn policy_specs(&self, env: &dyn MultiAgentFactory, seed: u64) -> Result<ByPolicy<EnvSpec>, TrainError> {
        if let Some(to_train) = &self.policies_to_train {
            if to_train.is_empty() {
                return Err(refuse("policies_to_train", "none", "nothing would be learned; name at least one").into());
            }
            if let Some(unknown) = to_train.iter().find(|policy| !self.policies.contains_key(*policy)) {
                return Err(refuse("policies_to_train", unknown, "there is no such policy in `policies`").into());
            }
        }
        self.policies.keys().try_for_each(check_name)?;
        let spec = probe_multi_agent_spec(env, seed)?;
        let mut spaces: ByPolicy<&AgentSpec> = ByPolicy::new();
        for agent in &spec.agents {
            for policy in self.policies_of(&agent.name)? {
                let first = *spaces.entry(policy.clone()).or_insert(agent);
                if !has_same_spaces(first, agent) {
                    let reason = format!(
                        "it is mapped to '{}' and '{}', whose spaces differ; agents of one policy need the same spaces",
                        first.name, agent.name
                    );
                    return Err(refuse("policy_mapping", &policy, &reason).into());
                }
            }
        }
        let policy_spec = |(policy, checkpoint): (&PolicyId, &Option<Checkpoint>)| {
            let (observation, action) = match (spaces.get(policy), checkpoint) {
                (Some(agent), _) => (&agent.observation, &agent.action),
                // The mapping may pick it too seldom for the episodes probed here.
                (None, Some(checkpoint)) => (&checkpoint.observation, &checkpoint.action),
                (None, None) => {
                    let reason = format!(
                        "the mapping gives it no agent of {} in {PROBED_EPISODES} episodes; remove it, map an agent to it, \
                         or give it a checkpoint, which has its spaces",
                        spec.name
                    );
                    return Err(refuse("policies", policy, &reason).into());
                }
            };
            let spec = EnvSpec {
                name: spec.name.clone(),
                observation: observation.clone(),
                action: action.clone(),
                max_episode_steps: spec.max_episode_steps,
                action_mask: spec.agents.iter().any(|agent| agent.action_mask),
            };
            Ok((policy.clone(), spec))
        };
        self.policies.iter().map(policy_spec).collect()
    }

    /// The policies that the agent uses in some episode.
    fn policies_of(&self, agent: &str) -> Result<BTreeSet<PolicyId>, ConfigError> {
        let mut found = BTreeSet::new();
        for seed in (0..PROBED_EPISODES).map(|episode| derive_seed(episode, &[])) {
            let policy = match catch(|| self.policy_mapping.policy_of(agent, seed)) {
                Ok(Some(policy)) => policy,
                Ok(None) => return Err(refuse("policy_mapping", agent, "it names no policy for this agent")),
                Err(panic) => {
                    return Err(refuse("policy_mapping", agent, &format!("it panics for this agent: {panic}")));
                }
            };
            if !self.policies.contains_key(&policy) {
                let reason = format!("it gives '{agent}' the policy '{policy}', which is not in `policies`");
                return Err(refuse("policy_mapping", agent, &reason));
            }
            found.insert(policy);
        }
        Ok(found)
    }
}

/// The name of a policy is also the name of its folder in a checkpoint and of its key in the results.
fn check_name(policy: &PolicyId) -> Result<(), ConfigError> {
    let is_folder = |name: &str| !name.contains(['/', '\\']) && !matches!(name, "" | "." | "..");
    match &**policy {
        DEFAULT_POLICY => {
            Err(refuse("policies", policy, "this is the policy of runs with one agent; choose another name"))
        }
        "batch_count" => Err(refuse("policies", policy, "results have a key of this name; choose another name")),
        name if !is_folder(name) => Err(refuse(
            "policies",
            format!("{name:?}"),
            "it names the policy's folder in a checkpoint; choose another name",
        )),
        _ => Ok(()),
    }
}

fn has_same_spaces(a: &AgentSpec, b: &AgentSpec) -> bool {
    a.observation == b.observation && a.action == b.action
}

fn refuse(field: &'static str, value: impl ToString, reason: &str) -> ConfigError {
    ConfigError::caused_by(field, value, &reason)
}
