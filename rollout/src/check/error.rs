use std::error::Error;
use std::fmt;

use super::unwritten::is_unwritten;
use crate::env::EnvFailureCause;

/// A rule of [`Env`](crate::Env), or of [`MultiAgentEnv`](crate::MultiAgentEnv), that an environment breaks.
///
/// ```
/// use pronk_rollout::{EnvCheckError, EnvFault};
///
/// let error = EnvCheckError { env: "Gripper".into(), place: Some((0, 17)), fault: EnvFault::NotWritten { element: 3 } };
/// assert_eq!(
///     error.to_string(),
///     "Gripper breaks a rule at step 17 of the episode with seed 0: observation element 3 was not written"
/// );
/// ```
#[derive(Debug)]
pub struct EnvCheckError {
    /// The environment's name.
    pub env: String,
    /// The episode's seed and the step, 0 being the reset; `None` for a fault of the spec.
    pub place: Option<(u64, u32)>,
    /// The rule.
    pub fault: EnvFault,
}

/// What an environment does wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvFault {
    /// The spec is invalid.
    #[error("the spec is invalid: {reason}")]
    BadSpec {
        /// What is wrong.
        reason: String,
    },
    /// The spec changed after a few episodes.
    #[error("the spec changed while episodes were played, to {after}")]
    SpecChanged {
        /// What it is now.
        after: String,
    },
    /// A call failed in a way that would fail a run.
    #[error("{}", failed(.0))]
    Failure(EnvFailureCause),
    /// An element of the observation was not written.
    #[error("observation element {element} was not written")]
    NotWritten {
        /// Which element.
        element: usize,
    },
    /// The observation is not in the observation space.
    #[error("{what}")]
    OutsideSpace {
        /// Where it leaves the space.
        what: String,
    },
    /// An episode without a time limit did not end.
    #[error(
        "the episode did not end in {steps} steps and max_episode_steps is None, so no return would ever be reported: set \
         max_episode_steps"
    )]
    NeverEnds {
        /// How many steps were taken.
        steps: u32,
    },
    /// The same seed and actions gave another episode.
    #[error(
        "the same seed and actions gave another episode: it depends on more than the seed, or the observation is not \
         written whole"
    )]
    NotReproducible,
    /// The environment refused a state that it had saved.
    #[error("it refused the state that it had saved after {steps} steps: {why}: mend `load`, or leave out `save`")]
    NotLoaded {
        /// Steps before the save.
        steps: u32,
        /// Why.
        why: String,
    },
    /// The rest of an episode whose state was saved and loaded differed from that without.
    #[error(
        "saved after {steps} steps and loaded, the episode went on otherwise than without: `save` leaves out something \
         that the rest depends on, or `load` does not restore it"
    )]
    NotContinued {
        /// Steps before the save.
        steps: u32,
    },
    /// An instance that had played other episodes gave another episode than a fresh one, with the same seed
    /// and actions.
    #[error(
        "{difference} in one that has played {episodes_before} other \
         episode{} before: something survives its reset, or comes from outside the environment",
        if *.episodes_before == 1 { "" } else { "s" }
    )]
    DiffersFromFresh {
        /// What differs, such as an element of the observation, with its values in the fresh instance and in
        /// the other.
        difference: String,
        /// How many episodes the other had played.
        episodes_before: u64,
    },
    /// A fault of one of several agents.
    #[error("agent `{agent}`: {fault}")]
    OfAgent {
        /// The agent's name.
        agent: String,
        /// The rule.
        fault: Box<EnvFault>,
    },
}

fn failed(cause: &EnvFailureCause) -> String {
    let prefix = if matches!(cause, EnvFailureCause::Error(_)) { "it failed: " } else { "" };
    format!("{prefix}{cause}")
}

impl From<EnvFailureCause> for EnvFault {
    fn from(cause: EnvFailureCause) -> Self {
        match cause {
            EnvFailureCause::NonFiniteObservation { element, value } if is_unwritten(value) => {
                EnvFault::NotWritten { element }
            }
            EnvFailureCause::OfAgent { agent, cause } => {
                EnvFault::OfAgent { agent, fault: Box::new(EnvFault::from(*cause)) }
            }
            cause => EnvFault::Failure(cause),
        }
    }
}

impl EnvCheckError {
    pub(crate) fn of_spec(env: &str, fault: EnvFault) -> Self {
        Self { env: env.to_owned(), place: None, fault }
    }

    pub(super) fn in_episode(env: &str, seed: u64, step: u32, fault: EnvFault) -> Self {
        Self { env: env.to_owned(), place: Some((seed, step)), fault }
    }
}

impl fmt::Display for EnvCheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let env = if self.env.is_empty() { "the environment" } else { &self.env };
        match self.place {
            None => write!(f, "{env} breaks a rule: {}", self.fault),
            Some((seed, 0)) => write!(f, "{env} breaks a rule in reset with seed {seed}: {}", self.fault),
            Some((seed, step)) => {
                write!(f, "{env} breaks a rule at step {step} of the episode with seed {seed}: {}", self.fault)
            }
        }
    }
}

impl Error for EnvCheckError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.fault {
            // The message includes the cause's own text, so the chain continues below it.
            EnvFault::Failure(cause) => cause.source(),
            _ => None,
        }
    }
}
