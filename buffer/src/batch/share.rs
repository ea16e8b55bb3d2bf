//! Elements that neighbouring observations have in common, stored once.
//!
//! In a batch whose rows share elements, those of each column lie together, and the starts of its rows never
//! fall from a step to the next. So columns are copied whole.

use std::mem;

use super::{BatchShape, ObsColumn, SampleBatch, Tag};
use crate::Pool;

impl SampleBatch {
    /// Whether observations may have elements in common.
    pub fn shares_rows(&self) -> bool {
        self.obs().shared().is_some()
    }

    /// Stores the bytes once that neighbouring observations of a column have in common: where one is the one
    /// before it, moved by `shift` elements, only its last `shift` elements are new. So is a stack of frames,
    /// for the size of a frame. Every other observation stays whole, such as the first of an episode. Batches
    /// whose first column has nothing in common, and floats, stay as they are.
    ///
    /// The batch should be complete: writing to its observations lays them apart again.
    pub fn share_rows(&mut self, shift: usize, pool: &Pool) {
        let BatchShape { steps, columns: width, obs_len: len, .. } = *self.shape();
        let ObsColumn::U8(from) = &self.columns().obs else { return };
        let is_shiftable = (1..len).contains(&shift);
        if self.shares_rows() || !is_shiftable {
            return;
        }
        let mut shared = pool.take_sharing(*self.shape());
        let (ObsColumn::U8(to), starts) = shared.obs_storage() else { return };
        to.reserve(width * (len + steps * shift));
        starts.resize((steps + 1) * width, 0);
        for column in 0..width {
            let mut before = None;
            for cell in (column..starts.len()).step_by(width) {
                let row = &from[cell * len..][..len];
                // The row before is the last one of `to`.
                let start = match before {
                    Some(before) if to[before + shift..] == row[..len - shift] => {
                        to.extend_from_slice(&row[len - shift..]);
                        before + shift
                    }
                    _ => {
                        to.extend_from_slice(row);
                        to.len() - len
                    }
                };
                starts[cell] = start;
                before = Some(start);
            }
            if column == 0 && to.len() == (steps + 1) * len {
                // No stacks that move by `shift`, so nor are those of the other columns, most likely.
                return;
            }
        }
        self.exchange_obs(&mut shared);
    }

    /// A batch of another shape, for observations stored as this one's.
    pub(super) fn take_like(&self, shape: BatchShape, pool: &Pool) -> SampleBatch {
        if self.shares_rows() { pool.take_sharing(shape) } else { pool.take_untagged(shape) }
    }

    /// Lays its observations one after another, to be written.
    pub(super) fn lay_apart(&mut self) {
        if !self.shares_rows() {
            return;
        }
        let shape = *self.shape();
        let mut apart = match self.home() {
            Some(home) => home.take_untagged(shape),
            None => SampleBatch::blank(shape, Tag::default()),
        };
        self.obs().laid_apart(apart.obs_storage().0);
        self.exchange_obs(&mut apart);
    }

    /// Copies the observations of columns, from a step on, in the order given, if that batch shares rows.
    pub(super) fn share_columns(
        &mut self,
        of: &SampleBatch,
        columns: impl ExactSizeIterator<Item = usize>,
        first_step: usize,
    ) {
        let BatchShape { steps, columns: width, obs_len: len, .. } = *of.shape();
        let Some((from, from_starts)) = of.obs().shared() else { return };
        let (obs, starts) = self.obs_storage();
        let own_width = columns.len();
        starts.resize((steps + 1 - first_step) * own_width, 0);
        for (at, column) in columns.enumerate() {
            let (first, last) = (from_starts[first_step * width + column], from_starts[steps * width + column]);
            let moved = obs.view().len();
            // Of one type, as the shapes agree in it.
            let _ = obs.append(from.range(first..last + len));
            let from_starts = from_starts[first_step * width + column..].iter().step_by(width);
            for (start, from) in starts[at..].iter_mut().step_by(own_width).zip(from_starts) {
                *start = from - first + moved;
            }
        }
    }

    /// Copies the observations of a part that shares rows, as the columns from `first` on.
    pub(super) fn share_part(&mut self, part: &SampleBatch, first: usize) {
        let (whole, own) = (self.shape().columns, part.shape().columns);
        let Some((from, from_starts)) = part.obs().shared() else { return };
        let (obs, starts) = self.obs_storage();
        starts.resize(from_starts.len() / own * whole, 0);
        let moved = obs.view().len();
        let _ = obs.append(from);
        for (to, from) in starts.chunks_exact_mut(whole).zip(from_starts.chunks_exact(own)) {
            to[first..].iter_mut().zip(from).for_each(|(to, from)| *to = from + moved);
        }
    }

    fn exchange_obs(&mut self, other: &mut SampleBatch) {
        let ((obs, starts), (other_obs, other_starts)) = (self.obs_storage(), other.obs_storage());
        mem::swap(obs, other_obs);
        mem::swap(starts, other_starts);
    }
}
