//! What a frame says before its columns, and how long those are.

use std::borrow::Cow;
use std::mem::size_of;

use pronk_buffer::{BatchShape, ObsKind};
use pronk_metrics::RunningMoments;
use serde::{Deserialize, Serialize};

/// Bytes of the length in front of the header.
pub(super) const PREFIX: usize = size_of::<u32>();

/// The beginning of a header.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) env_steps: u64,
    /// The number of policies.
    pub(super) policies: usize,
    /// The number of fragments that carry moments.
    pub(super) moments: usize,
}

/// The beginning of a policy in the header. The tags, places and runs follow it one by one, so that their
/// numbers can be checked before memory is taken for them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct PolicyHead<'a> {
    pub(super) id: &'a str,
    pub(super) shape: BatchShape,
    /// Bytes of compressed observations; `None` if they are as they lie in memory.
    pub(super) packed: Option<usize>,
    /// The number of tags.
    pub(super) tags: usize,
    /// The number of final observations.
    pub(super) finals: usize,
    /// The number of runs of versions.
    pub(super) runs: usize,
}

/// `(t, b)` of a final observation.
pub(super) type Place = (u32, u32);

/// Consecutive cells with the same version of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) cells: u64,
    pub(super) version: u64,
}

/// Moments of observations and of returns. A pair, because postcard has no names of fields, so none can be
/// left out.
pub(super) type Moments<'a> = (Option<Cow<'a, RunningMoments>>, Option<Cow<'a, RunningMoments>>);

/// `T * B`. For shapes whose sizes are known to be possible, as all functions here are.
pub(super) fn cells(shape: &BatchShape) -> usize {
    shape.steps * shape.columns
}

/// Bytes of `rows` observations of each column.
pub(super) fn obs_bytes(shape: &BatchShape, rows: usize) -> usize {
    let element = match shape.obs_kind {
        ObsKind::F32 => size_of::<f32>(),
        ObsKind::U8 => size_of::<u8>(),
    };
    rows * shape.obs_len * element
}

/// Bytes of all columns but the observations.
fn other_bytes(shape: &BatchShape) -> Option<usize> {
    // Rewards and log-probabilities, actions, inputs of distributions: any element has four bytes.
    let numbers_of_cell = shape.act_len.checked_add(shape.dist_len)?.checked_add(2)?;
    let numbers = cells(shape).checked_mul(numbers_of_cell)?;
    let values = (shape.steps + 1) * shape.columns;
    let state = shape.columns.checked_mul(shape.state_len)?;
    let numbers = numbers.checked_add(values)?.checked_add(state)?;
    numbers.checked_mul(size_of::<f32>())?.checked_add(cells(shape))
}

/// Bytes of all columns of a policy with `finals` final observations; `None` if that is not addressable.
pub(super) fn column_bytes(shape: &BatchShape, packed: Option<usize>, finals: usize) -> Option<usize> {
    let rows = (shape.steps + 1) * shape.columns;
    let obs = packed.unwrap_or_else(|| obs_bytes(shape, rows));
    obs.checked_add(obs_bytes(shape, finals))?.checked_add(other_bytes(shape)?)
}
