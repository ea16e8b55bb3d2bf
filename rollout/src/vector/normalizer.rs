use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pronk_policy::{ObsDtype, ObsNormalizer};
use serde::{Deserialize, Serialize};

use super::moments::RunningMoments;
use crate::env::{EnvError, EnvSpec};

/// Normalised numbers lie between −10 and 10.
pub(super) const CLIP: f32 = 10.0;

/// What a [`Normalizer`] brings to one scale.
///
/// ```
/// use pronk_rollout::{Normalizer, NormalizerConfig};
///
/// let config = NormalizerConfig { observations: true, return_gamma: None };
/// assert!(Normalizer::new(config).moments().observations.is_some());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NormalizerConfig {
    /// Whether observations come out with mean 0 and standard deviation 1, and clipped to ±10.
    pub observations: bool,
    /// Rewards are divided by the standard deviation of the return discounted by this, and clipped to ±10; `None` leaves
    /// them.
    pub return_gamma: Option<f64>,
}

/// What a run has found out about the scales of its numbers; `None` of what is not normalised.
///
/// ```
/// use pronk_rollout::NormalizerMoments;
///
/// assert_eq!(NormalizerMoments::default().obs_normalizer(), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormalizerMoments {
    /// Of the observations, each of their numbers by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observations: Option<RunningMoments>,
    /// Of the discounted return, one number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<RunningMoments>,
}

impl NormalizerMoments {
    pub(crate) fn begin(config: &NormalizerConfig, obs_len: usize) -> Self {
        Self {
            observations: config.observations.then(|| RunningMoments::new(obs_len)),
            returns: config.return_gamma.map(|_| RunningMoments::new(1)),
        }
    }

    /// What these moments make of observations, for a policy that learned with them; `None` before any was seen.
    pub fn obs_normalizer(&self) -> Option<ObsNormalizer> {
        let moments = self.observations.as_ref().filter(|moments| moments.count() > 0)?;
        Some(ObsNormalizer { mean: moments.mean().to_vec(), std: moments.std(), clip: CLIP })
    }

    /// By what rewards are divided.
    pub(crate) fn reward_std(&self) -> Option<f64> {
        self.returns.as_ref()?.std().first().copied()
    }

    fn merge(&mut self, other: &Self) {
        for (own, other) in [(&mut self.observations, &other.observations), (&mut self.returns, &other.returns)] {
            if let (Some(own), Some(other)) = (own, other) {
                own.merge(other);
            }
        }
    }

    fn clear(&mut self) {
        for moments in [&mut self.observations, &mut self.returns].into_iter().flatten() {
            moments.clear();
        }
    }
}

/// Keeps the moments of a run's observations and returns, and has its environments normalise by them.
///
/// All workers share one. What a worker's environments show is gathered apart, and joined with the rest only between two
/// fragments, when the environments also take over what the others have found out: all rows of a fragment are on one scale, from
/// the first to the one that follows its last step, and no step waits for another worker. A run without threads repeats itself bit
/// for bit.
///
/// Episode statistics stay those of the rewards that the environments gave, and so do the spaces of the spec.
///
/// ```
/// use std::sync::Arc;
/// use pronk_rollout::{EnvContext, EnvFactory, Normalizer, NormalizerConfig, ObsMut, Pendulum, VectorContext, CallMonitor};
///
/// let normalizer = Normalizer::new(NormalizerConfig { observations: true, return_gamma: Some(0.99) });
/// let factory = normalizer.wrap(Arc::new(|_: &EnvContext| Pendulum::new()));
/// let context = VectorContext { worker: 1, incarnation: 0, first_env: 0, seed: 0 };
/// let mut envs = factory.make_vector(&context, 8, &CallMonitor::new())?;
/// envs.reset_all(ObsMut::F32(&mut [0.0; 24]))?;
/// envs.drain_episodes(&mut Vec::new()); // as a worker does after each fragment
/// assert_eq!(normalizer.moments().observations.map(|moments| moments.count()), Some(8));
/// # Ok::<(), pronk_rollout::EnvFailure>(())
/// ```
#[derive(Clone, Debug)]
pub struct Normalizer {
    pub(super) config: NormalizerConfig,
    shared: Arc<Mutex<NormalizerMoments>>,
}

impl Normalizer {
    /// Begins without having seen anything: numbers are left as they are, but for clipping, until the first fragment is made.
    pub fn new(config: NormalizerConfig) -> Self {
        // How long observations are is known once there are some.
        Self { config, shared: Arc::new(Mutex::new(NormalizerMoments::begin(&config, 0))) }
    }

    /// What it has found out so far.
    pub fn moments(&self) -> NormalizerMoments {
        self.lock().clone()
    }

    /// Goes on from what an earlier run has found out.
    pub fn go_on_from(&self, moments: NormalizerMoments) {
        *self.lock() = moments;
    }

    /// Whether such environments can be normalised.
    pub(crate) fn check(&self, spec: &EnvSpec) -> Result<(), EnvError> {
        let observation = &spec.observation;
        if observation.obs_dtype() == ObsDtype::F32 || !self.config.observations {
            return Ok(());
        }
        let text = format!("observations of {observation} are bytes: the network scales them, not a normaliser");
        Err(EnvError::new(text))
    }

    /// Adds what was gathered, which is then empty, and says what all have found out.
    pub(super) fn exchange(&self, gathered: &mut NormalizerMoments) -> NormalizerMoments {
        let mut shared = self.lock();
        shared.merge(gathered);
        gathered.clear();
        shared.clone()
    }

    /// Nobody leaves the moments half-changed, so those of a thread that panicked are as good as any.
    fn lock(&self) -> MutexGuard<'_, NormalizerMoments> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
