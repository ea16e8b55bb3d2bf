use std::time::Duration;

use pronk_policy::{Rng, derive_seed};

use crate::env::{ActionRef, Env, EnvContext, EnvError, EnvSpec, IntoEnv, ObsMut, Step};

/// What goes wrong in an environment under [`Chaos`], and how often.
///
/// The probabilities are those of one step; at most one thing goes wrong in it.
///
/// ```
/// use std::time::Duration;
/// use pronk_rollout::{CartPole, Chaos, ChaosConfig};
///
/// let chaos = ChaosConfig { error: 0.001, slow: 0.01, slow_for: Duration::from_millis(2), ..ChaosConfig::default() };
/// assert!(Chaos::new(CartPole::new(), chaos).is_ok());
///
/// let certain = ChaosConfig { panic: 0.7, error: 0.7, ..ChaosConfig::default() };
/// let error = Chaos::new(CartPole::new(), certain).map(drop).expect_err("more than certain");
/// assert_eq!(error.to_string(), "Chaos: the probabilities of a step sum to 1.4, which is more than 1: lower them");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChaosConfig {
    /// What the faults are drawn from. The same seed fails at the same steps, whatever the episodes' seeds.
    pub seed: u64,
    /// The step panics.
    pub panic: f64,
    /// The step returns an error.
    pub error: f64,
    /// The step gives NaN, as its reward or, where observations are floats, just as often as a number of its observation.
    pub non_finite: f64,
    /// The step does not return: see `hang_for`.
    pub hang: f64,
    /// The step takes `slow_for` longer, and is otherwise a good one.
    pub slow: f64,
    /// How much longer a slow step takes.
    pub slow_for: Duration,
    /// After how long a step that hangs gives up, with an error. `None`: never, so that its thread has to be abandoned.
    pub hang_for: Option<Duration>,
}

impl Default for ChaosConfig {
    /// Nothing goes wrong; a slow step would take 10 ms longer, and a hang would be for ever.
    fn default() -> Self {
        Self {
            seed: 0,
            panic: 0.0,
            error: 0.0,
            non_finite: 0.0,
            hang: 0.0,
            slow: 0.0,
            slow_for: Duration::from_millis(10),
            hang_for: None,
        }
    }
}

impl ChaosConfig {
    /// A factory whose environments are those of `make`, each under chaos of its own: its faults are drawn from the seed,
    /// its worker, its index and its incarnation, so that an environment which was rebuilt does not fail at the same step.
    ///
    /// ```
    /// use pronk_rollout::{CartPole, ChaosConfig, EnvFactory, VectorContext, CallMonitor};
    ///
    /// // `Trainer::new(config, chaos.wrap(|_| CartPole::new()))` trains on environments that fail now and then.
    /// let factory = ChaosConfig { error: 0.001, ..ChaosConfig::default() }.wrap(|_| CartPole::new());
    /// let context = VectorContext { worker: 1, incarnation: 0, first_env: 0, seed: 0 };
    /// assert_eq!(factory.make_vector(&context, 8, &CallMonitor::new())?.spec().name, "CartPole-v1 with Chaos");
    /// # Ok::<(), pronk_rollout::EnvFailure>(())
    /// ```
    pub fn wrap<F, M>(self, make: F) -> impl Fn(&EnvContext) -> Result<Chaos<M::Env>, EnvError> + Send + Sync
    where
        F: Fn(&EnvContext) -> M + Send + Sync,
        M: IntoEnv,
    {
        move |context: &EnvContext| {
            let path = [context.worker.into(), context.index.into(), context.incarnation.into()];
            Chaos::new(make(context).into_env()?, ChaosConfig { seed: derive_seed(self.seed, &path), ..self })
        }
    }

    /// The faults with their probabilities, in the order in which they share out a draw.
    fn shares(&self) -> [(Fault, &'static str, f64); 5] {
        [
            (Fault::Panic, "panic", self.panic),
            (Fault::Error, "error", self.error),
            (Fault::NonFinite, "non_finite", self.non_finite),
            (Fault::Hang, "hang", self.hang),
            (Fault::Slow, "slow", self.slow),
        ]
    }

    fn check(&self) -> Result<(), EnvError> {
        for (_, name, share) in self.shares() {
            if !(0.0..=1.0).contains(&share) {
                let text = format!("Chaos: `{name}` is {share}, but a probability lies between 0 and 1");
                return Err(EnvError::new(text));
            }
        }
        let sum: f64 = self.shares().iter().map(|(_, _, share)| share).sum();
        // Ten tenths may sum to a little more than one.
        if sum > 1.0 + 1e-9 {
            let text = format!("Chaos: the probabilities of a step sum to {sum}, which is more than 1: lower them");
            return Err(EnvError::new(text));
        }
        Ok(())
    }
}

/// What goes wrong in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Panic,
    Error,
    NonFinite,
    Hang,
    Slow,
}

/// An environment in which things go wrong on purpose, to see that a run lives through it.
///
/// Faults come in steps, never in a reset, and are drawn from a stream of their own: episodes are those of the environment
/// until one fails. What goes wrong says that chaos made it, by its words or by the environment's name.
///
/// ```
/// use pronk_rollout::{ActionRef, CartPole, Chaos, ChaosConfig, Env, ObsMut};
///
/// let mut env = Chaos::new(CartPole::new(), ChaosConfig { error: 1.0, ..ChaosConfig::default() })?;
/// let mut obs = [0.0; 4];
/// env.reset(0, ObsMut::F32(&mut obs))?;
/// let error = env.step(ActionRef::Discrete(&[1]), ObsMut::F32(&mut obs)).expect_err("always");
/// assert_eq!(error.to_string(), "Chaos made this error, in step 1 of the environment's life");
/// # Ok::<(), pronk_rollout::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chaos<E> {
    env: E,
    config: ChaosConfig,
    rng: Rng,
    /// Steps of the environment's life.
    steps: u64,
}

impl<E: Env> Chaos<E> {
    /// Lets things go wrong in `env`.
    ///
    /// # Errors
    /// When a probability is none, or all together are more than certain.
    pub fn new(env: E, config: ChaosConfig) -> Result<Self, EnvError> {
        config.check()?;
        Ok(Self { env, config, rng: Rng::seed_from(config.seed), steps: 0 })
    }

    /// What goes wrong in the next step. Every step draws one number, whatever comes of it.
    fn draw(&mut self) -> Option<Fault> {
        let mut left = self.rng.next_f64();
        self.config.shares().into_iter().find_map(|(fault, _, share)| {
            left -= share;
            (left < 0.0).then_some(fault)
        })
    }

    fn error(&self, what: &str) -> EnvError {
        EnvError::new(format!("Chaos made this {what}, in step {} of the environment's life", self.steps))
    }

    /// Waits for `hang_for`, or for ever.
    fn hang(&self) -> EnvError {
        match self.config.hang_for {
            Some(time) => pause(time),
            None => loop {
                std::thread::park();
            },
        }
        self.error("hang")
    }
}

impl<E: Env> Env for Chaos<E> {
    fn spec(&self) -> EnvSpec {
        let spec = self.env.spec();
        EnvSpec { name: format!("{} with Chaos", spec.name), ..spec }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, mut obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.steps += 1;
        match self.draw() {
            None => self.env.step(action, obs),
            Some(Fault::Panic) => panic!("{}", self.error("panic")),
            Some(Fault::Error) => Err(self.error("error")),
            Some(Fault::Hang) => Err(self.hang()),
            Some(Fault::Slow) => {
                pause(self.config.slow_for);
                self.env.step(action, obs)
            }
            Some(Fault::NonFinite) => {
                let len = obs.len();
                let step = self.env.step(action, obs.part(0, len))?;
                // A stream of its own: the next step's fault does not depend on what this one spoils.
                let mut rng = Rng::stream(self.config.seed, &[self.steps]);
                match obs {
                    ObsMut::F32(row) if rng.below(2) == 0 && !row.is_empty() => {
                        row[rng.below(len as u64) as usize] = f32::NAN;
                        Ok(step)
                    }
                    _ => Ok(Step { reward: f32::NAN, ..step }),
                }
            }
        }
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        self.env.action_mask(mask)
    }
}

#[allow(clippy::disallowed_methods)] // To be something that nothing can wake is what it is for.
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests;
