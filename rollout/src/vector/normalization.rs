use pronk_buffer::End;
use pronk_policy::ObsNormalizer;

use super::normalizer::{CLIP, Normalizer, NormalizerMoments};
use crate::env::{EnvError, ObsMut};

/// Normalises the observations and rewards of some environments and gathers their moments.
pub(crate) struct Normalization {
    normalizer: Normalizer,
    obs_len: usize,
    scale: Scale,
    /// `[B, obs_len]`: the raw observations of the last step; empty if they are not normalised.
    raw: Vec<f32>,
    /// The moments since the last exchange.
    gathered: NormalizerMoments,
    /// `[B]`: the discounted return of each present episode.
    returns: Vec<f64>,
}

/// The scale from one exchange to the next.
struct Scale {
    obs: Option<ObsNormalizer>,
    reward_std: Option<f64>,
}

impl Scale {
    fn of(moments: &NormalizerMoments, obs_len: usize) -> Self {
        let identity = || ObsNormalizer { mean: vec![0.0; obs_len], std: vec![1.0; obs_len], clip: CLIP };
        let obs = moments.observations.as_ref().map(|_| moments.obs_normalizer().unwrap_or_else(identity));
        Self { obs, reward_std: moments.reward_std() }
    }
}

impl Normalization {
    /// The normalisation of `n_envs` environments.
    pub(crate) fn new(normalizer: Normalizer, n_envs: usize, obs_len: usize) -> Self {
        Self {
            scale: Scale::of(&normalizer.moments(), obs_len),
            raw: Vec::new(),
            gathered: NormalizerMoments::begin(&normalizer.config, obs_len),
            returns: vec![0.0; n_envs],
            obs_len,
            normalizer,
        }
    }

    /// Begins an episode in every environment.
    pub(crate) fn begin(&mut self) {
        self.returns.fill(0.0);
    }

    /// Gathers and normalises the observations of a step, `[B, obs_len]`. An error for another length.
    pub(crate) fn observe(&mut self, rows: &mut [f32]) -> Result<(), EnvError> {
        if let Some(gathered) = &mut self.gathered.observations {
            gathered.add_rows(rows);
            self.raw.clear();
            self.raw.extend_from_slice(rows);
        }
        self.scale(rows)
    }

    /// Writes the raw observations of the last step, `[B, obs_len]`. An error for another length, or without
    /// a step.
    pub(crate) fn restore(&self, rows: ObsMut<'_>) -> Result<(), EnvError> {
        rows.write(&self.raw)
    }

    /// Normalises observations without gathering them. Errors as [`observe`](Self::observe).
    pub(crate) fn scale(&self, rows: &mut [f32]) -> Result<(), EnvError> {
        self.scale.obs.as_ref().map_or(Ok(()), |scale| scale.apply(rows).map_err(EnvError::new))
    }

    /// Gathers the discounted returns and normalises the rewards, `[B]`.
    pub(crate) fn reward(&mut self, rewards: &mut [f32], ends: &[End]) {
        let (Some(gamma), Some(std), Some(gathered)) =
            (self.normalizer.config.return_gamma, self.scale.reward_std, &mut self.gathered.returns)
        else {
            return;
        };
        for (sum, reward) in self.returns.iter_mut().zip(&*rewards) {
            *sum = *sum * gamma + f64::from(*reward);
        }
        gathered.add_rows(&self.returns);
        for ((sum, reward), end) in self.returns.iter_mut().zip(rewards).zip(ends) {
            *reward = ((f64::from(*reward) / std) as f32).clamp(-CLIP, CLIP);
            if *end != End::No {
                *sum = 0.0;
            }
        }
    }

    /// Merges the gathered moments into the run's, and adopts the scale of the result.
    pub(crate) fn exchange(&mut self) {
        let shared = self.normalizer.exchange(&mut self.gathered);
        self.scale = Scale::of(&shared, self.obs_len);
    }

    /// Whether observations are normalised.
    pub(crate) fn changes_observations(&self) -> bool {
        self.scale.obs.is_some()
    }
}
