//! [`Verifier`]: compares a replay with its record.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use pronk_buffer::{End, MultiAgentBatch, Tag};
use pronk_metrics::{DEFAULT_POLICY, PolicyId};

use super::entry::{Pass, RecordedTag, Taken};
use super::error::RecordError;
use super::sums::FragmentSums;

/// Compares a replay with its record, fragment by fragment and pass by pass.
pub(crate) struct Verifier {
    /// Fragments to come.
    taken: VecDeque<Taken>,
    /// Passes to come, without their fragments.
    passes: VecDeque<Pass>,
    /// Episodes that have ended in a column of a worker's fragments.
    episodes: BTreeMap<(u32, PolicyId, usize), u64>,
}

impl Verifier {
    pub(super) fn new(passes: &[Pass]) -> Self {
        let taken = passes.iter().flat_map(|pass| &pass.taken).cloned().collect();
        let passes = passes.iter().map(|pass| Pass { taken: Vec::new(), ..*pass }).collect();
        Self { taken, passes, episodes: BTreeMap::new() }
    }

    /// Compares the next fragment.
    pub(super) fn take(&mut self, tag: Tag, sums: &FragmentSums, own: &MultiAgentBatch) -> Result<(), RecordError> {
        // None is expected after the last pass of a record that was torn, or that ends earlier on request.
        let Some(recorded) = self.taken.pop_front() else { return Ok(()) };
        let tag = RecordedTag::from(tag);
        if recorded.tag != tag {
            let what = format!("it was {} that the learner took here", name(recorded.tag));
            return Err(RecordError::Fragment { fragment: name(tag), what });
        }
        if recorded.sums != *sums {
            let what = match recorded.sums.first_difference(sums, own) {
                Some((policy, column)) => self.name_column(tag.worker, policy, column),
                None => "its number of columns, or their policies".to_owned(),
            };
            return Err(RecordError::Fragment { fragment: name(tag), what });
        }
        for (policy, part) in own.policies() {
            let width = part.shape().columns;
            for (cell, _) in part.ends().iter().enumerate().filter(|(_, end)| **end != End::No) {
                *self.episodes.entry((tag.worker, policy.clone(), cell % width)).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Compares the next pass. `Break` after the last one.
    pub(super) fn compare(&mut self, pass: &Pass) -> Result<ControlFlow<()>, RecordError> {
        let Some(recorded) = self.passes.pop_front() else { return Ok(ControlFlow::Break(())) };
        let differs = |what: &str| Err(RecordError::Update { update: pass.updates, what: what.to_owned() });
        if recorded.is_quarantined != pass.is_quarantined {
            return differs(match pass.is_quarantined {
                true => "it was learned from in the record, and is quarantined now",
                false => "it was quarantined in the record, and is learned from now",
            });
        }
        if (recorded.updates, recorded.version) != (pass.updates, pass.version) {
            return differs(&format!(
                "the record has {} updates and version {} here, and this run version {}",
                recorded.updates, recorded.version, pass.version
            ));
        }
        if recorded.weights != pass.weights {
            return differs("its weights have another digest");
        }
        Ok(if self.passes.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn name_column(&self, worker: u32, policy: &PolicyId, column: usize) -> String {
        let ended = self.episodes.get(&(worker, policy.clone(), column)).copied().unwrap_or(0);
        let of_policy = if **policy == *DEFAULT_POLICY { String::new() } else { format!(" of policy `{policy}`") };
        format!("environment {column}{of_policy}, in its episode {} or a later one of the fragment", ended + 1)
    }
}

fn name(RecordedTag { worker, incarnation, slot, version }: RecordedTag) -> String {
    format!("fragment {slot} of rollout-{worker} (incarnation {incarnation}, weights of version {version})")
}
