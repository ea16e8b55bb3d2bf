//! [`RunState`]: a run between two results, apart from its policies.

use std::collections::VecDeque;
use std::time::Duration;

use pronk_buffer::TurnPosition;
use pronk_learner::SavedLoop;
use pronk_metrics::{ByPolicy, FileMark, NormalizerMoments, RunningMoments, StepTotals, Steps};
use pronk_rollout::{EpisodeStat, ReturnStat, SeatState};
use serde::{Deserialize, Serialize};

use crate::record::SavedLog;

/// A run between two results, apart from its policies and its batches.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunState {
    pub(crate) trainer: SavedTrainer,
    pub(crate) learner_loop: SavedLoop,
    /// Of each trained policy: see `LearnerState::publications`.
    pub(crate) publications: ByPolicy<Vec<(u64, u64)>>,
    /// The newest published version.
    pub(crate) version: u64,
    /// The moments published with it.
    pub(crate) published_moments: Moments,
    /// Those of the next publication.
    pub(crate) moments: Moments,
    /// Under deterministic admission.
    pub(crate) turns: Option<TurnPosition>,
    /// Of all workers, if the run goes on exactly.
    pub(crate) seats: Vec<SeatState>,
    /// How long ago workers were restarted.
    pub(crate) restarts: Vec<Duration>,
    /// Of the run's log, if it has one.
    pub(crate) log: Option<SavedLog>,
    /// What the files beside it hold, in this order.
    pub(super) files: Files,
}

impl RunState {
    /// A state whose files are not known yet.
    pub(crate) fn new(trainer: SavedTrainer, learner_loop: SavedLoop, version: u64) -> Self {
        Self {
            trainer,
            learner_loop,
            publications: ByPolicy::new(),
            version,
            published_moments: Moments::default(),
            moments: Moments::default(),
            turns: None,
            seats: Vec::new(),
            restarts: Vec::new(),
            log: None,
            files: Files::default(),
        }
    }
}

/// Which files a state has beside it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Files {
    /// Train batches of the minibatch buffer, and those behind it.
    pub(super) batches: usize,
    pub(super) whole: usize,
    pub(super) partial: usize,
    pub(super) queued: usize,
    pub(super) stored: usize,
    /// The position of the replay buffer, if there is one: oldest, left, draws.
    pub(super) replay: Option<(usize, Option<f64>, u64)>,
    /// Whether the published weights follow: they are not those of the learner.
    pub(super) published: bool,
}

/// Moments in a format without names of fields.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Moments(Option<RunningMoments>, Option<RunningMoments>);

impl From<&NormalizerMoments> for Moments {
    fn from(moments: &NormalizerMoments) -> Self {
        Self(moments.observations.clone(), moments.returns.clone())
    }
}

impl Moments {
    pub(super) fn check(&self, obs_len: usize) -> Result<(), String> {
        let Self(observations, returns) = self.clone();
        NormalizerMoments { observations, returns }.check(obs_len)
    }
}

impl From<Moments> for NormalizerMoments {
    fn from(Moments(observations, returns): Moments) -> Self {
        Self { observations, returns }
    }
}

/// What the trainer knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedTrainer {
    pub(crate) iterations: u64,
    pub(crate) updates: u64,
    pub(crate) worker_restarts: u64,
    pub(crate) fragments_added: Steps,
    pub(crate) steps: StepTotals,
    pub(crate) time_total: Duration,
    /// The newest episodes.
    pub(crate) episodes: VecDeque<EpisodeStat>,
    pub(crate) policy_returns: ByPolicy<VecDeque<ReturnStat>>,
    /// Until when the promise of a run that repeats held, if it no longer does.
    pub(crate) promise_ended: Option<String>,
    pub(crate) abandoned: (u64, Vec<String>),
    /// How many times the run was continued.
    pub(crate) resumes: u64,
    /// See `ResumeReport::outside_turns`.
    pub(crate) outside_turns: u64,
    /// How far the files of its reporters had come.
    pub(crate) marks: Vec<FileMark>,
    pub(crate) result: SavedResult,
}

/// The last result, as far as limits of a run look at it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedResult {
    pub(crate) episode_return_mean: Option<f64>,
    pub(crate) episode_len_mean: Option<f64>,
    pub(crate) episodes_covered: u64,
    pub(crate) enough_episodes: bool,
    pub(crate) policy_returns: ByPolicy<ReturnStat>,
    /// The result dict, as JSON.
    pub(crate) dict: String,
}
