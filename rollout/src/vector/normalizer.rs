use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pronk_policy::{ObsDtype, ObsNormalizer};
use serde::{Deserialize, Serialize};

use super::moments::RunningMoments;
use crate::env::{EnvError, EnvSpec};

/// Normalised values are clipped to ±10.
pub(super) const CLIP: f32 = 10.0;

/// What a [`Normalizer`] normalises.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NormalizerConfig {
    /// Whether to scale observations to mean 0 and standard deviation 1, clipped to ±10.
    pub observations: bool,
    /// The discount of the return whose standard deviation divides rewards (clipped to ±10); `None` for none.
    pub return_gamma: Option<f64>,
}

/// The moments of a run's observations and returns; `None` for what is not normalised.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormalizerMoments {
    /// Of each element of the observations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observations: Option<RunningMoments>,
    /// Of the discounted return.
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

    /// The normaliser of observations with these moments; `None` before the first observation.
    pub fn obs_normalizer(&self) -> Option<ObsNormalizer> {
        let moments = self.observations.as_ref().filter(|moments| moments.count() > 0)?;
        Some(ObsNormalizer { mean: moments.mean().to_vec(), std: moments.std(), clip: CLIP })
    }

    /// The divisor of rewards.
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

/// The shared moments of a run's observations and returns, by which its environments normalise.
///
/// All workers share one. Each merges its moments between two fragments, and then loads those of the others:
/// all rows of a fragment are normalised alike, and no step blocks on another worker. Runs without threads
/// are reproducible bit for bit. Episode statistics and spaces are those before normalisation.
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
    /// A normaliser without moments: until the first fragment is made, it only clips.
    pub fn new(config: NormalizerConfig) -> Self {
        // The first merge sets the length of observations.
        Self { config, shared: Arc::new(Mutex::new(NormalizerMoments::begin(&config, 0))) }
    }

    /// The moments so far.
    pub fn moments(&self) -> NormalizerMoments {
        self.lock().clone()
    }

    /// Resumes from the moments of an earlier run.
    pub fn go_on_from(&self, moments: NormalizerMoments) {
        *self.lock() = moments;
    }

    /// Whether environments of this spec can be normalised.
    pub(crate) fn check(&self, spec: &EnvSpec) -> Result<(), EnvError> {
        let observation = &spec.observation;
        if observation.obs_dtype() == ObsDtype::F32 || !self.config.observations {
            return Ok(());
        }
        let text =
            format!("observations of {observation} are bytes, which the network scales: turn their normalisation off");
        Err(EnvError::new(text))
    }

    /// Merges and clears the gathered moments, and returns those of the whole run.
    pub(super) fn exchange(&self, gathered: &mut NormalizerMoments) -> NormalizerMoments {
        let mut shared = self.lock();
        shared.merge(gathered);
        gathered.clear();
        shared.clone()
    }

    fn lock(&self) -> MutexGuard<'_, NormalizerMoments> {
        // A panic under the lock leaves the moments valid, at worst without one merge.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
