use pronk_buffer::FinalObs;

use super::normalization::Normalization;
use super::normalizer::Normalizer;
use super::vector_env::{VectorEnv, VectorStep};
use crate::env::{
    ActionRef, EnvError, EnvFailure, EnvFailureCause, EnvSpec, EpisodeStat, FailurePlace, ObsMut, VectorContext,
    obs_kind,
};

/// A [`VectorEnv`] with normalised observations and rewards.
pub(crate) struct NormalizedVectorEnv {
    context: VectorContext,
    envs: Box<dyn VectorEnv>,
    normalization: Normalization,
    /// The raw final observations of this step.
    final_obs: FinalObs,
}

impl NormalizedVectorEnv {
    pub(crate) fn new(context: VectorContext, envs: Box<dyn VectorEnv>, normalizer: Normalizer) -> Self {
        let (obs_len, obs_kind) = (envs.spec().observation.obs_len(), obs_kind(&envs.spec().observation));
        let normalization = Normalization::new(normalizer, envs.n_envs(), obs_len);
        Self { context, envs, normalization, final_obs: FinalObs::new(obs_kind, obs_len) }
    }

    /// Gathers and normalises the observations of all environments.
    fn observe(&mut self, obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        if !self.normalization.changes_observations() {
            return Ok(());
        }
        let observed = obs.f32().and_then(|rows| self.normalization.observe(rows));
        observed.map_err(|error| self.failure(error))
    }

    /// Writes the normalised final observations of this step.
    fn write_final_obs(&mut self, final_obs: &mut FinalObs) -> Result<(), EnvFailure> {
        for (t, index, row) in self.final_obs.iter() {
            let (t, index) = (t as usize, index as usize);
            let pushed = match row.as_f32() {
                Some(row) => {
                    let mut row = row.to_vec();
                    self.normalization.scale(&mut row).map_err(|error| self.failure(error))?;
                    final_obs.push(t, index, row.as_slice())
                }
                None => final_obs.push(t, index, row),
            };
            pushed.map_err(|error| self.failure(EnvError::new(error)))?;
        }
        Ok(())
    }

    /// The failure of environments that do not write what their spec says.
    #[cold]
    fn failure(&self, error: EnvError) -> EnvFailure {
        self.context.failure(Some(self.envs.spec()), 0, FailurePlace::Make, EnvFailureCause::Error(error))
    }
}

impl VectorEnv for NormalizedVectorEnv {
    fn spec(&self) -> &EnvSpec {
        self.envs.spec()
    }

    fn n_envs(&self) -> usize {
        self.envs.n_envs()
    }

    fn reset_all(&mut self, mut obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        self.envs.reset_all(obs.reborrow())?;
        self.normalization.begin();
        self.observe(obs)
    }

    fn step(&mut self, actions: ActionRef<'_>, out: VectorStep<'_>) -> Result<(), EnvFailure> {
        let VectorStep { t, mut obs, rewards, ends, final_obs } = out;
        self.final_obs.clear();
        let step = VectorStep {
            t,
            obs: obs.reborrow(),
            rewards: &mut *rewards,
            ends: &mut *ends,
            final_obs: &mut self.final_obs,
        };
        self.envs.step(actions, step)?;
        self.observe(obs)?;
        self.write_final_obs(final_obs)?;
        self.normalization.reward(rewards, ends);
        Ok(())
    }

    fn action_masks(&mut self, masks: &mut [bool]) -> Result<(), EnvFailure> {
        self.envs.action_masks(masks)
    }

    fn begin_fragment(&mut self, mut obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        if !self.normalization.changes_observations() {
            return self.envs.begin_fragment(obs);
        }
        self.normalization.restore(obs.reborrow()).map_err(|error| self.failure(error))?;
        self.envs.begin_fragment(obs.reborrow())?;
        obs.f32().and_then(|rows| self.normalization.scale(rows)).map_err(|error| self.failure(error))
    }

    /// Also exchanges moments with the other workers: this call comes between two fragments.
    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>) {
        self.envs.drain_episodes(into);
        self.normalization.exchange();
    }
}
