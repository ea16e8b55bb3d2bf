//! [`FragmentSums`]: checksums of a fragment.

use crc32c::crc32c_append;
use pronk_buffer::{ActionView, End, MultiAgentBatch, ObsView, SampleBatch};
use pronk_metrics::PolicyId;
use serde::{Deserialize, Serialize};

/// Checksums of a fragment, and of each of its columns, so that a difference has the name of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FragmentSums {
    pub(super) whole: [u8; 4],
    /// Of the columns of all policies, by the names of these: the lower halves.
    pub(super) columns: Vec<[u8; 2]>,
}

impl FragmentSums {
    pub(super) fn of(fragment: &MultiAgentBatch) -> Self {
        let (mut whole, mut columns) = (0, Vec::new());
        for (policy, part) in fragment.policies() {
            whole = crc32c_append(whole, policy.as_bytes());
            for sum in of_columns(part) {
                let [a, b, ..] = sum.to_le_bytes();
                columns.push([a, b]);
                whole = crc32c_append(whole, &sum.to_le_bytes());
            }
        }
        Self { whole: whole.to_le_bytes(), columns }
    }

    /// The first column whose checksum differs: its policy, and its place in the part of that.
    pub(super) fn first_difference<'a>(
        &self,
        other: &Self,
        fragment: &'a MultiAgentBatch,
    ) -> Option<(&'a PolicyId, usize)> {
        let mut places = fragment.policies().flat_map(|(id, part)| (0..part.shape().columns).map(move |b| (id, b)));
        let differs = self.columns.iter().zip(&other.columns).position(|(own, other)| own != other)?;
        places.nth(differs)
    }
}

/// The checksum of each column.
fn of_columns(part: &SampleBatch) -> Vec<u32> {
    let shape = *part.shape();
    let width = shape.columns;
    let mut sums = vec![0; width];
    // Step by step, because that is how the columns lie in memory.
    for t in 0..=shape.steps {
        for (b, sum) in sums.iter_mut().enumerate() {
            let cell = t * width + b;
            let mut add = |bytes: &[u8]| *sum = crc32c_append(*sum, bytes);
            match part.obs().row(cell) {
                ObsView::F32(row) => add(bytemuck::cast_slice(row)),
                ObsView::U8(row) => add(row),
            }
            add(&part.behaviour_values()[cell].to_le_bytes());
            if t == shape.steps {
                continue;
            }
            match part.actions().row(cell, shape.act_len) {
                ActionView::U32(row) => add(bytemuck::cast_slice(row)),
                ActionView::F32(row) => add(bytemuck::cast_slice(row)),
            }
            let end = match part.ends()[cell] {
                End::No => 0_u64,
                End::Terminated => 1,
                End::Truncated => 2,
            };
            let (reward, logp) = (part.rewards()[cell].to_bits(), part.behaviour_logp()[cell].to_bits());
            let step = [u64::from(reward) << 32 | u64::from(logp), end, part.versions()[cell]];
            add(bytemuck::cast_slice(&step));
            let inputs = cell * shape.dist_len..(cell + 1) * shape.dist_len;
            add(bytemuck::cast_slice(&part.behaviour_inputs()[inputs]));
        }
    }
    for (b, state) in part.state_in().chunks_exact(shape.state_len.max(1)).enumerate() {
        sums[b] = crc32c_append(sums[b], bytemuck::cast_slice(state));
    }
    for (t, b, row) in part.final_obs().iter() {
        let sum = &mut sums[b as usize];
        *sum = crc32c_append(*sum, &t.to_le_bytes());
        *sum = match row {
            ObsView::F32(row) => crc32c_append(*sum, bytemuck::cast_slice(row)),
            ObsView::U8(row) => crc32c_append(*sum, row),
        };
    }
    sums
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pronk_buffer::{ActionKind, BatchShape, ObsKind, Pool, Tag};

    use super::*;

    #[test]
    fn observations_that_share_elements_have_the_sums_of_others() {
        let shape = BatchShape {
            steps: 3,
            columns: 2,
            obs_len: 4,
            obs_kind: ObsKind::U8,
            act_len: 1,
            act_kind: ActionKind::U32,
            dist_len: 2,
            state_len: 0,
        };
        let rows: Vec<u8> = (0..8).flat_map(|cell| (0..4).map(move |i| cell / 2 + i)).collect();
        let mut samples = SampleBatch::blank(shape, Tag::default());
        samples.obs_mut().copy_from(ObsView::U8(&rows)).unwrap();
        let apart = FragmentSums::of(&MultiAgentBatch::single(samples.clone()));
        samples.share_rows(1, &Pool::new(1));
        assert!(samples.shares_rows());
        assert_eq!(FragmentSums::of(&MultiAgentBatch::single(samples)), apart);
    }
}
