use std::error::Error;
use std::fmt;

use super::unwritten::is_unwritten;
use crate::env::{EnvError, EnvFailureCause};

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
    /// The episode's seed and the step, 0 being the reset; `None` when it is about the spec.
    pub place: Option<(u64, u32)>,
    /// The rule.
    pub fault: EnvFault,
}

/// What is wrong with an environment.
#[derive(Debug)]
#[non_exhaustive]
pub enum EnvFault {
    /// The spec contradicts itself.
    BadSpec {
        /// What is wrong.
        reason: String,
    },
    /// The spec is another one after a few episodes.
    SpecChanged {
        /// What it is now.
        after: String,
    },
    /// The environment returned an error.
    Error(EnvError),
    /// The environment panicked, with this message.
    Panic(String),
    /// An element of the observation was left as it was.
    NotWritten {
        /// Which element.
        element: usize,
    },
    /// An element of the observation is NaN or infinite.
    NonFiniteObservation {
        /// Which element.
        element: usize,
        /// Its value.
        value: f32,
    },
    /// The observation is not in the observation space.
    OutsideSpace {
        /// Where it leaves the space.
        what: String,
    },
    /// The reward is NaN or infinite.
    NonFiniteReward {
        /// Its value.
        value: f32,
    },
    /// The mask leaves nothing possible.
    NothingPossible {
        /// Of which choice; 0 for an action that is only one.
        choice: usize,
    },
    /// An episode did not end in all these steps, and there is no time limit.
    NeverEnds {
        /// How many steps were taken.
        steps: u32,
    },
    /// The same seed and actions gave another episode.
    NotReproducible,
    /// Of several agents, it fails one.
    OfAgent {
        /// The agent's name.
        agent: String,
        /// The rule.
        fault: Box<EnvFault>,
    },
}

impl From<EnvFailureCause> for EnvFault {
    fn from(cause: EnvFailureCause) -> Self {
        match cause {
            EnvFailureCause::Error(error) => EnvFault::Error(error),
            EnvFailureCause::Panic(text) => EnvFault::Panic(text),
            EnvFailureCause::NonFiniteObservation { element, value } if is_unwritten(value) => {
                EnvFault::NotWritten { element }
            }
            EnvFailureCause::NonFiniteObservation { element, value } => {
                EnvFault::NonFiniteObservation { element, value }
            }
            EnvFailureCause::NonFiniteReward { value } => EnvFault::NonFiniteReward { value },
            EnvFailureCause::NothingPossible { choice } => EnvFault::NothingPossible { choice },
            // Checked environments are not timed: who checks one that hangs sees it.
            hang @ (EnvFailureCause::Hang { .. } | EnvFailureCause::Lost { .. }) => {
                EnvFault::Error(EnvError::new(hang.to_string()))
            }
            EnvFailureCause::OfAgent { agent, cause } => {
                EnvFault::OfAgent { agent, fault: Box::new(EnvFault::from(*cause)) }
            }
        }
    }
}

impl EnvCheckError {
    pub(crate) fn of_spec(env: &str, fault: EnvFault) -> Self {
        Self { env: env.to_owned(), place: None, fault }
    }

    pub(crate) fn in_episode(env: &str, seed: u64, step: u32, fault: EnvFault) -> Self {
        Self { env: env.to_owned(), place: Some((seed, step)), fault }
    }
}

impl fmt::Display for EnvFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnvFault::BadSpec { reason } => write!(f, "the spec cannot work: {reason}"),
            EnvFault::SpecChanged { after } => write!(f, "the spec changed while episodes were played, to {after}"),
            EnvFault::Error(error) => write!(f, "it failed: {error}"),
            EnvFault::Panic(text) => write!(f, "it panicked: {text}"),
            EnvFault::NotWritten { element } => write!(f, "observation element {element} was not written"),
            EnvFault::NonFiniteObservation { element, value } => write!(f, "observation element {element} is {value}"),
            EnvFault::OutsideSpace { what } => write!(f, "{what}"),
            EnvFault::NonFiniteReward { value } => write!(f, "the reward is {value}"),
            EnvFault::NothingPossible { choice } => write!(
                f,
                "action_mask leaves nothing possible of choice {choice}: a state without a way on must end the episode"
            ),
            EnvFault::NeverEnds { steps } => write!(
                f,
                "the episode did not end in {steps} steps and max_episode_steps is None, so no return would ever be \
                 reported: set max_episode_steps"
            ),
            EnvFault::NotReproducible => write!(
                f,
                "the same seed and actions gave another episode: it depends on something else than the seed, or the \
                 observation is not written whole"
            ),
            EnvFault::OfAgent { agent, fault } => write!(f, "agent `{agent}`: {fault}"),
        }
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
            // The error's own text is part of ours; the chain goes on below it.
            EnvFault::Error(error) => error.source(),
            _ => None,
        }
    }
}
