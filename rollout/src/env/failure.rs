use std::error::Error;
use std::fmt;
use std::time::Duration;

use pronk_buffer::ObsColumn;

use super::error::EnvError;

/// A failure of an environment, with what it takes to reproduce it.
///
/// Its message names worker, environment, episode seed, step and cause:
///
/// ```
/// use pronk_rollout::{EnvError, EnvFailure, EnvFailureCause, FailurePlace};
///
/// let failure = EnvFailure {
///     env: "Gripper".into(),
///     worker: 3,
///     incarnation: 0,
///     index: 2,
///     place: FailurePlace::Step { episode_seed: 71, step: 18 },
///     cause: EnvFailureCause::Error(EnvError::new("joint 4 is out of range")),
///     steps_made: 2,
/// };
/// assert_eq!(
///     failure.to_string(),
///     "environment 2 of rollout-3 (Gripper, incarnation 0) failed at step 18 of the episode with seed 71: \
///      joint 4 is out of range (to replay: reset with seed 71, then the 18 steps)"
/// );
/// ```
#[derive(Debug)]
pub struct EnvFailure {
    /// The environment's name; empty when it could not be made.
    pub env: String,
    /// The worker it belongs to.
    pub worker: u32,
    /// How often the worker had rebuilt its environments before.
    pub incarnation: u32,
    /// Which environment of the worker, from 0.
    pub index: u32,
    /// What it was doing.
    pub place: FailurePlace,
    /// What went wrong.
    pub cause: EnvFailureCause,
    /// Other environments of the vector that had already made the step.
    pub steps_made: usize,
}

/// What an environment was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePlace {
    /// It was being made.
    Make,
    /// It was being reset.
    Reset {
        /// The seed of the episode.
        episode_seed: u64,
    },
    /// It was taking a step.
    Step {
        /// The seed of the episode.
        episode_seed: u64,
        /// The step of the episode, from 1.
        step: u32,
    },
    /// It was computing an action mask.
    Mask {
        /// The seed of the episode.
        episode_seed: u64,
        /// The last step of the episode; 0 after the reset.
        step: u32,
    },
    /// It was drawing a frame.
    Render {
        /// The seed of the episode.
        episode_seed: u64,
        /// The last step of the episode; 0 after the reset.
        step: u32,
    },
    /// Unknown.
    Unknown,
}

impl fmt::Display for FailurePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailurePlace::Make => write!(f, "while it was made"),
            FailurePlace::Reset { episode_seed } => write!(f, "in reset with episode seed {episode_seed}"),
            FailurePlace::Step { episode_seed, step } => {
                write!(f, "at step {step} of the episode with seed {episode_seed}")
            }
            FailurePlace::Mask { episode_seed, step } => {
                write!(f, "in action_mask after step {step} of the episode with seed {episode_seed}")
            }
            FailurePlace::Render { episode_seed, step } => {
                write!(f, "in render after step {step} of the episode with seed {episode_seed}")
            }
            FailurePlace::Unknown => write!(f, "in an unknown call"),
        }
    }
}

/// Why an environment failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvFailureCause {
    /// It returned an error.
    #[error(transparent)]
    Error(EnvError),
    /// It panicked, with this message.
    #[error("it panicked: {0}")]
    Panic(String),
    /// It wrote an observation that is not finite.
    #[error("observation element {element} is {value}")]
    NonFiniteObservation {
        /// Which element of the observation.
        element: usize,
        /// NaN or an infinity.
        value: f32,
    },
    /// It returned a reward that is not finite.
    #[error("the reward is {value}")]
    NonFiniteReward {
        /// NaN or an infinity.
        value: f32,
    },
    /// Its mask leaves no action possible.
    #[error(
        "action_mask leaves nothing possible of choice {choice}: a state without a possible action must end the episode"
    )]
    NothingPossible {
        /// The choice without one; 0 for a discrete action.
        choice: usize,
    },
    /// It did not return.
    #[error("it has not returned for {:.1} s{}", silent_for.as_secs_f64(), last_observation(last_obs.as_ref()))]
    Hang {
        /// How long the call had taken when it was abandoned.
        silent_for: Duration,
        /// `[obs_len]`: the last observation before the hang, if observations are kept.
        last_obs: Option<ObsColumn>,
    },
    /// Another cause, of which its vector knows more.
    #[error("{cause}: {why}")]
    Explained {
        /// What went wrong.
        cause: Box<EnvFailureCause>,
        /// How it came about, and what to do.
        why: EnvError,
    },
    /// It was on a thread that was abandoned because another environment blocked it.
    #[error("it was lost with its thread, which environment {blocked_by} blocked")]
    Lost {
        /// The index of that environment.
        blocked_by: u32,
    },
    /// It failed for one of several agents.
    #[error("agent `{agent}`: {cause}")]
    OfAgent {
        /// The agent's name.
        agent: String,
        /// What went wrong.
        cause: Box<EnvFailureCause>,
    },
}

impl EnvFailureCause {
    /// The last observation that a hang names, to be filled in by a worker that knows it.
    pub(crate) fn last_obs_mut(&mut self) -> Option<&mut Option<ObsColumn>> {
        match self {
            EnvFailureCause::Hang { last_obs, .. } => Some(last_obs),
            EnvFailureCause::Explained { cause, .. } => cause.last_obs_mut(),
            _ => None,
        }
    }

    /// The key under which the step ledger books the lost steps.
    pub fn key(&self) -> &'static str {
        match self {
            EnvFailureCause::Error(_) => "env_error",
            EnvFailureCause::Panic(_) => "env_panic",
            EnvFailureCause::NonFiniteObservation { .. } => "non_finite_observation",
            EnvFailureCause::NonFiniteReward { .. } => "non_finite_reward",
            EnvFailureCause::NothingPossible { .. } => "nothing_possible",
            EnvFailureCause::Hang { .. } | EnvFailureCause::Lost { .. } => "env_hang",
            EnvFailureCause::Explained { cause, .. } | EnvFailureCause::OfAgent { cause, .. } => cause.key(),
        }
    }
}

/// How many elements of an observation a message shows.
const SHOWN: usize = 16;

fn last_observation(obs: Option<&ObsColumn>) -> String {
    let Some(obs) = obs else { return String::new() };
    let len = obs.view().len();
    let shown = len.min(SHOWN);
    let more = if len > shown { format!(" and {} more", len - shown) } else { String::new() };
    match obs {
        ObsColumn::F32(row) => format!(" (last observation {:?}{more})", &row[..shown]),
        ObsColumn::U8(row) => format!(" (last observation {:?}{more})", &row[..shown]),
    }
}

impl fmt::Display for EnvFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { env, worker, incarnation, index, place, cause, .. } = self;
        write!(f, "environment {index} of rollout-{worker} (")?;
        if !env.is_empty() {
            write!(f, "{env}, ")?;
        }
        write!(f, "incarnation {incarnation}) failed {place}: {cause}")?;
        match place {
            FailurePlace::Step { episode_seed, step }
            | FailurePlace::Mask { episode_seed, step }
            | FailurePlace::Render { episode_seed, step } => {
                write!(f, " (to replay: reset with seed {episode_seed}, then the {step} steps)")
            }
            FailurePlace::Make | FailurePlace::Reset { .. } | FailurePlace::Unknown => Ok(()),
        }
    }
}

impl Error for EnvFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The message includes the cause's own text, so the chain continues below it.
        self.cause.source()
    }
}
