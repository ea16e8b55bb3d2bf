use crate::env::{ActionRef, Env, EnvError, EnvSpec, Frame, ObsMut, Step};

/// An environment with another time limit, or none.
///
/// ```
/// use pronk_rollout::{CartPole, Env, TimeLimit};
///
/// assert_eq!(TimeLimit::new(CartPole::new(), 100).spec().max_episode_steps, Some(100));
/// assert_eq!(TimeLimit::new(CartPole::new(), None).spec().max_episode_steps, None);
/// ```
#[derive(Clone, Debug)]
pub struct TimeLimit<E> {
    env: E,
    max_episode_steps: Option<u32>,
}

impl<E: Env> TimeLimit<E> {
    /// Truncates episodes after `max_episode_steps`, or never.
    pub fn new(env: E, max_episode_steps: impl Into<Option<u32>>) -> Self {
        Self { env, max_episode_steps: max_episode_steps.into() }
    }
}

impl<E: Env> Env for TimeLimit<E> {
    fn spec(&self) -> EnvSpec {
        EnvSpec { max_episode_steps: self.max_episode_steps, ..self.env.spec() }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.env.step(action, obs)
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
