use super::{ActionColumn, BatchError, BatchShape, ObsColumn, ObsView, SampleBatch};
use crate::Pool;

impl SampleBatch {
    /// Joins batches along `B`, in the order given, in one copy. A single batch is moved.
    ///
    /// # Errors
    /// No parts, or a part that differs from the first in more than its number of columns.
    pub fn join(mut parts: Vec<SampleBatch>, pool: &Pool) -> Result<SampleBatch, BatchError> {
        if parts.len() <= 1 {
            return parts.pop().ok_or(BatchError::Empty { what: "a joined batch" });
        }
        let first = *parts[0].shape();
        for (i, part) in parts.iter().enumerate().skip(1) {
            first.check_fits(part.shape(), i)?;
        }
        let columns = parts.iter().map(|part| part.shape().columns).sum();
        let shape = first.with_columns(columns);
        shape.check()?;

        // If all do: of a part that does not, the elements of a column do not lie together.
        let shares_rows = parts.iter().all(SampleBatch::shares_rows);
        let mut joined = if shares_rows { pool.take_sharing(shape) } else { pool.take_untagged(shape) };
        let mut first_column = 0;
        for part in &parts {
            joined.tags_mut().extend_from_slice(part.tags());
            if shares_rows {
                joined.share_part(part, first_column);
            } else {
                copy_obs(&mut joined, part, first_column);
            }
            copy_part(&mut joined, part, first_column);
            first_column += part.shape().columns;
        }
        Ok(joined)
    }
}

impl BatchShape {
    /// Checks that a batch of shape `other`, at position `part`, can be joined to one of this shape.
    pub(crate) fn check_fits(&self, other: &BatchShape, part: usize) -> Result<(), BatchError> {
        let sizes = [
            ("steps", self.steps, other.steps),
            ("obs_len", self.obs_len, other.obs_len),
            ("act_len", self.act_len, other.act_len),
            ("dist_len", self.dist_len, other.dist_len),
            ("state_len", self.state_len, other.state_len),
        ];
        let mismatch = |what, expected, got| Err(BatchError::Mismatch { part, what, expected, got });
        for (what, expected, got) in sizes {
            if expected != got {
                return mismatch(what, expected.to_string(), got.to_string());
            }
        }
        if self.obs_kind != other.obs_kind {
            return mismatch("obs_kind", format!("{:?}", self.obs_kind), format!("{:?}", other.obs_kind));
        }
        if self.act_kind != other.act_kind {
            return mismatch("act_kind", format!("{:?}", self.act_kind), format!("{:?}", other.act_kind));
        }
        Ok(())
    }
}

/// Copies the observations of `part` into the columns of `joined` from `first` on, one row after another.
fn copy_obs(joined: &mut SampleBatch, part: &SampleBatch, first: usize) {
    let (whole, own, len) = (joined.shape().columns, part.shape().columns, part.shape().obs_len);
    let place = Place { whole: whole * len, own: own * len, at: first * len };
    let to = &mut joined.columns_mut().obs;
    match (&mut *to, part.obs().apart()) {
        (ObsColumn::F32(to), Some(ObsView::F32(from))) => copy_rows(to, from, place),
        (ObsColumn::U8(to), Some(ObsView::U8(from))) => copy_rows(to, from, place),
        _ => {
            for i in 0..part.obs().count() {
                let at = i / own * whole + first + i % own;
                // Shapes agree.
                let _ = to.view_mut().into_row(at, len).copy_from(part.obs().row(i));
            }
        }
    }
}

/// Copies the other columns of `part` into those of `joined` from `first` on. Shapes agree.
fn copy_part(joined: &mut SampleBatch, part: &SampleBatch, first: usize) {
    let BatchShape { act_len, dist_len, state_len, .. } = *part.shape();
    let (whole, own) = (joined.shape().columns, part.shape().columns);
    let place = |row_len: usize| Place { whole: whole * row_len, own: own * row_len, at: first * row_len };
    let from = part.columns();
    let to = joined.columns_mut();

    match (&mut to.actions, &from.actions) {
        (ActionColumn::U32(to), ActionColumn::U32(from)) => copy_rows(to, from, place(act_len)),
        (ActionColumn::F32(to), ActionColumn::F32(from)) => copy_rows(to, from, place(act_len)),
        _ => {}
    }
    copy_rows(&mut to.rewards, &from.rewards, place(1));
    copy_rows(&mut to.ends, &from.ends, place(1));
    to.final_obs.append(&from.final_obs, first);
    copy_rows(&mut to.behaviour_logp, &from.behaviour_logp, place(1));
    copy_rows(&mut to.behaviour_inputs, &from.behaviour_inputs, place(dist_len));
    copy_rows(&mut to.behaviour_values, &from.behaviour_values, place(1));
    copy_rows(&mut to.versions, &from.versions, place(1));
    // It has no time axis: the part's block is contiguous.
    to.state_in[first * state_len..(first + own) * state_len].copy_from_slice(&from.state_in);
}

/// The place of a part's row in the joined row, in elements.
#[derive(Clone, Copy)]
struct Place {
    whole: usize,
    own: usize,
    at: usize,
}

fn copy_rows<T: Copy>(to: &mut [T], from: &[T], place: Place) {
    for (to, from) in to.chunks_exact_mut(place.whole).zip(from.chunks_exact(place.own)) {
        to[place.at..place.at + place.own].copy_from_slice(from);
    }
}
