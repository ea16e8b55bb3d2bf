use super::kernel_action::KernelAction;
use crate::env::{EnvError, EnvSpec, Frame};

/// The dynamics of one environment, which the compiler vectorises over the environments of a
/// [`NativeVectorEnv`](crate::NativeVectorEnv).
///
/// For that the functions must be `#[inline(always)]` and branch-free: `if` and `clamp` that select a number
/// are fine; loops that depend on the state, tables and calls of the maths library are not. The vector
/// enforces the time limit; a kernel only terminates.
///
/// ```
/// use pronk_policy::Space;
/// use pronk_rollout::{EnvFactory, EnvSpec, Kernel, Outcome, VectorContext, Vectorised, CallMonitor};
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
/// let context = VectorContext { seed: 7, ..VectorContext::default() };
/// assert_eq!(Vectorised::<Corridor>::new().make_vector(&context, 1000, &CallMonitor::new())?.n_envs(), 1000);
/// # Ok::<(), pronk_rollout::EnvFailure>(())
/// ```
pub trait Kernel: 'static {
    /// The state of one environment: an array of `f64`.
    type State: Copy + Default + AsRef<[f64]> + AsMut<[f64]> + Send;
    /// `u32` for a discrete action, `f32` for a continuous one of one dimension.
    type Action: KernelAction;
    /// An observation: an array of `f32`, as long as those of the observation space.
    type Obs: AsRef<[f32]>;

    /// The spaces, the name and the time limit.
    fn env_spec() -> EnvSpec;

    /// The first state of the episode with this seed.
    fn start(seed: u64) -> Self::State;

    /// Takes one step. The action is in the action space; a continuous one may be any value but NaN.
    fn advance(state: &mut Self::State, action: Self::Action) -> Outcome;

    /// The observation of a state.
    fn observation(state: &Self::State) -> Self::Obs;

    /// Draws a state, as [`Env::render`](crate::Env::render) does; `None`, the default, without pictures.
    fn render(_state: &Self::State) -> Result<Option<Frame>, EnvError> {
        Ok(None)
    }
}

/// The reward of one step of a [`Kernel`], and whether it terminated the episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The reward of the step.
    pub reward: f32,
    /// Whether the step terminated the episode.
    pub terminated: bool,
}
