//! What an environment is: the one trait a user implements.

use std::error::Error;
use std::fmt;

use pronk_buffer::{ActionKind, ActionView, ActionViewMut, End, ObsKind, ObsViewMut};
use pronk_policy::{ObsDtype, PolicyError, Space};

use crate::failure::FailureCause;
use crate::mask;

/// An environment: a thing with a state, moved by actions, that says what can be seen of it and what that was worth.
///
/// Observations are written in place, into a row that already has the length and type of
/// [`EnvSpec::observation`]; nothing is allocated per step. A whole implementation with its factory:
///
/// ```
/// use pronk_rollout::{ActionRef, End, Env, EnvContext, EnvError, EnvSpec, ObsMut, Step, check_env};
/// use pronk_policy::Space;
///
/// /// A corridor: walk right to the door, in as few steps as possible.
/// struct Corridor {
///     length: f32,
///     position: f32,
/// }
///
/// impl Env for Corridor {
///     fn spec(&self) -> EnvSpec {
///         EnvSpec {
///             name: "Corridor".into(),
///             observation: Space::boxed(vec![0.0], vec![self.length], vec![1]).expect("low <= high"),
///             action: Space::discrete(2).expect("two actions"),
///             max_episode_steps: Some(100),
///             action_mask: false,
///         }
///     }
///
///     fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
///         self.position = (seed % 3) as f32;
///         obs.write(&[self.position])
///     }
///
///     fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
///         let direction = if action.discrete()? == 1 { 1.0 } else { -1.0 };
///         self.position = (self.position + direction).clamp(0.0, self.length);
///         obs.write(&[self.position])?;
///         let at_the_door = self.position == self.length;
///         Ok(Step { reward: -0.1, end: if at_the_door { End::Terminated } else { End::No } })
///     }
/// }
///
/// // The factory is any closure: each worker calls it once per environment.
/// let make = |_: &EnvContext| Corridor { length: 5.0, position: 0.0 };
/// # let context = EnvContext { worker: 0, index: 0, incarnation: 0, seed: 0 };
/// check_env(make(&context), 0).expect("Corridor keeps the rules");
/// ```
pub trait Env: Send {
    /// The spaces, the name and the time limit; the same every time it is asked.
    fn spec(&self) -> EnvSpec;

    /// Begins an episode and writes its first observation.
    ///
    /// The seed decides everything that is random in the episode: the same seed and actions give the same episode.
    /// The library derives one seed per episode, so the seed in an error message is enough to replay it. Every
    /// number is a seed, 0 included.
    ///
    /// # Errors
    /// Whatever the environment cannot recover from; its worker then rebuilds it.
    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError>;

    /// Takes one step and writes the observation that follows it, also when the step ended the episode.
    ///
    /// It is not called again after an end before [`reset`](Env::reset). A time limit is not the environment's
    /// affair: state it as [`EnvSpec::max_episode_steps`] and the vector environment truncates.
    ///
    /// # Errors
    /// As [`reset`](Env::reset).
    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError>;

    /// Says what is possible in the present state: whatever `mask` says false of will not be done.
    ///
    /// Asked before every action, if [`EnvSpec::action_mask`] is set. Every element is true at first. Something must remain
    /// possible of every choice.
    ///
    /// *Shape*: `[n]` for [`Space::Discrete`]; for [`Space::MultiDiscrete`] the things of one choice after the other.
    ///
    /// # Errors
    /// As [`reset`](Env::reset).
    ///
    /// # Example
    /// ```
    /// # use pronk_rollout::{ActionRef, Env, EnvError, EnvSpec, ObsMut, Step};
    /// # struct Corridor { position: f32 }
    /// # impl Env for Corridor {
    /// #     fn spec(&self) -> EnvSpec { unreachable!() }
    /// #     fn reset(&mut self, _: u64, _: ObsMut<'_>) -> Result<(), EnvError> { unreachable!() }
    /// #     fn step(&mut self, _: ActionRef<'_>, _: ObsMut<'_>) -> Result<Step, EnvError> { unreachable!() }
    /// // In a corridor with a wall on the left, action 0 (to the left) is impossible beside the wall.
    /// fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
    ///     mask[0] = self.position > 0.0;
    ///     Ok(())
    /// }
    /// # }
    /// # let mut mask = [true; 2];
    /// # Corridor { position: 0.0 }.action_mask(&mut mask)?;
    /// # assert_eq!(mask, [false, true]);
    /// # Ok::<(), EnvError>(())
    /// ```
    fn action_mask(&self, _mask: &mut [bool]) -> Result<(), EnvError> {
        Ok(())
    }
}

impl<E: Env + ?Sized> Env for Box<E> {
    fn spec(&self) -> EnvSpec {
        (**self).spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        (**self).reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        (**self).step(action, obs)
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        (**self).action_mask(mask)
    }
}

/// What an environment says about itself before its first step.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvSpec {
    /// The name that reports and errors use, such as `"CartPole-v1"`.
    pub name: String,
    /// What can be seen.
    pub observation: Space,
    /// What can be done.
    pub action: Space,
    /// After how many steps an episode is cut off as [`End::Truncated`]; `None` when only the environment ends it.
    pub max_episode_steps: Option<u32>,
    /// Whether [`Env::action_mask`] is to be asked before every action, because not everything is always possible.
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
        mask::first_without_a_way(mask, &self.action)
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

/// What one step was worth and whether it ended the episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The reward of the step.
    pub reward: f32,
    /// Whether the episode goes on, reached an end of its own, or was cut off.
    pub end: End,
}

/// The row an environment writes its observation into.
///
/// Shape: `[obs_len]` of the observation space, in its element type.
#[derive(Debug)]
pub enum ObsMut<'a> {
    /// A row of floats.
    F32(&'a mut [f32]),
    /// A row of bytes, as images have them.
    U8(&'a mut [u8]),
}

impl<'a> ObsMut<'a> {
    /// How many elements the row has.
    pub fn len(&self) -> usize {
        match self {
            ObsMut::F32(row) => row.len(),
            ObsMut::U8(row) => row.len(),
        }
    }

    /// Whether the row has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row as floats.
    ///
    /// # Errors
    /// When the observation space has bytes.
    #[inline]
    pub fn f32(self) -> Result<&'a mut [f32], EnvError> {
        match self {
            ObsMut::F32(row) => Ok(row),
            ObsMut::U8(_) => {
                Err(EnvError::new("the environment writes f32 observations but its space has u8 elements"))
            }
        }
    }

    /// The row as bytes.
    ///
    /// # Errors
    /// When the observation space has floats.
    #[inline]
    pub fn u8(self) -> Result<&'a mut [u8], EnvError> {
        match self {
            ObsMut::U8(row) => Ok(row),
            ObsMut::F32(_) => {
                Err(EnvError::new("the environment writes u8 observations but its space has f32 elements"))
            }
        }
    }

    /// Writes a whole observation of floats.
    ///
    /// # Errors
    /// When the space has bytes or another length.
    #[inline]
    pub fn write(self, values: &[f32]) -> Result<(), EnvError> {
        let row = self.f32()?;
        if row.len() != values.len() {
            return Err(EnvError::new(format!(
                "the environment writes {} observation values but its space has {}",
                values.len(),
                row.len()
            )));
        }
        row.copy_from_slice(values);
        Ok(())
    }

    /// The elements from `start`, so many, borrowed for a shorter time.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline]
    pub fn part(&mut self, start: usize, len: usize) -> ObsMut<'_> {
        match self {
            ObsMut::F32(all) => ObsMut::F32(&mut all[start..start + len]),
            ObsMut::U8(all) => ObsMut::U8(&mut all[start..start + len]),
        }
    }

    /// Whether what is written can be seen. Bytes always can.
    ///
    /// # Errors
    /// [`FailureCause::NonFiniteObservation`], with the first element that is NaN or infinite.
    #[inline]
    pub fn check_finite(&self) -> Result<(), FailureCause> {
        match self {
            ObsMut::F32(row) => match first_non_finite(row) {
                None => Ok(()),
                Some((element, value)) => Err(FailureCause::NonFiniteObservation { element, value }),
            },
            ObsMut::U8(_) => Ok(()),
        }
    }
}

impl<'a> From<ObsViewMut<'a>> for ObsMut<'a> {
    fn from(rows: ObsViewMut<'a>) -> Self {
        match rows {
            ObsViewMut::F32(rows) => ObsMut::F32(rows),
            ObsViewMut::U8(rows) => ObsMut::U8(rows),
        }
    }
}

/// The first value that is NaN or infinite, with its place.
///
/// The scan that runs on every step has no early exit, so that it vectorises.
#[inline]
pub(crate) fn first_non_finite(values: &[f32]) -> Option<(usize, f32)> {
    if values.iter().fold(true, |finite, value| finite & value.is_finite()) {
        return None;
    }
    values.iter().enumerate().find(|(_, value)| !value.is_finite()).map(|(element, value)| (element, *value))
}

/// The action an environment is given.
///
/// Shape: `[act_len]` of the action space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ActionRef<'a> {
    /// The chosen index of each discrete part.
    Discrete(&'a [u32]),
    /// The value of each continuous part.
    Continuous(&'a [f32]),
}

impl<'a> ActionRef<'a> {
    /// How many numbers the action has.
    pub fn len(self) -> usize {
        match self {
            ActionRef::Discrete(indices) => indices.len(),
            ActionRef::Continuous(values) => values.len(),
        }
    }

    /// Whether the action has no number.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The index chosen from a [`Space::Discrete`].
    ///
    /// # Errors
    /// When the action space is another one.
    #[inline]
    pub fn discrete(self) -> Result<u32, EnvError> {
        match self {
            ActionRef::Discrete([index]) => Ok(*index),
            other => Err(EnvError::new(format!("the environment expects one discrete action, got {other:?}"))),
        }
    }

    /// The values chosen from a [`Space::Box`].
    ///
    /// # Errors
    /// When the action space is another one.
    #[inline]
    pub fn continuous(self) -> Result<&'a [f32], EnvError> {
        match self {
            ActionRef::Continuous(values) => Ok(values),
            other => Err(EnvError::new(format!("the environment expects continuous actions, got {other:?}"))),
        }
    }

    /// Copies the actions; both sides are of one kind, since both were made for one space.
    pub(crate) fn copy_into(self, to: ActionViewMut<'_>) {
        match (self, to) {
            (ActionRef::Discrete(from), ActionViewMut::U32(to)) => to.copy_from_slice(from),
            (ActionRef::Continuous(from), ActionViewMut::F32(to)) => to.copy_from_slice(from),
            (ActionRef::Discrete(_), ActionViewMut::F32(_)) | (ActionRef::Continuous(_), ActionViewMut::U32(_)) => {}
        }
    }

    /// The numbers from `start`, so many.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline]
    pub fn part(self, start: usize, len: usize) -> ActionRef<'a> {
        match self {
            ActionRef::Discrete(all) => ActionRef::Discrete(&all[start..start + len]),
            ActionRef::Continuous(all) => ActionRef::Continuous(&all[start..start + len]),
        }
    }
}

impl<'a> From<ActionView<'a>> for ActionRef<'a> {
    fn from(actions: ActionView<'a>) -> Self {
        match actions {
            ActionView::U32(actions) => ActionRef::Discrete(actions),
            ActionView::F32(actions) => ActionRef::Continuous(actions),
        }
    }
}

/// Why an environment could not be made, reset or stepped, in its own words.
///
/// ```
/// use pronk_rollout::EnvError;
///
/// let from_words = EnvError::new("the simulator did not answer");
/// let from_error = EnvError::new(std::io::Error::other("connection reset"));
/// assert_eq!(from_words.to_string(), "the simulator did not answer");
/// assert_eq!(from_error.to_string(), "connection reset");
/// ```
pub struct EnvError(Box<dyn Error + Send + Sync>);

impl EnvError {
    /// Wraps a message or any error.
    #[cold]
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

impl fmt::Display for EnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for EnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for EnvError {
    // Transparent: the wrapped error's text is ours, so the chain goes on below it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// What columns of such observations are made of.
pub(crate) fn obs_kind(observation: &Space) -> ObsKind {
    match observation.obs_dtype() {
        ObsDtype::F32 => ObsKind::F32,
        ObsDtype::U8 => ObsKind::U8,
    }
}

/// What columns of such actions are made of.
pub(crate) fn act_kind(action: &Space) -> ActionKind {
    if action.has_discrete_actions() { ActionKind::U32 } else { ActionKind::F32 }
}
