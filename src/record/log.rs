//! [`RunLog`]: what a run trained on, as a chain of digests, and where it is recorded or compared.

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pronk_buffer::{MultiAgentBatch, Tag};
use pronk_learner::{Journal, JournalEntry};
use serde::{Deserialize, Serialize};

use super::entry::{Pass, Taken};
use super::error::RecordError;
use super::recorder::Recorder;
use super::sums::FragmentSums;
use super::verifier::Verifier;
use crate::digest::Digest;

/// Follows a run: every fragment that the learner takes, and every pass. Clones are handles on one log.
#[derive(Clone)]
pub(crate) struct RunLog {
    state: Arc<Mutex<State>>,
}

struct State {
    /// Fragments that no pass has been made over yet.
    taken: VecDeque<(Tag, FragmentSums)>,
    chain: Digest,
    /// Of the weights after the last pass.
    weights: Digest,
    keeper: Keeper,
    has_replayed_all: bool,
}

/// What a log does beside the chain.
pub(crate) enum Keeper {
    Nothing,
    Records(Recorder),
    Verifies(Verifier),
}

impl RunLog {
    /// The log of a run that begins with weights of this digest.
    pub(crate) fn new(weights: Digest, keeper: Keeper) -> Self {
        let chain = Digest::default().chain(&weights.bytes());
        let state = State { taken: VecDeque::new(), chain, weights, keeper, has_replayed_all: false };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Where the log is, for a checkpoint.
    pub(crate) fn save(&self) -> SavedLog {
        let state = self.lock();
        let taken = state.taken.iter().map(|(tag, sums)| (tag_parts(*tag), sums.clone())).collect();
        SavedLog { chain: state.chain, weights: state.weights, taken }
    }

    /// Continues a saved log.
    pub(crate) fn resume(&self, saved: SavedLog) {
        let SavedLog { chain, weights, taken } = saved;
        let mut state = self.lock();
        (state.chain, state.weights) = (chain, weights);
        state.taken = taken.into_iter().map(|(tag, sums)| (tag_of(tag), sums)).collect();
    }

    /// The learner takes a fragment.
    pub(crate) fn take(&self, fragment: &MultiAgentBatch) -> Result<(), RecordError> {
        let Some(tag) = fragment.policies().find_map(|(_, part)| part.tags().first().copied()) else { return Ok(()) };
        let sums = FragmentSums::of(fragment);
        let mut state = self.lock();
        match &mut state.keeper {
            Keeper::Nothing => {}
            Keeper::Records(recorder) => recorder.keep_fragment(fragment),
            Keeper::Verifies(verifier) => verifier.take(tag, &sums, fragment)?,
        }
        state.taken.push_back((tag, sums));
        Ok(())
    }

    /// The digest of all fragments and weights so far, in their order.
    pub(crate) fn chain(&self) -> Digest {
        self.lock().chain
    }

    /// The digest of the weights after the last pass.
    pub(crate) fn weights(&self) -> Digest {
        self.lock().weights
    }

    /// Whether all of the record was replayed.
    pub(crate) fn has_replayed_all(&self) -> bool {
        self.lock().has_replayed_all
    }

    /// Why the record is not complete.
    pub(crate) fn failure(&self) -> Option<String> {
        match &self.lock().keeper {
            Keeper::Records(recorder) => recorder.failure().map(str::to_owned),
            Keeper::Nothing | Keeper::Verifies(_) => None,
        }
    }

    /// Completes the record.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        let chain = state.chain;
        if let Keeper::Records(recorder) = &mut state.keeper {
            recorder.finish(chain);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic under the lock, the run has failed; what remains is only read.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A log of what a run trains on, for a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedLog {
    chain: Digest,
    weights: Digest,
    /// Fragments that no pass has been made over yet.
    taken: VecDeque<(TagParts, FragmentSums)>,
}

/// Life, worker, incarnation, slot and version.
type TagParts = (u64, u32, u32, u64, u64);

fn tag_parts(Tag { life, worker, incarnation, slot, version }: Tag) -> TagParts {
    (life, worker, incarnation, slot, version)
}

fn tag_of((life, worker, incarnation, slot, version): TagParts) -> Tag {
    Tag { life, worker, incarnation, slot, version }
}

impl Journal for RunLog {
    fn note(&mut self, entry: JournalEntry<'_>) -> Result<ControlFlow<()>, Box<dyn Error + Send + Sync>> {
        let JournalEntry { fragments, is_quarantined, updates, version, weights } = entry;
        let weights = Digest::of_weights(weights.iter().map(|(policy, params)| (policy, *params)));
        let mut state = self.lock();
        let taken = state.settle(fragments);
        let mut link: Vec<u8> = taken.iter().filter(|it| !it.is_dropped).flat_map(|it| it.sums.whole).collect();
        link.extend(weights.bytes());
        state.chain = state.chain.chain(&link);
        state.weights = weights;
        let pass = Pass { taken, is_quarantined, updates, version, weights: weights.short() };
        Ok(match &mut state.keeper {
            Keeper::Nothing => ControlFlow::Continue(()),
            Keeper::Records(recorder) => {
                recorder.keep_pass(pass);
                ControlFlow::Continue(())
            }
            Keeper::Verifies(verifier) => {
                let flow = verifier.compare(&pass)?;
                state.has_replayed_all = flow.is_break();
                flow
            }
        })
    }
}

impl State {
    /// Removes the fragments up to the last one of a batch; those in between that are not in the batch were
    /// dropped.
    fn settle(&mut self, batch: &[Tag]) -> Vec<Taken> {
        let batch: BTreeSet<Tag> = batch.iter().copied().collect();
        let n = self.taken.iter().rposition(|(tag, _)| batch.contains(tag)).map_or(0, |last| last + 1);
        let settled = self.taken.drain(..n);
        settled.map(|(tag, sums)| Taken { tag: tag.into(), is_dropped: !batch.contains(&tag), sums }).collect()
    }
}
