use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pronk_metrics::PolicyId;
use pronk_policy::Space;

use crate::env::AgentSpec;

/// Maps agents to policies, for every agent at the beginning of every episode.
///
/// ```
/// use pronk_rollout::PolicyMapping;
///
/// let shared = PolicyMapping::shared("walker");
/// let by_name = PolicyMapping::fixed([("cat", "hunter"), ("mouse", "prey")]);
/// // In half of the games the learning policy begins.
/// let by_seed = PolicyMapping::new(|agent, seed| match (agent, seed % 2) {
///     ("x", 0) | ("o", 1) => "learning".into(),
///     _ => "opponent".into(),
/// });
/// assert_eq!(shared.policy_of("anybody", 7).as_deref(), Some("walker"));
/// assert_eq!(by_name.policy_of("mouse", 7).as_deref(), Some("prey"));
/// assert_eq!(by_name.policy_of("dog", 7), None);
/// assert_eq!(by_seed.policy_of("x", 7).as_deref(), Some("opponent"));
/// ```
#[derive(Clone)]
pub struct PolicyMapping(Arc<MapAgent>);

/// From an agent's name and the seed of the episode to a policy.
type MapAgent = dyn Fn(&str, u64) -> Option<PolicyId> + Send + Sync;

impl PolicyMapping {
    /// Maps by a function of the agent's name and the seed of the episode alone.
    ///
    /// The seed is a random number of 64 bits, drawn from that of the run; it does not count episodes. So
    /// `seed % 2` halves the episodes by chance, and does not alternate.
    pub fn new(policy_of: impl Fn(&str, u64) -> PolicyId + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |agent, seed| Some(policy_of(agent, seed))))
    }

    /// All agents play one policy.
    pub fn shared(policy: impl Into<PolicyId>) -> Self {
        let policy = policy.into();
        Self::new(move |_, _| policy.clone())
    }

    /// Every agent plays the policy that it is paired with. All agents of the environment must be listed.
    pub fn fixed<A: Into<String>, P: Into<PolicyId>>(pairs: impl IntoIterator<Item = (A, P)>) -> Self {
        let pairs: BTreeMap<String, PolicyId> =
            pairs.into_iter().map(|(agent, policy)| (agent.into(), policy.into())).collect();
        Self(Arc::new(move |agent, _| pairs.get(agent).cloned()))
    }

    /// The policy of an agent in the episode with this seed; `None` for an agent that [`fixed`](Self::fixed)
    /// does not list.
    pub fn policy_of(&self, agent: &str, episode_seed: u64) -> Option<PolicyId> {
        (self.0)(agent, episode_seed)
    }

    /// The number of the policy that an agent plays in an episode, among those with these names.
    pub(crate) fn number_of<'a>(
        &self,
        agent: &str,
        episode_seed: u64,
        mut policies: impl Iterator<Item = &'a PolicyId> + Clone,
    ) -> Result<usize, MappingError> {
        let Some(policy) = self.policy_of(agent, episode_seed) else {
            return Err(MappingError::NoPolicy { agent: agent.to_owned() });
        };
        let known = policies.clone();
        policies.position(|one| *one == policy).ok_or_else(|| {
            let known: Vec<_> = known.map(|one| format!("`{one}`")).collect();
            let (agent, known) = (agent.to_owned(), known.join(", "));
            MappingError::UnknownPolicy { agent, policy, episode_seed, known }
        })
    }
}

impl fmt::Debug for PolicyMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyMapping").finish_non_exhaustive()
    }
}

/// Why an agent cannot play the policy that it is mapped to.
///
/// ```
/// use pronk_rollout::MappingError;
///
/// let error = MappingError::NoPolicy { agent: "dog".into() };
/// assert_eq!(error.to_string(), "the policy mapping has no policy for agent `dog`: pair it with one");
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MappingError {
    /// It is mapped to none.
    #[error("the policy mapping has no policy for agent `{agent}`: pair it with one")]
    NoPolicy {
        /// The agent.
        agent: String,
    },
    /// It is mapped to a policy that does not exist.
    #[error(
        "in the episode with seed {episode_seed} the policy mapping gives agent `{agent}` the policy `{policy}`, which does \
         not exist; the policies are {known}"
    )]
    UnknownPolicy {
        /// The agent.
        agent: String,
        /// The policy that it is mapped to.
        policy: PolicyId,
        /// The seed of the episode.
        episode_seed: u64,
        /// The existing policies, as text.
        known: String,
    },
    /// The spaces of policy and agent differ.
    #[error(
        "in the episode with seed {episode_seed} agent `{agent}` is to play policy `{policy}`, but its observations are {} \
         and its actions {}, and the policy's {} and {}: all agents of a policy must have its spaces",
        .agent_spaces.0, .agent_spaces.1, .policy_spaces.0, .policy_spaces.1
    )]
    WrongSpaces {
        /// The agent.
        agent: String,
        /// Its policy.
        policy: PolicyId,
        /// The seed of the episode.
        episode_seed: u64,
        /// Observations and actions of the agent.
        agent_spaces: Box<(Space, Space)>,
        /// Observations and actions of the policy.
        policy_spaces: Box<(Space, Space)>,
    },
}

impl MappingError {
    #[cold]
    pub(crate) fn wrong_spaces(
        agent: &AgentSpec,
        policy: PolicyId,
        episode_seed: u64,
        (observation, action): (&Space, &Space),
    ) -> Self {
        Self::WrongSpaces {
            agent: agent.name.clone(),
            policy,
            episode_seed,
            agent_spaces: Box::new((agent.observation.clone(), agent.action.clone())),
            policy_spaces: Box::new((observation.clone(), action.clone())),
        }
    }
}
