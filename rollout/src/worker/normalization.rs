//! Observations and rewards brought to one scale.

use std::sync::Arc;

use pronk_buffer::{End, ObsViewMut};
use pronk_metrics::{NormalizerMoments, RunningMoments};
use pronk_policy::{ObsDtype, ObsNormalizer, PolicyError};
use serde::{Deserialize, Serialize};

use crate::env::{EnvError, EnvSpec};

#[cfg(test)]
mod tests;

/// Normalised values are clipped to ±10.
const CLIP: f32 = 10.0;

/// What a worker normalises; by default nothing.
///
/// Episode statistics and spaces are those before normalisation.
///
/// ```
/// use pronk_rollout::NormalizerConfig;
///
/// let config = NormalizerConfig { observations: true, return_gamma: Some(0.99) };
/// assert!(config.no_moments().observations.is_some());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NormalizerConfig {
    /// Whether to scale observations to mean 0 and standard deviation 1, clipped to ±10.
    pub observations: bool,
    /// The discount of the return whose standard deviation divides rewards (clipped to ±10); `None` for none.
    pub return_gamma: Option<f64>,
}

impl NormalizerConfig {
    /// The moments of a run before its first fragment.
    pub fn no_moments(&self) -> NormalizerMoments {
        NormalizerMoments {
            observations: self.observations.then(RunningMoments::default),
            returns: self.return_gamma.map(|_| RunningMoments::new(1)),
        }
    }

    /// Whether environments of this spec can be normalised.
    pub(super) fn check(&self, spec: &EnvSpec) -> Result<(), EnvError> {
        let observation = &spec.observation;
        if observation.obs_dtype() == ObsDtype::F32 || !self.observations {
            return Ok(());
        }
        let text =
            format!("observations of {observation} are bytes, which the network scales: turn their normalisation off");
        Err(EnvError::new(text))
    }
}

/// The normaliser of observations with these moments; `None` before the first observation.
///
/// ```
/// use pronk_metrics::{NormalizerMoments, RunningMoments};
///
/// let mut seen = RunningMoments::new(1);
/// seen.add_rows(&[1.0_f32, 3.0]);
/// let moments = NormalizerMoments { observations: Some(seen), returns: None };
/// let mut rows = [2.0, 3.0];
/// if let Some(normalizer) = pronk_rollout::obs_normalizer(&moments) {
///     normalizer.apply(&mut rows)?;
/// }
/// assert_eq!(rows, [0.0, 1.0]);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub fn obs_normalizer(moments: &NormalizerMoments) -> Option<ObsNormalizer> {
    let moments = moments.observations.as_ref().filter(|moments| moments.count() > 0)?;
    Some(ObsNormalizer { mean: moments.mean().to_vec(), std: moments.std(), clip: CLIP })
}

/// Normalises the observations and rewards of some environments, and gathers their moments.
///
/// The scale is that of the moments that came with the weights, so all rows of a fragment are on one scale,
/// and no worker waits for another. What is gathered travels with the fragment to the learner.
pub(super) struct Normalization {
    config: NormalizerConfig,
    /// Those that the scale is of.
    moments: Arc<NormalizerMoments>,
    /// `None` if observations are left alone.
    obs_scale: Option<ObsNormalizer>,
    /// The divisor of rewards.
    reward_std: f64,
    /// `[B, obs_len]`: the raw observations of the last step; empty if they are left alone.
    raw: Vec<f32>,
    /// The moments since they were last taken.
    gathered: NormalizerMoments,
    /// `[B]`: the discounted return of each present episode.
    returns: Vec<f64>,
}

/// The state of a [`Normalization`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedNormalization {
    /// Mean and standard deviation of observations.
    scale: Option<(Vec<f64>, Vec<f64>)>,
    reward_std: f64,
    raw: Vec<f32>,
    gathered: SavedMoments,
    returns: Vec<f64>,
}

/// Moments in formats without names of fields, where none can be left out: of observations and of returns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedMoments(Option<RunningMoments>, Option<RunningMoments>);

impl From<&NormalizerMoments> for SavedMoments {
    fn from(moments: &NormalizerMoments) -> Self {
        Self(moments.observations.clone(), moments.returns.clone())
    }
}

impl From<SavedMoments> for NormalizerMoments {
    fn from(SavedMoments(observations, returns): SavedMoments) -> Self {
        Self { observations, returns }
    }
}

impl Normalization {
    /// The normalisation of `n_envs` environments of a checked spec, which at first only clips; `None` if
    /// nothing is to be normalised.
    pub(super) fn new(config: NormalizerConfig, n_envs: usize, spec: &EnvSpec) -> Option<Self> {
        if config == NormalizerConfig::default() {
            return None;
        }
        let obs_len = spec.observation.obs_len();
        let clips = || ObsNormalizer { mean: vec![0.0; obs_len], std: vec![1.0; obs_len], clip: CLIP };
        let mut gathered = config.no_moments();
        gathered.observations = gathered.observations.map(|_| RunningMoments::new(obs_len));
        Some(Self {
            config,
            moments: Arc::default(),
            obs_scale: config.observations.then(clips),
            reward_std: 1.0,
            raw: Vec::new(),
            gathered,
            returns: vec![0.0; n_envs],
        })
    }

    /// Whether the scale is that of these very moments.
    pub(super) fn is_scaled_by(&self, moments: &Arc<NormalizerMoments>) -> bool {
        Arc::ptr_eq(&self.moments, moments)
    }

    /// Adopts the scale of these moments; what they do not know stays as it is.
    pub(super) fn scale_by(&mut self, moments: &Arc<NormalizerMoments>) {
        self.moments = Arc::clone(moments);
        if let (Some(own), Some(scale)) = (&mut self.obs_scale, obs_normalizer(moments)) {
            *own = scale;
        }
        if let Some(std) = moments.returns.as_ref().and_then(|returns| returns.std().first().copied()) {
            self.reward_std = std;
        }
    }

    /// Whether observations are normalised.
    pub(super) fn changes_observations(&self) -> bool {
        self.obs_scale.is_some()
    }

    /// Begins an episode in every environment with these observations, `[B, obs_len]`: gathers and normalises
    /// them. An error for another length than that of the moments.
    pub(super) fn begin(&mut self, rows: ObsViewMut<'_>) -> Result<(), PolicyError> {
        self.returns.fill(0.0);
        self.observe(rows)
    }

    /// Gathers and normalises the observations of a step, `[B, obs_len]`. Errors as [`begin`](Self::begin).
    pub(super) fn observe(&mut self, rows: ObsViewMut<'_>) -> Result<(), PolicyError> {
        if let (Some(scale), Some(gathered), Some(rows)) =
            (&self.obs_scale, &mut self.gathered.observations, rows.into_f32())
        {
            gathered.add_rows(rows);
            self.raw.clear();
            self.raw.extend_from_slice(rows);
            scale.apply(rows)?;
        }
        Ok(())
    }

    /// Rewrites the observations of the last step on the present scale. Errors as [`begin`](Self::begin).
    pub(super) fn rescale(&self, rows: ObsViewMut<'_>) -> Result<(), PolicyError> {
        if let (Some(scale), Some(rows)) = (&self.obs_scale, rows.into_f32()) {
            if rows.len() != self.raw.len() {
                return Err(PolicyError::Length { what: "observations", expected: rows.len(), got: self.raw.len() });
            }
            rows.copy_from_slice(&self.raw);
            scale.apply(rows)?;
        }
        Ok(())
    }

    /// Normalises final observations, `[rows, obs_len]`, which no one gathers. Errors as
    /// [`begin`](Self::begin).
    pub(super) fn scale(&self, rows: ObsViewMut<'_>) -> Result<(), PolicyError> {
        match (&self.obs_scale, rows.into_f32()) {
            (Some(scale), Some(rows)) => scale.apply(rows),
            _ => Ok(()),
        }
    }

    /// Gathers the discounted returns and normalises the rewards, `[B]`.
    pub(super) fn reward(&mut self, rewards: &mut [f32], ends: &[End]) {
        let (Some(gamma), Some(gathered)) = (self.config.return_gamma, &mut self.gathered.returns) else { return };
        for (sum, reward) in self.returns.iter_mut().zip(&*rewards) {
            *sum = *sum * gamma + f64::from(*reward);
        }
        gathered.add_rows(&self.returns);
        for ((sum, reward), end) in self.returns.iter_mut().zip(rewards).zip(ends) {
            *reward = ((f64::from(*reward) / self.reward_std) as f32).clamp(-CLIP, CLIP);
            if *end != End::No {
                *sum = 0.0;
            }
        }
    }

    /// Its state, for a checkpoint.
    pub(super) fn save(&self) -> SavedNormalization {
        let scale = self.obs_scale.as_ref().map(|scale| (scale.mean.clone(), scale.std.clone()));
        SavedNormalization {
            scale,
            reward_std: self.reward_std,
            raw: self.raw.clone(),
            gathered: (&self.gathered).into(),
            returns: self.returns.clone(),
        }
    }

    /// Continues from a saved state.
    ///
    /// # Errors
    /// It is of other environments: a damaged file may hold any number of numbers.
    pub(super) fn load(&mut self, saved: &SavedNormalization) -> Result<(), String> {
        let SavedNormalization { scale, reward_std, raw, gathered, returns } = saved.clone();
        let (n_envs, obs_len) = (self.returns.len(), self.obs_scale.as_ref().map_or(0, |scale| scale.mean.len()));
        let is_scale = scale.as_ref().is_none_or(|(mean, std)| (mean.len(), std.len()) == (obs_len, obs_len));
        let is_raw = raw.is_empty() || raw.len() == n_envs * obs_len;
        if returns.len() != n_envs || !is_raw || !is_scale || self.check(&gathered).is_err() {
            return Err(format!("its scales are not of {n_envs} environments with {obs_len} numbers to scale"));
        }
        if let (Some(own), Some((mean, std))) = (&mut self.obs_scale, scale) {
            (own.mean, own.std) = (mean, std);
        }
        (self.reward_std, self.raw, self.gathered, self.returns) = (reward_std, raw, gathered.into(), returns);
        Ok(())
    }

    /// Refuses moments of other observations.
    pub(super) fn check(&self, moments: &SavedMoments) -> Result<(), String> {
        NormalizerMoments::from(moments.clone()).check(self.obs_scale.as_ref().map_or(0, |scale| scale.mean.len()))
    }

    /// The raw observations of the last step, `[B, obs_len]`; `None` if observations are left alone.
    pub(super) fn raw(&self) -> Option<&[f32]> {
        self.obs_scale.is_some().then_some(&self.raw)
    }

    /// Replaces the observation of an environment that began a new episode, and normalises it.
    pub(super) fn begin_one(&mut self, env: usize, row: ObsViewMut<'_>) -> Result<(), PolicyError> {
        self.returns[env] = 0.0;
        if let (Some(scale), Some(gathered), Some(row)) =
            (&self.obs_scale, &mut self.gathered.observations, row.into_f32())
        {
            gathered.add_rows(row);
            self.raw.resize(self.returns.len() * row.len(), 0.0);
            self.raw[env * row.len()..(env + 1) * row.len()].copy_from_slice(row);
            scale.apply(row)?;
        }
        Ok(())
    }

    /// Takes the moments gathered since the last call.
    pub(super) fn take(&mut self) -> NormalizerMoments {
        let taken = self.gathered.clone();
        self.gathered.clear();
        taken
    }

    /// Discards them: the steps that they are of are lost.
    pub(super) fn discard(&mut self) {
        self.gathered.clear();
    }
}
