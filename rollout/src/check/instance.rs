use pronk_policy::Rng;

use super::error::EnvFault;
use super::unwritten::Background;
use crate::env::Spec;

/// An episode without a time limit counts as endless after this many steps.
const MAX_STEPS: u32 = 10_000;

/// An instance of an environment, with what its last call gave.
pub(super) trait Instance {
    type Spec: Spec;
    /// Where it is within an episode.
    type Saved;

    /// The spec that it began with, which a run can use.
    fn spec(&self) -> &Self::Spec;

    /// The spec that the environment has now.
    fn spec_now(&self) -> Self::Spec;

    fn has_time_limit(&self) -> bool;

    /// Begins an episode.
    fn reset(&mut self, seed: u64, background: Background) -> Result<(), EnvFault>;

    /// Takes a step with random possible actions: whether the episode is over.
    fn step(&mut self, rng: &mut Rng, background: Background) -> Result<bool, EnvFault>;

    /// Where it is, if the environment saves its state.
    fn save(&mut self) -> Result<Option<Self::Saved>, EnvFault>;

    /// Gets back there; says why, if the environment refuses.
    fn load(&mut self, saved: &Self::Saved) -> Result<(), String>;

    /// A digest of everything that the last call gave.
    fn digest(&self) -> u64;

    /// The first thing that differs between its last call and that of another, fresh, instance.
    fn difference(&self, fresh: &Self) -> Option<Difference>;
}

/// What differs between two instances, and its value in both.
pub(super) struct Difference {
    pub(super) what: String,
    pub(super) fresh: String,
    pub(super) used: String,
}

impl Difference {
    /// If the two values differ.
    pub(super) fn of<T: PartialEq + ToString>(what: &str, fresh: T, used: T) -> Option<Self> {
        let differs = fresh != used;
        differs.then(|| Self { what: what.to_owned(), fresh: fresh.to_string(), used: used.to_string() })
    }
}

/// An episode in play. Its actions depend on nothing but the seed and the masks.
pub(super) struct Episode {
    seed: u64,
    background: Background,
    rng: Rng,
}

impl Episode {
    pub(super) fn new(seed: u64, background: Background) -> Self {
        Self { seed, background, rng: Rng::stream(seed, &[u64::from(u32::MAX)]) }
    }

    /// Makes call number `step`, 0 being the reset: whether the episode is over.
    pub(super) fn call<I: Instance>(&mut self, step: u32, instance: &mut I) -> Result<bool, EnvFault> {
        let is_over = match step {
            0 => instance.reset(self.seed, self.background).map(|()| false),
            _ => instance.step(&mut self.rng, self.background),
        }?;
        if !is_over && step == MAX_STEPS && !instance.has_time_limit() {
            return Err(EnvFault::NeverEnds { steps: MAX_STEPS });
        }
        Ok(is_over)
    }
}
