use std::collections::BTreeSet;
use std::fmt;

use pronk_policy::Space;

use super::error::EnvError;
use super::spec::EnvSpec;

/// What an environment with several agents says about itself before its first step.
///
/// ```
/// use pronk_rollout::{MultiAgentEnv, TicTacToe};
///
/// let spec = TicTacToe::new().spec();
/// assert_eq!(spec.agent("o").map(|(number, _)| number), Some(1));
/// assert!(spec.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MultiAgentSpec {
    /// The name that reports and errors use.
    pub name: String,
    /// Everybody who may ever act, under the numbers that [`Agents`](crate::Agents) takes.
    pub agents: Vec<AgentSpec>,
    /// After how many steps of the environment those who have not ended are cut off as [`End::Truncated`](crate::End::Truncated);
    /// `None` when only the environment ends them.
    pub max_episode_steps: Option<u32>,
}

/// What one agent sees and does.
///
/// ```
/// use pronk_policy::Space;
/// use pronk_rollout::AgentSpec;
///
/// let agent = AgentSpec {
///     name: "goalkeeper".into(),
///     observation: Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?,
///     action: Space::discrete(3)?,
///     action_mask: false,
/// };
/// # let _ = agent;
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSpec {
    /// The agent's name, by which it is given a policy. No other agent of the environment has it.
    pub name: String,
    /// What it can see.
    pub observation: Space,
    /// What it can do.
    pub action: Space,
    /// Whether [`MultiAgentEnv::action_mask`](crate::MultiAgentEnv::action_mask) is to be asked before its every action.
    pub action_mask: bool,
}

impl MultiAgentSpec {
    /// Whether such an environment can be run.
    ///
    /// # Errors
    /// No agent, two of one name, or one whose spaces, mask or time limit [`EnvSpec::check`] refuses.
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

    /// Whether the agents and what they see and do are the same; name and time limit may differ.
    pub(crate) fn has_spaces_of(&self, other: &MultiAgentSpec) -> bool {
        self.agents == other.agents
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
