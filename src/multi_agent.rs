//! [`MultiAgentConfig`]: the policies of a run with several agents, and who plays whom.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pronk_metrics::{ByPolicy, DEFAULT_POLICY, PolicyId};
use pronk_policy::derive_seed;
use pronk_rollout::{AgentSpec, EnvSpec, MultiAgentFactory, PolicyMapping, probe_multi_agent_spec};

use crate::checkpoint::Checkpoint;
use crate::config::ConfigError;
use crate::error::TrainError;

/// Episodes for which the mapping is asked before a run, to find out whom each policy plays.
const EPISODES_ASKED: u64 = 4096;

/// The policies of a run with several agents, and who plays whom. Names are RLlib's.
///
/// ```
/// use pronk::{MultiAgentConfig, PolicyMapping};
///
/// // All agents learn and share one policy.
/// let team = MultiAgentConfig::shared("team");
/// // Each has its own, and only one learns; the other stays as its weights are drawn, or as a checkpoint in its place.
/// let duel = MultiAgentConfig {
///     policies_to_train: Some(["learner".into()].into()),
///     ..MultiAgentConfig::separate([("x", "learner"), ("o", "opponent")])
/// };
/// assert_eq!((team.policies.len(), duel.policies.len()), (1, 2));
///
/// // Who begins is decided anew for every episode.
/// let sides = PolicyMapping::new(|agent: &str, episode: u64| {
///     if (agent == "x") == (episode % 2 == 0) { "learner".into() } else { "opponent".into() }
/// });
/// let duel = MultiAgentConfig { policy_mapping: sides, ..duel };
/// # let _ = duel;
/// ```
#[derive(Clone, Debug)]
pub struct MultiAgentConfig {
    /// The policies by name, each with the checkpoint that it begins with; `None` draws new weights.
    pub policies: ByPolicy<Option<Checkpoint>>,
    /// Which policy an agent plays in an episode.
    pub policy_mapping: PolicyMapping,
    /// The policies that learn; `None` for all. The others act as they began, and their steps are counted as dropped under
    /// `not_trained`.
    pub policies_to_train: Option<BTreeSet<PolicyId>>,
}

/// One policy, as a run will use it.
pub(crate) struct Role {
    pub(crate) policy: PolicyId,
    /// Its spaces, as an environment of its own would have them.
    pub(crate) spec: EnvSpec,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) is_trained: bool,
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

    /// Finds out whom each policy plays. Returns the environment's name beside them.
    pub(crate) fn cast(&self, env: &dyn MultiAgentFactory, seed: u64) -> Result<(String, Vec<Role>), TrainError> {
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
            for policy in self.played_by(&agent.name)? {
                let first = *spaces.entry(policy.clone()).or_insert(agent);
                if !has_same_spaces(first, agent) {
                    let reason = format!(
                        "it plays '{}' and '{}', whose spaces differ; agents of one policy must see and do the same things",
                        first.name, agent.name
                    );
                    return Err(refuse("policy_mapping", &policy, &reason).into());
                }
            }
        }
        let role = |(policy, checkpoint): (&PolicyId, &Option<Checkpoint>)| {
            let (observation, action) = match (spaces.get(policy), checkpoint) {
                (Some(agent), _) => (&agent.observation, &agent.action),
                // It may be played too seldom to be seen here.
                (None, Some(checkpoint)) => (&checkpoint.observation, &checkpoint.action),
                (None, None) => {
                    let reason = format!(
                        "the mapping gives it no agent of {} in {EPISODES_ASKED} episodes; leave it out, map an agent to it, or \
                         let it begin with a checkpoint, which says what it sees and does",
                        spec.name
                    );
                    return Err(refuse("policies", policy, &reason));
                }
            };
            Ok(Role {
                policy: policy.clone(),
                spec: EnvSpec {
                    name: spec.name.clone(),
                    observation: observation.clone(),
                    action: action.clone(),
                    max_episode_steps: spec.max_episode_steps,
                    action_mask: spec.agents.iter().any(|agent| agent.action_mask),
                },
                checkpoint: checkpoint.clone(),
                is_trained: self.policies_to_train.as_ref().is_none_or(|to_train| to_train.contains(policy)),
            })
        };
        let roles = self.policies.iter().map(role).collect::<Result<_, _>>()?;
        Ok((spec.name.clone(), roles))
    }

    /// The policies that play an agent in some episode.
    fn played_by(&self, agent: &str) -> Result<BTreeSet<PolicyId>, ConfigError> {
        let mut found = BTreeSet::new();
        for episode in 0..EPISODES_ASKED {
            let asked =
                catch_unwind(AssertUnwindSafe(|| self.policy_mapping.policy_of(agent, derive_seed(episode, &[]))));
            let policy = match asked {
                Ok(Some(policy)) => policy,
                Ok(None) => return Err(refuse("policy_mapping", agent, "it names no policy for this agent")),
                Err(_) => return Err(refuse("policy_mapping", agent, "it panics when it is asked for this agent")),
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

/// A policy's name is that of its folder in a saved run and of its part in the results.
fn check_name(policy: &PolicyId) -> Result<(), ConfigError> {
    let is_folder = |name: &str| !name.contains(['/', '\\']) && !matches!(name, "" | "." | "..");
    match &**policy {
        DEFAULT_POLICY => {
            Err(refuse("policies", policy, "this is the policy of runs with one agent; choose another name"))
        }
        "batch_count" => Err(refuse("policies", policy, "results have a key of this name; choose another one")),
        name if !is_folder(name) => Err(refuse(
            "policies",
            format!("{name:?}"),
            "a folder is named after it when it is saved; choose another name",
        )),
        _ => Ok(()),
    }
}

fn has_same_spaces(a: &AgentSpec, b: &AgentSpec) -> bool {
    a.observation == b.observation && a.action == b.action
}

fn refuse(field: &'static str, value: impl ToString, reason: &str) -> ConfigError {
    ConfigError { field, value: value.to_string(), reason: reason.to_owned() }
}
