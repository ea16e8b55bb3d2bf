use super::kernel_action::KernelAction;
use crate::env::EnvSpec;

/// The dynamics of one environment as functions of its state, from which the compiler makes code for many at once.
///
/// Every environment of a [`NativeVectorEnv`](crate::NativeVectorEnv) goes through the same functions, several in one instruction. They stay fast
/// as long as they are marked `#[inline(always)]` and choose between *numbers* instead of between ways: `if` and `clamp` on
/// numbers are fine, a loop whose length depends on the state, a table or a call of the mathematical library is not.
/// The time limit of [`EnvSpec`] is enforced outside; a kernel says when an episode ends by itself.
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
/// let context = VectorContext { worker: 0, incarnation: 0, first_env: 0, seed: 7 };
/// assert_eq!(Vectorised::<Corridor>::new().make_vector(&context, 1000, &CallMonitor::new())?.n_envs(), 1000);
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
