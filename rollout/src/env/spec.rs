use std::fmt;

use pronk_policy::{PolicyError, Space};

use super::error::EnvError;
use super::mask;

/// The spaces, name and time limit of an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvSpec {
    /// The name that reports and errors use, such as `"CartPole-v1"`.
    pub name: String,
    /// The observation space.
    pub observation: Space,
    /// The action space.
    pub action: Space,
    /// After how many steps an episode is [truncated](crate::End::Truncated); `None` without a time limit.
    pub max_episode_steps: Option<u32>,
    /// Whether [`Env::action_mask`](crate::Env::action_mask) is called before every action.
    pub action_mask: bool,
}

impl EnvSpec {
    /// Checks the spec: an error for an invalid space, a time limit of 0, or a mask for continuous actions.
    pub fn check(&self) -> Result<(), EnvError> {
        let refuse = |what: &str, error: PolicyError| EnvError::new(format!("{what} {error}"));
        self.observation.check().map_err(|error| refuse("observation", error))?;
        self.action.check().map_err(|error| refuse("action", error))?;
        if self.max_episode_steps == Some(0) {
            return Err(EnvError::new("max_episode_steps is 0: no episode could take a step"));
        }
        if self.action_mask && !self.action.has_discrete_actions() {
            let text = format!(
                "action_mask is set, but actions of {} are continuous and cannot be masked: clear it",
                self.action
            );
            return Err(EnvError::new(text));
        }
        Ok(())
    }

    /// The first choice that a mask, `[dist_len]`, leaves no action of; 0 for a discrete action.
    pub fn nothing_possible(&self, mask: &[bool]) -> Option<usize> {
        mask::first_fully_masked(mask, &self.action)
    }

    /// Masks of `n_envs` environments, `[B, dist_len]`; `None` without [`action_mask`](Self::action_mask).
    pub(crate) fn masks_for(&self, n_envs: usize) -> Option<Vec<bool>> {
        self.action_mask.then(|| vec![true; n_envs * self.action.dist_len()])
    }

    /// Whether the spaces and the use of masks are equal; name and time limit may differ.
    pub(crate) fn has_spaces_of(&self, other: &EnvSpec) -> bool {
        self.observation == other.observation && self.action == other.action && self.action_mask == other.action_mask
    }
}

/// What [`EnvSpec`] and [`MultiAgentSpec`](crate::MultiAgentSpec) have in common.
pub(crate) trait Spec: PartialEq + fmt::Display {
    fn name(&self) -> &str;

    fn check(&self) -> Result<(), EnvError>;
}

impl Spec for EnvSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Result<(), EnvError> {
        self.check()
    }
}

impl fmt::Display for EnvSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let masked = if self.action_mask { " with a mask" } else { "" };
        write!(f, "{} (observations {}, actions {}{masked}, ", self.name, self.observation, self.action)?;
        match self.max_episode_steps {
            Some(limit) => write!(f, "at most {limit} steps)"),
            None => write!(f, "no time limit)"),
        }
    }
}
