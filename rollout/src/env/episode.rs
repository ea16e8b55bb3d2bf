use pronk_buffer::End;
use pronk_policy::derive_seed;

use super::context::EnvContext;
use super::episode_stat::EpisodeStat;
use super::failure::{EnvFailureCause, FailurePlace};
use super::saved::SavedEpisodes;
use super::single_agent::Step;
use super::views::ObsMut;

/// The episodes of one environment: their seeds, and the progress of the present one. Your own
/// [`VectorEnv`](crate::VectorEnv) can use them for the library's seeds and places of failures.
///
/// ```
/// use pronk_rollout::{End, EnvContext, Episodes, FailurePlace, ObsMut, Step};
///
/// let mut episodes = Episodes::new(EnvContext { worker: 1, seed: 7, ..EnvContext::default() });
/// let seed = episodes.next_seed();
/// assert_eq!(episodes.begin(), seed);
/// assert_eq!(episodes.next_place(), FailurePlace::Step { episode_seed: seed, step: 1 });
///
/// let goes_on = Step { reward: 2.5, end: End::No };
/// assert_eq!(episodes.count(goes_on, &ObsMut::F32(&mut [0.0]), None).ok(), Some(End::No));
/// // The second step reaches a limit of two.
/// assert_eq!(episodes.count(goes_on, &ObsMut::F32(&mut [0.0]), Some(2)).ok(), Some(End::Truncated));
/// assert_eq!((episodes.stat().episode_return, episodes.stat().episode_len), (5.0, 2));
/// assert!(episodes.count(goes_on, &ObsMut::F32(&mut [f32::NAN]), None).is_err());
/// ```
#[derive(Debug)]
pub struct Episodes {
    env: EnvContext,
    n_begun: u64,
    /// The seed of the present episode.
    seed: u64,
    len: u32,
    sum: f64,
}

impl Episodes {
    /// The episodes of an environment that has begun none.
    pub fn new(env: EnvContext) -> Self {
        Self { env, n_begun: 0, seed: 0, len: 0, sum: 0.0 }
    }

    /// The seed of the next episode.
    pub fn next_seed(&self) -> u64 {
        derive_seed(self.env.seed, &[self.n_begun])
    }

    /// Begins the next episode and returns its seed.
    pub fn begin(&mut self) -> u64 {
        self.begin_with(self.next_seed());
        self.seed
    }

    /// Begins the next episode with a given seed.
    pub(crate) fn begin_with(&mut self, seed: u64) {
        // Only seeds are derived of it, and a forged file may hold any number.
        self.n_begun = self.n_begun.wrapping_add(1);
        (self.seed, self.len, self.sum) = (seed, 0, 0.0);
    }

    /// The seed of the present episode.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The reset of this episode.
    pub fn reset_place(&self) -> FailurePlace {
        FailurePlace::Reset { episode_seed: self.seed }
    }

    /// The next step.
    pub fn next_place(&self) -> FailurePlace {
        FailurePlace::Step { episode_seed: self.seed, step: self.len.saturating_add(1) }
    }

    /// The last step.
    pub fn place(&self) -> FailurePlace {
        FailurePlace::Step { episode_seed: self.seed, step: self.len }
    }

    /// The action mask after the last step.
    pub fn mask_place(&self) -> FailurePlace {
        FailurePlace::Mask { episode_seed: self.seed, step: self.len }
    }

    /// The frame after the last step.
    pub fn render_place(&self) -> FailurePlace {
        FailurePlace::Render { episode_seed: self.seed, step: self.len }
    }

    /// Counts a step that led to `obs` and returns how it ends the episode, also by a time limit. An error
    /// for a non-finite observation or reward.
    #[inline]
    pub fn count(&mut self, step: Step, obs: &ObsMut<'_>, limit: Option<u32>) -> Result<End, EnvFailureCause> {
        obs.check_finite()?;
        if !step.reward.is_finite() {
            return Err(EnvFailureCause::NonFiniteReward { value: step.reward });
        }
        let limit_reached = self.add(step.reward.into(), limit);
        Ok(match step.end {
            End::No if limit_reached => End::Truncated,
            end => end,
        })
    }

    /// Counts a step with this reward and returns whether it reaches the time limit.
    #[inline]
    pub(crate) fn add(&mut self, reward: f64, limit: Option<u32>) -> bool {
        self.len = self.len.saturating_add(1);
        self.sum += reward;
        limit.is_some_and(|limit| self.len >= limit)
    }

    /// The position, for a checkpoint.
    pub fn save(&self) -> SavedEpisodes {
        SavedEpisodes { n_begun: self.n_begun, seed: self.seed, len: self.len, sum: self.sum }
    }

    /// Continues from a saved position.
    pub fn load(&mut self, saved: SavedEpisodes) {
        let SavedEpisodes { n_begun, seed, len, sum } = saved;
        (self.n_begun, self.seed, self.len, self.sum) = (n_begun, seed, len, sum);
    }

    /// The statistics of the episode, once it has ended.
    pub fn stat(&self) -> EpisodeStat {
        EpisodeStat {
            worker: self.env.worker,
            index: self.env.index,
            seed: self.seed,
            episode_return: self.sum,
            episode_len: self.len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_of_more_steps_than_can_be_counted_goes_on_and_so_do_more_episodes() {
        let mut episodes = Episodes::new(EnvContext { worker: 1, seed: 7, ..EnvContext::default() });
        episodes.load(SavedEpisodes { n_begun: u64::MAX, seed: 3, len: 1, sum: 1.0 });
        let seed = episodes.next_seed();
        assert_eq!((episodes.begin(), episodes.save().n_begun), (seed, 0));
        episodes.load(SavedEpisodes { n_begun: 1, seed: 3, len: u32::MAX, sum: 1.0 });
        assert!(!episodes.add(0.5, None), "there is no limit");
        assert_eq!((episodes.stat().episode_len, episodes.stat().episode_return), (u32::MAX, 1.5));
        assert_eq!(episodes.next_place(), FailurePlace::Step { episode_seed: 3, step: u32::MAX });
    }
}
