use std::ops::Range;

use super::{ObsColumn, ObsKind, ObsView};

/// Rows of observations, `[rows, obs_len]`: one after another, or with elements in common, as neighbouring
/// stacks of frames have (see [`SampleBatch::share_rows`](crate::SampleBatch::share_rows)). Every row is
/// contiguous, so what reads row by row reads both.
///
/// ```
/// use pronk_buffer::{ActionKind, BatchShape, ObsKind, ObsView, Pool, SampleBatch, Tag};
///
/// let shape = BatchShape {
///     steps: 2,
///     columns: 1,
///     obs_len: 3,
///     obs_kind: ObsKind::U8,
///     act_len: 1,
///     act_kind: ActionKind::U32,
///     dist_len: 2,
///     state_len: 0,
/// };
/// let mut batch = SampleBatch::blank(shape, Tag::default());
/// batch.obs_mut().copy_from(ObsView::U8(&[1, 2, 3, /**/ 2, 3, 4, /**/ 3, 4, 5]))?;
/// batch.share_rows(1, &Pool::new(1));
/// assert_eq!(batch.obs().row(1), ObsView::U8(&[2, 3, 4]));
/// assert_eq!(batch.obs().shared(), Some((ObsView::U8(&[1, 2, 3, 4, 5]), &[0, 1, 2][..])));
/// # Ok::<(), pronk_buffer::BatchError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ObsRows<'a> {
    elements: ObsView<'a>,
    /// Where each row begins; `None` if one follows another.
    starts: Option<&'a [usize]>,
    len: usize,
}

impl<'a> ObsRows<'a> {
    /// Every start must leave `len` elements.
    pub(super) fn new(elements: ObsView<'a>, starts: Option<&'a [usize]>, len: usize) -> Self {
        Self { elements, starts, len }
    }

    /// The number of rows.
    pub fn count(&self) -> usize {
        self.starts.map_or(self.elements.len() / self.len, <[_]>::len)
    }

    /// The element type.
    pub fn kind(&self) -> ObsKind {
        self.elements.kind()
    }

    /// Row `i`; panics if there is none.
    pub fn row(&self, i: usize) -> ObsView<'a> {
        let start = self.starts.map_or(i * self.len, |starts| starts[i]);
        self.elements.range(start..start + self.len)
    }

    /// Some of the rows; panics if there are none of these numbers.
    pub fn rows(&self, rows: Range<usize>) -> Self {
        match self.starts {
            None => Self { elements: self.elements.range(rows.start * self.len..rows.end * self.len), ..*self },
            Some(starts) => Self { starts: Some(&starts[rows]), ..*self },
        }
    }

    /// All elements, if rows have none in common: one row after another.
    pub fn apart(&self) -> Option<ObsView<'a>> {
        self.starts.is_none().then_some(self.elements)
    }

    /// All elements, and where in them each row begins, if rows may have elements in common.
    pub fn shared(&self) -> Option<(ObsView<'a>, &'a [usize])> {
        Some((self.elements, self.starts?))
    }

    /// One row after another, in `room` if they are not yet.
    pub fn laid_apart<'b>(&self, room: &'b mut ObsColumn) -> ObsView<'b>
    where
        'a: 'b,
    {
        if let Some(elements) = self.apart() {
            return elements;
        }
        room.reset(self.kind());
        room.reserve(self.count() * self.len);
        for i in 0..self.count() {
            // Of the same type.
            let _ = room.append(self.row(i));
        }
        room.view()
    }

    /// All floats, one row after another; `None` if it holds bytes, or rows have elements in common.
    pub fn as_f32(&self) -> Option<&'a [f32]> {
        self.apart()?.as_f32()
    }

    /// All bytes, one row after another; `None` if it holds floats, or rows have elements in common, as those
    /// of stacks of frames have: read [`row`](Self::row) by row then.
    pub fn as_u8(&self) -> Option<&'a [u8]> {
        self.apart()?.as_u8()
    }
}

/// Equal rows, however they are stored.
impl PartialEq for ObsRows<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.count() == other.count() && (0..self.count()).all(|i| self.row(i) == other.row(i))
    }
}
