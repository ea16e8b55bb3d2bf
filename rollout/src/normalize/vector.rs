use pronk_buffer::{End, FinalObs, ObsKind};
use pronk_policy::{ObsDtype, ObsNormalizer};

use super::{CLIP, Normalizer, NormalizerMoments};
use crate::env::{ActionRef, EnvError, EnvSpec, ObsMut};
use crate::factory::VectorContext;
use crate::failure::{EnvFailure, FailureCause, FailurePlace};
use crate::vector::{EpisodeStat, VectorEnv, VectorStep};
use crate::watch::Watch;

/// Environments whose observations and rewards are normalised on their way out.
pub(super) struct NormalizedVectorEnv {
    context: VectorContext,
    envs: Box<dyn VectorEnv>,
    normalizer: Normalizer,
    scale: Scale,
    /// What was seen since the last exchange.
    gathered: NormalizerMoments,
    /// `[B]`: the discounted return of every episode so far.
    returns: Vec<f64>,
    /// Final observations of the present step as the environments gave them.
    final_obs: FinalObs,
}

/// By what numbers are normalised, from one exchange to the next.
struct Scale {
    obs: Option<ObsNormalizer>,
    reward_std: Option<f64>,
}

impl Scale {
    fn of(moments: &NormalizerMoments, obs_len: usize) -> Self {
        let as_they_are = || ObsNormalizer { mean: vec![0.0; obs_len], std: vec![1.0; obs_len], clip: CLIP };
        let obs = moments.observations.as_ref().map(|_| moments.obs_normalizer().unwrap_or_else(as_they_are));
        Self { obs, reward_std: moments.reward_std() }
    }
}

impl NormalizedVectorEnv {
    pub(super) fn new(context: VectorContext, envs: Box<dyn VectorEnv>, normalizer: Normalizer) -> Self {
        let (obs_len, obs_kind) = match &envs.spec().observation {
            space if space.obs_dtype() == ObsDtype::U8 => (space.obs_len(), ObsKind::U8),
            space => (space.obs_len(), ObsKind::F32),
        };
        Self {
            context,
            scale: Scale::of(&normalizer.moments(), obs_len),
            gathered: NormalizerMoments::begin(&normalizer.config, obs_len),
            returns: vec![0.0; envs.n_envs()],
            final_obs: FinalObs::new(obs_kind, obs_len),
            normalizer,
            envs,
        }
    }

    /// Gathers and normalises the observations of all environments.
    fn normalize(&mut self, obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        if let (Some(scale), Some(gathered)) = (&self.scale.obs, &mut self.gathered.observations) {
            let normalized = obs.f32().and_then(|rows| {
                gathered.add_rows(rows);
                scale.apply(rows).map_err(EnvError::new)
            });
            return normalized.map_err(|error| self.failure(error));
        }
        Ok(())
    }

    /// Passes on the final observations of step `t`, normalised.
    fn pass_on_final_obs(&mut self, final_obs: &mut FinalObs) -> Result<(), EnvFailure> {
        for (t, index, row) in self.final_obs.iter() {
            let (t, index) = (t as usize, index as usize);
            let pushed = match (&self.scale.obs, row.as_f32()) {
                (Some(scale), Some(row)) => {
                    let mut row = row.to_vec();
                    scale.apply(&mut row).map_err(|error| self.failure(EnvError::new(error)))?;
                    final_obs.push(t, index, row.as_slice())
                }
                _ => final_obs.push(t, index, row),
            };
            pushed.map_err(|error| self.failure(EnvError::new(error)))?;
        }
        Ok(())
    }

    /// Gathers the discounted returns and normalises the rewards.
    fn normalize_rewards(&mut self, rewards: &mut [f32], ends: &[End]) {
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

    /// Environments that do not write what their spec says.
    #[cold]
    fn failure(&self, error: EnvError) -> EnvFailure {
        self.context.failure(Some(self.envs.spec()), 0, FailurePlace::Make, FailureCause::Error(error))
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
        let len = obs.len();
        self.envs.reset_all(obs.part(0, len))?;
        self.returns.fill(0.0);
        self.normalize(obs)
    }

    fn step(&mut self, actions: ActionRef<'_>, out: VectorStep<'_>) -> Result<(), EnvFailure> {
        let VectorStep { t, mut obs, rewards, ends, final_obs } = out;
        let len = obs.len();
        self.final_obs.clear();
        let step = VectorStep {
            t,
            obs: obs.part(0, len),
            rewards: &mut *rewards,
            ends: &mut *ends,
            final_obs: &mut self.final_obs,
        };
        self.envs.step(actions, step)?;
        self.normalize(obs)?;
        self.pass_on_final_obs(final_obs)?;
        self.normalize_rewards(rewards, ends);
        Ok(())
    }

    fn action_masks(&mut self, masks: &mut [bool]) -> Result<(), EnvFailure> {
        self.envs.action_masks(masks)
    }

    fn watch(&mut self, watch: &Watch) {
        self.envs.watch(watch);
    }

    /// Joins what was gathered with what the other workers have seen: a worker asks for its episodes between two fragments.
    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>) {
        self.envs.drain_episodes(into);
        let shared = self.normalizer.exchange(&mut self.gathered);
        self.scale = Scale::of(&shared, self.envs.spec().observation.obs_len());
    }
}
