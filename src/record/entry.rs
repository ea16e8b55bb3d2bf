//! What a record holds.

use pronk_buffer::Tag;
use pronk_metrics::ByPolicy;
use pronk_policy::{Params, instructions};
use serde::{Deserialize, Serialize};

use super::sums::FragmentSums;
use crate::config::TrainerConfig;
use crate::digest::Digest;

/// The version of the format.
pub(super) const FORMAT: u32 = 1;

/// The same, of a run whose networks scale bytes by their bounds: in others they read pixels.
pub(super) const SCALED_BY_BOUNDS: u32 = 2;

/// The beginning of a record: what a replay has to agree with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(super) format: u32,
    /// The version of pronk.
    pub(super) pronk: String,
    /// The settings, as JSON.
    pub(super) config: String,
    /// The name of the environment.
    pub(super) env: String,
    /// How many times the run had been resumed.
    pub(super) life: u64,
    /// Of the networks' layouts.
    pub(super) layout: Digest,
    /// Of the weights that the run began with.
    pub(super) weights: Digest,
    /// The instructions that its products were computed with.
    pub(super) cpu: String,
    /// Whether the fragments are in a file of their own.
    pub(super) has_fragments: bool,
}

impl Header {
    /// Of a run that begins with these weights.
    pub(crate) fn of(
        config: &TrainerConfig,
        (env, scales_by_bounds): (&str, bool),
        life: u64,
        weights: &ByPolicy<Params>,
    ) -> Self {
        Self {
            format: if scales_by_bounds { SCALED_BY_BOUNDS } else { FORMAT },
            pronk: env!("CARGO_PKG_VERSION").to_owned(),
            // A config can always be written as JSON; an empty text would be refused when it is read.
            config: serde_json::to_string(config).unwrap_or_default(),
            env: env.to_owned(),
            life,
            layout: Digest::of_layouts(weights),
            weights: Digest::of_weights(weights),
            cpu: instructions().to_owned(),
            has_fragments: false,
        }
    }
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Entry {
    /// A pass of the learner.
    Pass(Pass),
    /// The run has ended, with this digest chain.
    End(Digest),
}

/// A pass of the learner, or a batch that was quarantined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Pass {
    /// The fragments that were taken since the entry before, oldest first.
    pub(super) taken: Vec<Taken>,
    pub(super) is_quarantined: bool,
    /// Updates of the run so far.
    pub(super) updates: u64,
    /// The newest published version.
    pub(super) version: u64,
    /// Of the weights.
    pub(super) weights: [u8; 4],
}

/// A fragment that the learner took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) tag: RecordedTag,
    /// Whether it was dropped instead of trained on.
    pub(super) is_dropped: bool,
    pub(super) sums: FragmentSums,
}

/// A [`Tag`] without what the whole record has in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordedTag {
    pub(super) worker: u32,
    pub(super) incarnation: u32,
    pub(super) slot: u64,
    pub(super) version: u64,
}

impl From<Tag> for RecordedTag {
    fn from(Tag { worker, incarnation, slot, version, .. }: Tag) -> Self {
        Self { worker, incarnation, slot, version }
    }
}
