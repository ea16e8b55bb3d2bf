use pronk_policy::{ObsDtype, Space};

use crate::env::{ActionRef, Env, EnvError, EnvSpec, Frame, ObsMut, Step};

/// An environment with transformed observations, which may have another length.
///
/// Checkpoints hold the state of the environment, and none that the function has.
///
/// ```
/// use pronk_policy::Space;
/// use pronk_rollout::{CartPole, Env, ObsMut, TransformObservation};
///
/// // Position and angle without velocities: the task is only partially observable.
/// let positions = Space::boxed(vec![-5.0, -1.0], vec![5.0, 1.0], vec![2])?;
/// let mut env = TransformObservation::new(CartPole::new(), positions, |seen, row| {
///     row.copy_from_slice(&[seen[0], seen[2]]);
/// })?;
/// let mut obs = [9.0; 2];
/// env.reset(0, ObsMut::F32(&mut obs))?;
/// assert!(obs[0].abs() <= 0.05 && obs[1].abs() <= 0.05);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TransformObservation<E, F> {
    env: E,
    space: Space,
    transform: F,
    /// The last observation of `env`.
    seen: Vec<f32>,
}

impl<E: Env, F: FnMut(&[f32], &mut [f32]) + Send> TransformObservation<E, F> {
    /// Wraps `env`: `transform` reads its observations and writes those of `space`. An error for spaces of
    /// bytes.
    pub fn new(env: E, space: Space, transform: F) -> Result<Self, EnvError> {
        let inside = env.spec().observation;
        for (which, space) in [("the environment's", &inside), ("the given", &space)] {
            if space.obs_dtype() != ObsDtype::F32 {
                let text = format!("only observations of floats can be transformed, but {which} space is {space}");
                return Err(EnvError::new(text));
            }
        }
        Ok(Self { seen: vec![0.0; inside.obs_len()], env, space, transform })
    }

    fn write(&mut self, obs: ObsMut<'_>) -> Result<(), EnvError> {
        (self.transform)(&self.seen, obs.f32()?);
        Ok(())
    }
}

impl<E: Env, F: FnMut(&[f32], &mut [f32]) + Send> Env for TransformObservation<E, F> {
    fn spec(&self) -> EnvSpec {
        EnvSpec { observation: self.space.clone(), ..self.env.spec() }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, ObsMut::F32(&mut self.seen))?;
        self.write(obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let step = self.env.step(action, ObsMut::F32(&mut self.seen))?;
        self.write(obs)?;
        Ok(step)
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
