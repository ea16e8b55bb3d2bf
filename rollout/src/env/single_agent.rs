use pronk_buffer::End;

use super::error::EnvError;
use super::frame::Frame;
use super::spec::EnvSpec;
use super::views::{ActionRef, ObsMut};

/// An environment: actions change its state, and each step yields an observation and a reward.
///
/// Observations are written in place, in the length and type of [`EnvSpec::observation`]. A whole
/// implementation with its factory:
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
/// # let context = EnvContext::default();
/// check_env(make(&context), 0).expect("Corridor keeps the rules");
/// ```
pub trait Env: Send {
    /// The spaces, the name and the time limit; the same in every call.
    fn spec(&self) -> EnvSpec;

    /// Begins an episode and writes its first observation.
    ///
    /// The seed, which may be 0, determines everything random in the episode: equal seeds and actions give
    /// equal episodes, so the seed in an error message suffices to replay it.
    ///
    /// # Errors
    /// A fatal error; the worker then rebuilds the environment.
    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError>;

    /// Takes one step and writes the observation that follows it, also when the step ends the episode.
    ///
    /// After an end, [`reset`](Env::reset) comes next. The vector environment truncates at
    /// [`EnvSpec::max_episode_steps`]. Errors as [`reset`](Env::reset).
    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError>;

    /// Writes the action mask of the present state: actions whose element is false are never sampled. Called
    /// with all elements true before every action if [`EnvSpec::action_mask`] is set. Every choice must keep
    /// a possible action.
    ///
    /// *Shape*: `[n]` for [`Space::Discrete`](pronk_policy::Space::Discrete), the concatenated choices for
    /// [`Space::MultiDiscrete`](pronk_policy::Space::MultiDiscrete).
    ///
    /// For example `mask[0] = self.position > 0.0` where a wall blocks action 0. Errors as
    /// [`reset`](Env::reset).
    fn action_mask(&self, _mask: &mut [bool]) -> Result<(), EnvError> {
        Ok(())
    }

    /// Draws the present state, for a video; `None`, the default, if the environment has no pictures.
    ///
    /// Called after a reset or a step, also after one that ended the episode, and only where a video is
    /// recorded: what drawing needs, such as a window, is best made in the first call. Drawing changes
    /// nothing about the episode, not even its random numbers. All frames of an environment have one size.
    ///
    /// ```
    /// use pronk_rollout::{EnvError, Frame};
    ///
    /// /// The corridor above, 20 × 20 pixels for each of its six places: `self.position` is black.
    /// fn render(position: f32) -> Result<Option<Frame>, EnvError> {
    ///     let (width, height) = (120, 20);
    ///     let walker = position as usize * 20;
    ///     let mut rgb = vec![255; width * height * 3];
    ///     for row in rgb.chunks_exact_mut(width * 3) {
    ///         row[walker * 3..][..20 * 3].fill(0);
    ///     }
    ///     Ok(Some(Frame::new(width as u32, height as u32, rgb)?.with_fps(5)))
    /// }
    /// # assert!(render(5.0).is_ok_and(|frame| frame.is_some()));
    /// ```
    ///
    /// Errors as [`reset`](Env::reset).
    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        Ok(None)
    }

    /// The state within the running episode, in a form of your own, for a checkpoint; `None`, the default, if
    /// the environment has none: a resumed run then plays the episode again from its seed and actions.
    ///
    /// Called between two steps. State that no episode changes does not belong to it.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// Continues the episode whose state another instance [saved](Env::save), exactly as that one would have.
    ///
    /// # Errors
    /// A state that is not one of this environment; the library then begins a new episode.
    fn load(&mut self, _state: &[u8]) -> Result<(), EnvError> {
        Err(EnvError::new("this environment saves no state: implement `Env::load` beside `Env::save`"))
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

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        (**self).render()
    }

    fn save(&self) -> Option<Vec<u8>> {
        (**self).save()
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        (**self).load(state)
    }
}

/// The reward of one step, and whether it ended the episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The reward of the step.
    pub reward: f32,
    /// Whether the episode continues, terminated or was truncated.
    pub end: End,
}

/// What a factory closure may return: an environment, or a `Result` of one.
pub trait IntoEnv {
    /// The environment.
    type Env: Env;

    /// The environment, or the closure's error.
    fn into_env(self) -> Result<Self::Env, EnvError>;
}

impl<E: Env> IntoEnv for E {
    type Env = E;

    fn into_env(self) -> Result<E, EnvError> {
        Ok(self)
    }
}

impl<E: Env> IntoEnv for Result<E, EnvError> {
    type Env = E;

    fn into_env(self) -> Result<E, EnvError> {
        self
    }
}
