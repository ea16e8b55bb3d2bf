use crate::env::{ActionRef, Env, EnvError, EnvSpec, Frame, ObsMut, Step};

/// An environment with transformed rewards; episode returns are sums of the transformed ones.
///
/// Checkpoints hold the state of the environment, and none that the function has.
///
/// ```
/// use pronk_rollout::{ActionRef, CartPole, Env, ObsMut, TransformReward};
///
/// let mut env = TransformReward::new(CartPole::new(), |reward| 0.01 * reward);
/// let mut obs = [0.0; 4];
/// env.reset(0, ObsMut::F32(&mut obs))?;
/// assert_eq!(env.step(ActionRef::Discrete(&[1]), ObsMut::F32(&mut obs))?.reward, 0.01);
/// # Ok::<(), pronk_rollout::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TransformReward<E, F> {
    env: E,
    transform: F,
}

impl<E: Env, F: FnMut(f32) -> f32 + Send> TransformReward<E, F> {
    /// Wraps `env`.
    pub fn new(env: E, transform: F) -> Self {
        Self { env, transform }
    }
}

impl<E: Env, F: FnMut(f32) -> f32 + Send> Env for TransformReward<E, F> {
    fn spec(&self) -> EnvSpec {
        self.env.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let step = self.env.step(action, obs)?;
        Ok(Step { reward: (self.transform)(step.reward), ..step })
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        self.env.action_mask(mask)
    }

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        self.env.render()
    }

    fn save(&self) -> Option<Vec<u8>> {
        self.env.save()
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.env.load(state)
    }
}

/// An environment with rewards clipped to two bounds. NaN stays NaN, so that it is still a failure.
///
/// ```
/// use pronk_rollout::{ActionRef, ClipReward, Env, ObsMut, Pendulum};
///
/// let mut env = ClipReward::new(Pendulum::new(), -1.0, 1.0)?;
/// let mut obs = [0.0; 3];
/// env.reset(0, ObsMut::F32(&mut obs))?;
/// assert!(env.step(ActionRef::Continuous(&[2.0]), ObsMut::F32(&mut obs))?.reward >= -1.0);
///
/// let error = ClipReward::new(Pendulum::new(), 1.0, -1.0).map(drop).expect_err("swapped bounds");
/// assert_eq!(error.to_string(), "rewards cannot be clipped to 1..=-1: the lower bound must be at most the upper one");
/// # Ok::<(), pronk_rollout::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClipReward<E> {
    env: E,
    min_reward: f32,
    max_reward: f32,
}

impl<E: Env> ClipReward<E> {
    /// Clips the rewards of `env` to `min_reward..=max_reward`, which may be infinite. An error for bounds
    /// out of order, or NaN.
    pub fn new(env: E, min_reward: f32, max_reward: f32) -> Result<Self, EnvError> {
        if min_reward <= max_reward {
            return Ok(Self { env, min_reward, max_reward });
        }
        Err(EnvError::new(format!(
            "rewards cannot be clipped to {min_reward}..={max_reward}: the lower bound must be at most the upper one"
        )))
    }
}

impl<E: Env> Env for ClipReward<E> {
    fn spec(&self) -> EnvSpec {
        self.env.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let step = self.env.step(action, obs)?;
        Ok(Step { reward: step.reward.clamp(self.min_reward, self.max_reward), ..step })
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        self.env.action_mask(mask)
    }

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        self.env.render()
    }

    fn save(&self) -> Option<Vec<u8>> {
        self.env.save()
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.env.load(state)
    }
}
