use std::fmt;

use pronk_policy::{PolicyError, Space};

use super::error::EnvError;
use super::mask;

/// What an environment says about itself before its first step.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvSpec {
    /// The name that reports and errors use, such as `"CartPole-v1"`.
    pub name: String,
    /// What can be seen.
    pub observation: Space,
    /// What can be done.
    pub action: Space,
    /// After how many steps an episode is cut off as [`End::Truncated`](crate::End::Truncated); `None` when only the environment ends it.
    pub max_episode_steps: Option<u32>,
    /// Whether [`Env::action_mask`](crate::Env::action_mask) is to be asked before every action, because not everything is always possible.
    pub action_mask: bool,
}

impl EnvSpec {
    /// Whether such an environment can be run.
    ///
    /// # Errors
    /// A space that contradicts itself, a time limit of 0, or a mask for actions that are numbers.
    pub fn check(&self) -> Result<(), EnvError> {
        let refuse = |what: &str, error: PolicyError| EnvError::new(format!("{what} {error}"));
        self.observation.check().map_err(|error| refuse("observation", error))?;
        self.action.check().map_err(|error| refuse("action", error))?;
        if self.max_episode_steps == Some(0) {
            return Err(EnvError::new("max_episode_steps is 0: no episode could take a step"));
        }
        if self.action_mask && !self.action.has_discrete_actions() {
            let text = format!(
                "action_mask is set, but actions of {} are numbers, which are not chosen among things: clear it",
                self.action
            );
            return Err(EnvError::new(text));
        }
        Ok(())
    }

    /// The first choice of which a mask, `[dist_len]`, leaves nothing possible; 0 for an action that is only one.
    pub fn nothing_possible(&self, mask: &[bool]) -> Option<usize> {
        mask::first_fully_masked(mask, &self.action)
    }

    /// A mask for each of so many environments, `[B, dist_len]`; `None` where every action is always possible.
    pub(crate) fn masks_for(&self, n_envs: usize) -> Option<Vec<bool>> {
        self.action_mask.then(|| vec![true; n_envs * self.action.dist_len()])
    }

    /// Whether observations and actions are the same; name and time limit may differ.
    pub(crate) fn has_spaces_of(&self, other: &EnvSpec) -> bool {
        self.observation == other.observation && self.action == other.action && self.action_mask == other.action_mask
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
