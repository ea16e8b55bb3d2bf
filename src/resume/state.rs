//! [`RunState`]: a run between two results, apart from its policies.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::{SavedBatch, SavedReplay, SavedRing, SavedSource, TurnPosition};
use pronk_learner::SavedLoop;
use pronk_metrics::{ByPolicy, FileMark, NormalizerMoments, RunningMoments, StepTotals, Steps};
use pronk_policy::Params;
use pronk_rollout::{EpisodeStat, ReturnStat, SeatState};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::ResumeError;
use crate::checkpoint::SavedEvaluations;
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
    files: Files,
}

/// Which files a state has beside it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Files {
    /// Train batches of the minibatch buffer, and those behind it.
    batches: usize,
    whole: usize,
    partial: usize,
    queued: usize,
    stored: usize,
    /// The position of the replay buffer, if there is one: oldest, left, draws.
    replay: Option<(usize, Option<f64>, u64)>,
    /// Whether the published weights follow: they are not those of the learner.
    published: bool,
}

/// Moments in a format without names of fields.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Moments(Option<RunningMoments>, Option<RunningMoments>);

impl From<&NormalizerMoments> for Moments {
    fn from(moments: &NormalizerMoments) -> Self {
        Self(moments.observations.clone(), moments.returns.clone())
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

/// Everything of a run but its policies, as it is written.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) state: RunState,
    pub(crate) batches: Vec<SavedBatch>,
    pub(crate) source: SavedSource,
    /// The published weights, unless they are the learner's.
    pub(crate) published: Option<ByPolicy<Params>>,
}

impl Snapshot {
    /// The state, and the files beside it.
    pub(crate) fn encode(self) -> Result<(Vec<u8>, Vec<Vec<u8>>), postcard::Error> {
        let Self { mut state, batches, source, published } = self;
        let SavedSource { queued, partial, batches: whole, replay, .. } = source;
        let position = |replay: &SavedReplay| (replay.oldest, replay.left, replay.draws);
        state.files = Files {
            batches: batches.len(),
            whole: whole.len(),
            partial: partial.len(),
            queued: queued.len(),
            stored: replay.as_ref().map_or(0, |replay| replay.stored.len()),
            replay: replay.as_ref().map(position),
            published: published.is_some(),
        };
        let stored = replay.map(|replay| replay.stored).unwrap_or_default();
        let parts = batches.iter().chain(&whole).chain(&partial).chain(&queued).chain(&stored);
        let mut files = parts.map(postcard::to_stdvec).collect::<Result<Vec<_>, _>>()?;
        for params in published.iter().flat_map(ByPolicy::values) {
            files.push(params.to_safetensors(&Default::default()));
        }
        Ok((postcard::to_stdvec(&state)?, files))
    }
}

/// A run read back.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) state: RunState,
    pub(crate) batches: Vec<SavedBatch>,
    pub(crate) source: SavedSource,
    /// The newest published weights.
    pub(crate) published: ByPolicy<Params>,
    /// Whether the run goes on exactly: workers continue where they were.
    pub(crate) is_exact: bool,
    /// The folder of the checkpoint, and what that says of evaluations.
    pub(crate) folder: PathBuf,
    pub(crate) evaluations: Option<SavedEvaluations>,
}

impl Resumed {
    /// Reads a state and the files beside it, of the checkpoint at `path`; `learners` are the weights of the
    /// trained policies.
    pub(crate) fn decode(
        path: &Path,
        state: &[u8],
        files: Vec<Vec<u8>>,
        learners: ByPolicy<Params>,
        is_exact: bool,
    ) -> Result<Self, ResumeError> {
        let unreadable = |reason: String| ResumeError::Unreadable { path: path.to_owned(), reason };
        let state: RunState = read(state).map_err(unreadable)?;
        let mut files = files.into_iter();
        let mut take = |n: usize| -> Result<Vec<SavedBatch>, ResumeError> {
            let some = files.by_ref().take(n).map(|bytes| read(&bytes)).collect::<Result<Vec<_>, _>>();
            let some = some.map_err(unreadable)?;
            if some.len() < n {
                Err(unreadable(format!("{n} files were due, {} are there", some.len())))
            } else {
                Ok(some)
            }
        };
        let Files { batches, whole, partial, queued, stored, replay, published } = state.files;
        let batches = take(batches)?;
        let mut source = SavedSource::new(0, pronk_buffer::Pool::new(0));
        source.batches = take(whole)?;
        source.partial = take(partial)?;
        source.queued = take(queued)?;
        let stored = take(stored)?;
        source.replay = replay.map(|(oldest, left, draws)| SavedReplay { stored, oldest, left, draws });
        check_positions(&state.learner_loop.ring, source.replay.as_ref()).map_err(unreadable)?;
        let published = match published {
            false => learners,
            true => {
                let read = |(policy, learner): (_, Params)| {
                    let file =
                        files.next().ok_or_else(|| unreadable("the published weights are missing".to_owned()))?;
                    let params = Params::from_safetensors(&Arc::clone(learner.layout()), &file);
                    Ok((policy, params.map_err(|error| unreadable(error.to_string()))?))
                };
                learners.into_iter().map(read).collect::<Result<_, ResumeError>>()?
            }
        };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { state, batches, source, published, is_exact, folder, evaluations: None })
    }

    /// Drops what is ahead of the minibatch buffer: turns that begin anew begin with nothing ahead of them.
    pub(crate) fn drop_what_is_ahead(&mut self) {
        let (in_ring, returned) = (self.state.learner_loop.ring.n_items(), self.batches.len());
        self.batches.truncate(in_ring);
        self.source.batches.truncate(in_ring.saturating_sub(returned));
        self.source.partial.clear();
        self.source.queued.clear();
    }

    /// Drops fragments that have not become a train batch: those of another length do not join them.
    pub(crate) fn drop_fragments(&mut self) {
        self.source.partial.clear();
        self.source.queued.clear();
        self.source.replay = None;
    }

    /// The steps that are in batches of the checkpoint.
    pub(crate) fn in_flight(&self) -> Steps {
        let batches: Steps = self.batches.iter().filter_map(|saved| saved.in_flight).sum();
        batches + self.source.in_flight()
    }
}

/// Random numbers that a resuming run skips at most: it takes months to draw so many, and a minute or two to
/// skip them.
const MOST_DRAWS: u64 = 1 << 36;

/// Refuses positions that no run can be at: a damaged file may hold any number.
fn check_positions(ring: &SavedRing, replay: Option<&SavedReplay>) -> Result<(), String> {
    for &(left, shown) in ring.slots.iter().flatten() {
        if left < 0 || left.saturating_add(shown.into()) >= i64::from(u32::MAX) {
            return Err(format!("a batch of the minibatch buffer has {left} passes left after {shown}"));
        }
    }
    let Some(SavedReplay { stored, oldest, draws, .. }) = replay else { return Ok(()) };
    if *oldest > 0 && *oldest >= stored.len() {
        return Err(format!("the oldest replayed fragment is in place {oldest}, and {} are stored", stored.len()));
    }
    if *draws > MOST_DRAWS {
        return Err(format!("the replay buffer has drawn {draws} random numbers, more than the {MOST_DRAWS} to skip"));
    }
    Ok(())
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    postcard::from_bytes(bytes).map_err(|error| error.to_string())
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

#[cfg(test)]
mod tests;
