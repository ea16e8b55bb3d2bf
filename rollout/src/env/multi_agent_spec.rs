use std::collections::BTreeSet;
use std::fmt;

use pronk_policy::Space;

use super::error::EnvError;
use super::spec::{EnvSpec, Spec};

/// The agents, name and time limit of an environment with several agents.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiAgentSpec {
    /// The name that reports and errors use.
    pub name: String,
    /// All agents that may ever act, in the order of their numbers in [`Agents`](crate::Agents).
    pub agents: Vec<AgentSpec>,
    /// Time limit, at which the remaining agents are [truncated](crate::End::Truncated).
    pub max_episode_steps: Option<u32>,
}

/// The name and spaces of one agent. [`MultiAgentEnv`](crate::MultiAgentEnv) has an example.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSpec {
    /// The agent's unique name, which selects its policy.
    pub name: String,
    /// Its observation space.
    pub observation: Space,
    /// Its action space.
    pub action: Space,
    /// Whether [`MultiAgentEnv::action_mask`](crate::MultiAgentEnv::action_mask) precedes each action.
    pub action_mask: bool,
}

impl MultiAgentSpec {
    /// Checks the spec: an error for no agents, two of one name, or one that [`EnvSpec::check`] refuses.
    pub fn check(&self) -> Result<(), EnvError> {
        if self.agents.is_empty() {
            return Err(EnvError::new("there is no agent: an environment needs at least one"));
        }
        let mut names = BTreeSet::new();
        for agent in &self.agents {
            if !names.insert(&agent.name) {
                return Err(EnvError::new(format!(
                    "two agents are called `{}`: each needs a name of its own",
                    agent.name
                )));
            }
            let AgentSpec { name, observation, action, action_mask } = agent.clone();
            let alone = EnvSpec { name, observation, action, max_episode_steps: self.max_episode_steps, action_mask };
            alone.check().map_err(|error| EnvError::new(format!("agent `{}`: {error}", alone.name)))?;
        }
        Ok(())
    }

    /// The agent of a name, with its number.
    pub fn agent(&self, name: &str) -> Option<(usize, &AgentSpec)> {
        self.agents.iter().enumerate().find(|(_, agent)| agent.name == name)
    }

    /// Whether the agents and their spaces are equal; name and time limit may differ.
    pub(crate) fn has_spaces_of(&self, other: &MultiAgentSpec) -> bool {
        self.agents == other.agents
    }
}

impl Spec for MultiAgentSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Result<(), EnvError> {
        self.check()
    }
}

impl fmt::Display for MultiAgentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.name)?;
        for AgentSpec { name, observation, action, action_mask } in &self.agents {
            let masked = if *action_mask { " with a mask" } else { "" };
            write!(f, "`{name}`: observations {observation}, actions {action}{masked}; ")?;
        }
        match self.max_episode_steps {
            Some(limit) => write!(f, "at most {limit} steps)"),
            None => write!(f, "no time limit)"),
        }
    }
}
