//! Environments whose states lie in arrays, so that one instruction steps several of them.

mod action;
mod native;
mod sin_cos;

use std::fmt;
use std::marker::PhantomData;

use crate::env::EnvSpec;
use crate::factory::{EnvFactory, VectorContext};
use crate::failure::EnvFailure;
use crate::vector::VectorEnv;
use crate::watch::Watch;

pub use action::KernelAction;
pub use native::NativeVectorEnv;
pub(crate) use sin_cos::sin_cos;

/// The dynamics of one environment as functions of its state, from which the compiler makes code for many at once.
///
/// Every environment of a [`NativeVectorEnv`] goes through the same functions, several in one instruction. They stay fast
/// as long as they are marked `#[inline(always)]` and choose between *numbers* instead of between ways: `if` and `clamp` on
/// numbers are fine, a loop whose length depends on the state, a table or a call of the mathematical library is not.
/// The time limit of [`EnvSpec`] is enforced outside; a kernel says when an episode ends by itself.
///
/// ```
/// use pronk_policy::Space;
/// use pronk_rollout::{EnvFactory, EnvSpec, Kernel, Outcome, VectorContext, Vectorised, Watch};
///
/// /// A corridor: walk right to the door, in as few steps as possible.
/// struct Corridor;
///
/// impl Kernel for Corridor {
///     type State = [f64; 1];
///     type Action = u32;
///     type Obs = [f32; 1];
///
///     fn env_spec() -> EnvSpec {
///         EnvSpec {
///             name: "Corridor".into(),
///             observation: Space::boxed(vec![0.0], vec![5.0], vec![1]).expect("low <= high"),
///             action: Space::discrete(2).expect("two actions"),
///             max_episode_steps: Some(100),
///             action_mask: false,
///         }
///     }
///
///     fn start(seed: u64) -> [f64; 1] {
///         [(seed % 3) as f64]
///     }
///
///     #[inline(always)]
///     fn advance([position]: &mut [f64; 1], action: u32) -> Outcome {
///         let direction = if action == 1 { 1.0 } else { -1.0 };
///         *position = (*position + direction).clamp(0.0, 5.0);
///         Outcome { reward: -0.1, terminated: *position == 5.0 }
///     }
///
///     #[inline(always)]
///     fn observation([position]: &[f64; 1]) -> [f32; 1] {
///         [*position as f32]
///     }
/// }
///
/// let context = VectorContext { worker: 0, incarnation: 0, first_env: 0, seed: 7 };
/// assert_eq!(Vectorised::<Corridor>::new().make_vector(&context, 1000, &Watch::new())?.n_envs(), 1000);
/// # Ok::<(), pronk_rollout::EnvFailure>(())
/// ```
pub trait Kernel: 'static {
    /// The state of one environment: an array of `f64`.
    type State: Copy + Default + AsRef<[f64]> + AsMut<[f64]> + Send;
    /// `u32` for one choice among things, `f32` for one number.
    type Action: KernelAction;
    /// An observation: an array of `f32`, as long as those of the observation space.
    type Obs: AsRef<[f32]>;

    /// The spaces, the name and the time limit.
    fn env_spec() -> EnvSpec;

    /// The state that the episode of this seed begins with.
    fn start(seed: u64) -> Self::State;

    /// Takes one step. The action is one of the action space, or any number but NaN.
    fn advance(state: &mut Self::State, action: Self::Action) -> Outcome;

    /// What can be seen of a state.
    fn observation(state: &Self::State) -> Self::Obs;
}

/// What one step of a [`Kernel`] was worth, and whether it ended the episode.
///
/// ```
/// use pronk_rollout::{CartPole, Kernel, Outcome};
///
/// let mut state = CartPole::start(0);
/// assert_eq!(CartPole::advance(&mut state, 1), Outcome { reward: 1.0, terminated: false });
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The reward of the step.
    pub reward: f32,
    /// Whether the episode ended by itself.
    pub terminated: bool,
}

/// Makes native environments that step together, with their states in arrays.
///
/// Episodes are those that a closure which returns the environment gives: the same seeds, states to the last bits of a
/// sine, ends and returns. They are only made faster, the more so the more environments a worker has.
///
/// ```
/// use pronk_rollout::{CartPole, EnvFactory, VectorContext, Vectorised, Watch};
///
/// // `Trainer::new(config, Vectorised::<CartPole>::new())` in place of `|_: &EnvContext| CartPole::new()`.
/// let factory = Vectorised::<CartPole>::new();
/// let context = VectorContext { worker: 1, incarnation: 0, first_env: 0, seed: 0 };
/// let envs = factory.make_vector(&context, 256, &Watch::new())?;
/// assert_eq!((envs.n_envs(), envs.spec().name.as_str()), (256, "CartPole-v1"));
///
/// // Another time limit than the environment's own.
/// let shorter = factory.with_time_limit(Some(100)).make_vector(&context, 1, &Watch::new())?;
/// assert_eq!(shorter.spec().max_episode_steps, Some(100));
/// # Ok::<(), pronk_rollout::EnvFailure>(())
/// ```
pub struct Vectorised<K> {
    /// `None`: the environment's own limit.
    time_limit: Option<Option<u32>>,
    kernel: PhantomData<fn() -> K>,
}

impl<K: Kernel> Vectorised<K> {
    /// Environments as they are.
    pub fn new() -> Self {
        Self { time_limit: None, kernel: PhantomData }
    }

    /// Episodes are truncated after so many steps, or never, whatever the environment's own limit.
    pub fn with_time_limit(self, max_episode_steps: Option<u32>) -> Self {
        Self { time_limit: Some(max_episode_steps), ..self }
    }
}

impl<K: Kernel> Default for Vectorised<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Clone for Vectorised<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Vectorised<K> {}

impl<K: Kernel> fmt::Debug for Vectorised<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vectorised").field("env", &K::env_spec().name).field("time_limit", &self.time_limit).finish()
    }
}

impl<K: Kernel> EnvFactory for Vectorised<K> {
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        _watch: &Watch,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        let max_episode_steps = self.time_limit.unwrap_or(K::env_spec().max_episode_steps);
        let envs = NativeVectorEnv::<K>::with_time_limit(context, n_envs, max_episode_steps)?;
        Ok(Box::new(envs))
    }
}

#[cfg(test)]
mod tests;
