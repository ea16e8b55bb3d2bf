use pronk_buffer::End;
use pronk_policy::derive_seed;

use crate::env::{EnvSpec, ObsMut, Step};
use crate::factory::EnvContext;
use crate::failure::{FailureCause, FailurePlace};
use crate::vector::EpisodeStat;

/// The episodes of one environment: their seeds, and how far the one is that it is in.
#[derive(Debug)]
pub(crate) struct Episodes {
    env: EnvContext,
    n_begun: u64,
    /// Of the present episode.
    seed: u64,
    len: u32,
    sum: f64,
}

impl Episodes {
    /// Of an environment that has begun none.
    pub(crate) fn new(env: EnvContext) -> Self {
        Self { env, n_begun: 0, seed: 0, len: 0, sum: 0.0 }
    }

    /// The next episode begins. Its seed.
    pub(crate) fn begin(&mut self) -> u64 {
        self.seed = derive_seed(self.env.seed, &[self.n_begun]);
        self.n_begun += 1;
        (self.len, self.sum) = (0, 0.0);
        self.seed
    }

    /// The reset that began the episode.
    pub(crate) fn reset_place(&self) -> FailurePlace {
        FailurePlace::Reset { episode_seed: self.seed }
    }

    /// The step that comes next.
    pub(crate) fn next_place(&self) -> FailurePlace {
        FailurePlace::Step { episode_seed: self.seed, step: self.len + 1 }
    }

    /// The step that was made last.
    pub(crate) fn place(&self) -> FailurePlace {
        FailurePlace::Step { episode_seed: self.seed, step: self.len }
    }

    /// The question what is possible now.
    pub(crate) fn mask_place(&self) -> FailurePlace {
        FailurePlace::Mask { episode_seed: self.seed, step: self.len }
    }

    /// Counts a step that led to `obs`, and says whether it ends the episode, by itself or by the time limit.
    ///
    /// # Errors
    /// What of it is not finite.
    #[inline]
    pub(crate) fn count(&mut self, step: Step, obs: &ObsMut<'_>, spec: &EnvSpec) -> Result<End, FailureCause> {
        check_finite(obs)?;
        if !step.reward.is_finite() {
            return Err(FailureCause::NonFiniteReward { value: step.reward });
        }
        self.len += 1;
        self.sum += f64::from(step.reward);
        let limit_reached = spec.max_episode_steps.is_some_and(|limit| self.len >= limit);
        Ok(match step.end {
            End::No if limit_reached => End::Truncated,
            end => end,
        })
    }

    /// The episode, which has ended.
    pub(crate) fn stat(&self) -> EpisodeStat {
        EpisodeStat {
            worker: self.env.worker,
            index: self.env.index,
            seed: self.seed,
            episode_return: self.sum,
            episode_len: self.len,
        }
    }
}

/// Refuses an observation that is not finite.
#[inline]
pub(crate) fn check_finite(obs: &ObsMut<'_>) -> Result<(), FailureCause> {
    match obs.first_non_finite() {
        None => Ok(()),
        Some((element, value)) => Err(FailureCause::NonFiniteObservation { element, value }),
    }
}
