use pronk_buffer::{End, Fold};
use pronk_policy::derive_seed;

use super::context::EnvContext;
use super::failure::{EnvFailureCause, FailurePlace};
use super::single_agent::Step;
use super::views::ObsMut;

/// One finished episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpisodeStat {
    /// The worker that made it.
    pub worker: u32,
    /// The environment of that worker.
    pub index: u32,
    /// The seed it was reset with.
    pub seed: u64,
    /// The sum of its rewards.
    pub episode_return: f64,
    /// Its length in steps.
    pub episode_len: u32,
}

/// Returns of agents that played one policy. There is at least one.
///
/// ```
/// use pronk_buffer::Fold;
/// use pronk_rollout::ReturnStat;
///
/// let mut returns = ReturnStat::of(1.0);
/// returns.fold(ReturnStat::of(-2.0));
/// assert_eq!((returns.n, returns.min, returns.max, returns.mean()), (2, -2.0, 1.0, -0.5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReturnStat {
    /// How many returns.
    pub n: u64,
    /// Their sum.
    pub sum: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

impl ReturnStat {
    /// Of one return.
    pub fn of(value: f64) -> Self {
        Self { n: 1, sum: value, min: value, max: value }
    }

    /// The mean of the returns.
    pub fn mean(&self) -> f64 {
        self.sum / self.n as f64
    }
}

impl Fold for ReturnStat {
    fn fold(&mut self, later: Self) {
        self.n += later.n;
        self.sum += later.sum;
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
    }
}

/// The episodes of one environment: their seeds, and how far the one is that it is in.
///
/// For who writes a [`VectorEnv`](crate::VectorEnv) of another kind: kept like this, episodes have the seeds, and failures the places,
/// that they would have in any other.
///
/// ```
/// use pronk_rollout::{End, EnvContext, Episodes, FailurePlace, ObsMut, Step};
///
/// let mut episodes = Episodes::new(EnvContext { worker: 1, index: 0, incarnation: 0, seed: 7 });
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
    /// Of the present episode.
    seed: u64,
    len: u32,
    sum: f64,
}

impl Episodes {
    /// Of an environment that has begun none.
    pub fn new(env: EnvContext) -> Self {
        Self { env, n_begun: 0, seed: 0, len: 0, sum: 0.0 }
    }

    /// The seed of the episode after the present one.
    pub fn next_seed(&self) -> u64 {
        derive_seed(self.env.seed, &[self.n_begun])
    }

    /// The next episode begins. Its seed.
    pub fn begin(&mut self) -> u64 {
        self.seed = self.next_seed();
        self.n_begun += 1;
        (self.len, self.sum) = (0, 0.0);
        self.seed
    }

    /// The reset that began the episode.
    pub fn reset_place(&self) -> FailurePlace {
        FailurePlace::Reset { episode_seed: self.seed }
    }

    /// The step that comes next.
    pub fn next_place(&self) -> FailurePlace {
        FailurePlace::Step { episode_seed: self.seed, step: self.len + 1 }
    }

    /// The step that was made last.
    pub fn place(&self) -> FailurePlace {
        FailurePlace::Step { episode_seed: self.seed, step: self.len }
    }

    /// The question what is possible now.
    pub fn mask_place(&self) -> FailurePlace {
        FailurePlace::Mask { episode_seed: self.seed, step: self.len }
    }

    /// Counts a step that led to `obs`, and says whether it ends the episode, by itself or by a time limit in steps.
    ///
    /// # Errors
    /// What of it is not finite.
    #[inline]
    pub fn count(&mut self, step: Step, obs: &ObsMut<'_>, limit: Option<u32>) -> Result<End, EnvFailureCause> {
        obs.check_finite()?;
        if !step.reward.is_finite() {
            return Err(EnvFailureCause::NonFiniteReward { value: step.reward });
        }
        self.len += 1;
        self.sum += f64::from(step.reward);
        let limit_reached = limit.is_some_and(|limit| self.len >= limit);
        Ok(match step.end {
            End::No if limit_reached => End::Truncated,
            end => end,
        })
    }

    /// The episode, which has ended.
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
