use super::spectator::OnFrame;

/// What an evaluation plays.
///
/// ```
/// use pronk_rollout::EvaluationPlan;
///
/// let quick = EvaluationPlan { max_episode_steps: Some(1_000), ..EvaluationPlan::new(10, 0) };
/// # let _ = quick;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvaluationPlan {
    /// How many episodes.
    pub n_episodes: usize,
    /// Equal seeds give equal evaluations, whose episodes are never those of a run with that seed.
    pub seed: u64,
    /// After how many steps an episode is ended that goes on; it counts with the return that it has come to.
    /// `None` for [`MAX_EPISODE_STEPS`](Self::MAX_EPISODE_STEPS), or the environment's own limit if that is
    /// higher.
    pub max_episode_steps: Option<u32>,
}

impl EvaluationPlan {
    /// The steps of the longest episodes by default: the frames of an Atari game of half an hour.
    pub const MAX_EPISODE_STEPS: u32 = 108_000;

    /// So many episodes from a seed, of the default length at most.
    pub fn new(n_episodes: usize, seed: u64) -> Self {
        Self { n_episodes, seed, max_episode_steps: None }
    }

    /// After how many steps an episode is ended, in environments with this limit of their own.
    pub(super) fn limit(&self, own: Option<u32>) -> u32 {
        // An episode has a step at least.
        let by_default = || own.unwrap_or_default().max(Self::MAX_EPISODE_STEPS);
        self.max_episode_steps.unwrap_or_else(by_default).max(1)
    }
}

/// How far an evaluation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Episodes that have ended.
    pub episodes: usize,
    /// Steps that each environment has been asked for.
    pub steps: u64,
}

/// Is told after every step how far the evaluation has come.
pub type OnProgress<'a> = dyn FnMut(Progress) + 'a;

/// Who looks on at an evaluation; by default nobody.
#[derive(Default)]
pub struct Audience<'a, 'b> {
    /// Sees the first episode of environment 0.
    pub on_frame: Option<&'a mut OnFrame<'b>>,
    /// Sees how far it has come.
    pub on_progress: Option<&'a mut OnProgress<'b>>,
}
