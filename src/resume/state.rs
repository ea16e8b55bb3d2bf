//! [`Snapshot`] and [`Resumed`]: a run between two results, as it is written and as it is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pronk_buffer::{SavedBatch, SavedReplay, SavedSource};
use pronk_metrics::{ByPolicy, Steps};
use pronk_policy::Params;
use serde::de::DeserializeOwned;

use super::check::check;
use super::error::ResumeError;
use super::run_state::{Files, RunState};
use crate::checkpoint::SavedEvaluations;

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
        check(&state, source.replay.as_ref()).map_err(unreadable)?;
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

    /// Refuses moments that are not of observations of `obs_len` numbers.
    pub(crate) fn check_moments(&self, path: &Path, obs_len: usize) -> Result<(), ResumeError> {
        let RunState { published_moments, moments, .. } = &self.state;
        let checked = [published_moments, moments].into_iter().try_for_each(|moments| moments.check(obs_len));
        checked.map_err(|reason| ResumeError::Unreadable { path: path.to_owned(), reason })
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

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    postcard::from_bytes(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
