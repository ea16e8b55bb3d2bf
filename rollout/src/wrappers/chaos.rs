use std::time::Duration;

use pronk_policy::{Rng, derive_seed};

use crate::env::{ActionRef, Env, EnvContext, EnvError, EnvSpec, Frame, IntoEnv, ObsMut, Step, seed, snapshot};

/// The faults of [`Chaos`] and their probabilities, each that of one step. A step has at most one fault.
///
/// ```
/// use std::time::Duration;
/// use pronk_rollout::{CartPole, Chaos, ChaosConfig};
///
/// let chaos = ChaosConfig { error: 0.001, slow: 0.01, slow_for: Duration::from_millis(2), ..ChaosConfig::default() };
/// assert!(Chaos::new(CartPole::new(), chaos).is_ok());
///
/// let certain = ChaosConfig { panic: 0.7, error: 0.7, ..ChaosConfig::default() };
/// let error = Chaos::new(CartPole::new(), certain).map(drop).expect_err("sums to 1.4");
/// assert_eq!(error.to_string(), "Chaos: the probabilities of a step sum to 1.4, which is more than 1: lower them");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChaosConfig {
    /// The seed of the faults. The same seed fails at the same steps, whatever the seeds of the episodes.
    pub seed: u64,
    /// The step panics.
    pub panic: f64,
    /// The step returns an error.
    pub error: f64,
    /// The step returns NaN, as its reward or, as often where observations are floats, in its observation.
    pub non_finite: f64,
    /// The step does not return: see `hang_for`.
    pub hang: f64,
    /// The step takes `slow_for` longer.
    pub slow: f64,
    /// The delay of a slow step.
    pub slow_for: Duration,
    /// How long a hanging step takes until it returns an error; `None` for ever, so its thread is abandoned.
    pub hang_for: Option<Duration>,
}

impl Default for ChaosConfig {
    /// No faults; a slow step takes 10 ms longer, and a hang is for ever.
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
    /// A factory that wraps the environments of `make`. Faults derive from seed, worker, index and
    /// incarnation, so that a rebuilt environment does not fail at the same step again.
    pub fn wrap<F, M>(self, make: F) -> impl Fn(&EnvContext) -> Result<Chaos<M::Env>, EnvError> + Send + Sync
    where
        F: Fn(&EnvContext) -> M + Send + Sync,
        M: IntoEnv,
    {
        move |context: &EnvContext| {
            let path = [seed::of_worker(context.worker), context.index.into(), context.incarnation.into()];
            Chaos::new(make(context).into_env()?, ChaosConfig { seed: derive_seed(self.seed, &path), ..self })
        }
    }

    /// The faults with their names and probabilities, in the order in which a draw selects them.
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
        // Tolerates rounding: ten times 0.1 sums to a little more than 1.
        if sum > 1.0 + 1e-9 {
            let text = format!("Chaos: the probabilities of a step sum to {sum}, which is more than 1: lower them");
            return Err(EnvError::new(text));
        }
        Ok(())
    }
}

/// A fault of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Panic,
    Error,
    NonFinite,
    Hang,
    Slow,
}

/// Fault injection: an environment whose steps fail on purpose. Faults have their own random stream, so
/// episodes do not change until one fails. The message or the environment's name shows that a fault was
/// injected.
///
/// Around an environment that saves no state, a resumed run has faults in other steps.
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
    /// Steps over all episodes.
    steps: u64,
}

impl<E: Env> Chaos<E> {
    /// Injects faults into `env`; an error if a probability or their sum is outside 0..=1.
    pub fn new(env: E, config: ChaosConfig) -> Result<Self, EnvError> {
        config.check()?;
        Ok(Self { env, config, rng: Rng::seed_from(config.seed), steps: 0 })
    }

    /// The fault of the next step. Every step draws exactly one number.
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
                let step = self.env.step(action, obs.reborrow())?;
                // A stream of its own, so that the next fault does not depend on where this one writes NaN.
                let mut rng = Rng::stream(self.config.seed, &[self.steps]);
                match obs {
                    ObsMut::F32(row) if rng.below(2) == 0 && !row.is_empty() => {
                        row[rng.below(row.len() as u64) as usize] = f32::NAN;
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

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        self.env.render()
    }

    fn save(&self) -> Option<Vec<u8>> {
        snapshot::to_bytes(&(&self.rng, self.steps, self.env.save()?))
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        let (rng, steps, env): (_, _, Vec<u8>) = snapshot::from_bytes(state)?;
        self.env.load(&env)?;
        (self.rng, self.steps) = (rng, steps);
        Ok(())
    }
}

#[allow(clippy::disallowed_methods)] // A hang is a sleep that nothing can wake.
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests;
