use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{BatchError, ObsKind};

/// Observations in the element type of their space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ObsColumn {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// Bytes, as pixels are.
    U8(Vec<u8>),
}

impl ObsColumn {
    /// `len` zeros.
    pub fn zeros(kind: ObsKind, len: usize) -> Self {
        match kind {
            ObsKind::F32 => Self::F32(vec![0.0; len]),
            ObsKind::U8 => Self::U8(vec![0; len]),
        }
    }

    /// Becomes empty, in the same memory if it has this type already.
    pub fn reset(&mut self, kind: ObsKind) {
        match (&mut *self, kind) {
            (Self::F32(values), ObsKind::F32) => values.clear(),
            (Self::U8(values), ObsKind::U8) => values.clear(),
            (column, kind) => *column = Self::zeros(kind, 0),
        }
    }

    /// Makes room for as many elements more.
    pub(super) fn reserve(&mut self, len: usize) {
        match self {
            Self::F32(values) => values.reserve(len),
            Self::U8(values) => values.reserve(len),
        }
    }

    /// All elements, read only.
    pub fn view(&self) -> ObsView<'_> {
        match self {
            Self::F32(values) => ObsView::F32(values),
            Self::U8(values) => ObsView::U8(values),
        }
    }

    /// All elements, to be written in place.
    pub fn view_mut(&mut self) -> ObsViewMut<'_> {
        match self {
            Self::F32(values) => ObsViewMut::F32(values),
            Self::U8(values) => ObsViewMut::U8(values),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::F32(values) => values.clear(),
            Self::U8(values) => values.clear(),
        }
    }
}

impl Default for ObsColumn {
    fn default() -> Self {
        Self::F32(Vec::new())
    }
}

/// Borrowed observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ObsView<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// Bytes.
    U8(&'a [u8]),
}

impl<'a> ObsView<'a> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::U8(values) => values.len(),
        }
    }

    /// True without elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type.
    pub fn kind(&self) -> ObsKind {
        match self {
            Self::F32(_) => ObsKind::F32,
            Self::U8(_) => ObsKind::U8,
        }
    }

    /// The floats, if it holds floats.
    pub fn as_f32(&self) -> Option<&'a [f32]> {
        match *self {
            Self::F32(values) => Some(values),
            Self::U8(_) => None,
        }
    }

    /// The bytes, if it holds bytes.
    pub fn as_u8(&self) -> Option<&'a [u8]> {
        match *self {
            Self::U8(values) => Some(values),
            Self::F32(_) => None,
        }
    }

    /// Row `i` of rows of `len` elements; panics if there is none.
    pub fn row(&self, i: usize, len: usize) -> ObsView<'a> {
        self.range(i * len..(i + 1) * len)
    }

    /// Some of the elements; panics if there are none.
    pub(crate) fn range(&self, elements: Range<usize>) -> ObsView<'a> {
        match *self {
            Self::F32(values) => ObsView::F32(&values[elements]),
            Self::U8(values) => ObsView::U8(&values[elements]),
        }
    }
}

impl<'a> From<&'a [f32]> for ObsView<'a> {
    fn from(values: &'a [f32]) -> Self {
        Self::F32(values)
    }
}

impl<'a> From<&'a [u8]> for ObsView<'a> {
    fn from(values: &'a [u8]) -> Self {
        Self::U8(values)
    }
}

/// Mutably borrowed observations; their number is fixed.
#[derive(Debug, PartialEq)]
pub enum ObsViewMut<'a> {
    /// 32-bit floats.
    F32(&'a mut [f32]),
    /// Bytes.
    U8(&'a mut [u8]),
}

impl<'a> ObsViewMut<'a> {
    /// Borrows again, for a shorter time.
    pub fn reborrow(&mut self) -> ObsViewMut<'_> {
        match self {
            Self::F32(values) => ObsViewMut::F32(values),
            Self::U8(values) => ObsViewMut::U8(values),
        }
    }

    /// The same observations, read only.
    pub fn as_view(&self) -> ObsView<'_> {
        match self {
            Self::F32(values) => ObsView::F32(values),
            Self::U8(values) => ObsView::U8(values),
        }
    }

    /// The floats, if it holds floats.
    pub fn into_f32(self) -> Option<&'a mut [f32]> {
        match self {
            Self::F32(values) => Some(values),
            Self::U8(_) => None,
        }
    }

    /// Row `i` of rows of `len` elements; panics if there is none.
    pub fn into_row(self, i: usize, len: usize) -> ObsViewMut<'a> {
        match self {
            Self::F32(values) => ObsViewMut::F32(&mut values[i * len..(i + 1) * len]),
            Self::U8(values) => ObsViewMut::U8(&mut values[i * len..(i + 1) * len]),
        }
    }
}

/// The final observations of episodes that ended inside a batch: the next row of `obs` already belongs to the
/// next episode.
///
/// *Shapes*: row `i` of [`rows`](Self::rows) is the observation that followed step `t` of column `b`, where
/// `(t, b) = index()[i]`, in order of insertion.
///
/// ```
/// use pronk_buffer::{FinalObs, ObsKind, ObsView};
///
/// let mut finals = FinalObs::new(ObsKind::F32, 2);
/// finals.push(3, 0, &[0.5_f32, -0.5][..])?;
/// assert_eq!(finals.index(), &[(3, 0)]);
/// assert_eq!(finals.get(3, 0), Some(ObsView::F32(&[0.5, -0.5])));
/// # Ok::<(), pronk_buffer::BatchError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FinalObs {
    rows: ObsColumn,
    index: Vec<(u32, u32)>,
    obs_len: usize,
}

impl FinalObs {
    /// Empty, for observations of `obs_len` elements.
    pub fn new(kind: ObsKind, obs_len: usize) -> Self {
        Self { rows: ObsColumn::zeros(kind, 0), index: Vec::new(), obs_len }
    }

    /// Adds the observation that followed step `t` of column `b`.
    ///
    /// # Errors
    /// A row of another length or element type, or a `t` or `b` beyond 32 bits.
    /// [`SampleBatch::check_ends`](crate::SampleBatch::check_ends) checks the place.
    pub fn push<'a>(&mut self, t: usize, b: usize, row: impl Into<ObsView<'a>>) -> Result<(), BatchError> {
        let row = row.into();
        if row.len() != self.obs_len {
            return Err(BatchError::WrongLength {
                column: "final_obs",
                expected: format!("[obs_len={}] a row", self.obs_len),
                got: row.len(),
            });
        }
        let (Ok(step), Ok(column)) = (u32::try_from(t), u32::try_from(b)) else {
            return Err(BatchError::MisplacedFinalObs { t, b, why: "which is outside any batch" });
        };
        match (&mut self.rows, row) {
            (ObsColumn::F32(rows), ObsView::F32(row)) => rows.extend_from_slice(row),
            (ObsColumn::U8(rows), ObsView::U8(row)) => rows.extend_from_slice(row),
            (rows, row) => {
                return Err(BatchError::WrongKind {
                    column: "final_obs",
                    expected: rows.view().kind().name(),
                    got: row.kind().name(),
                });
            }
        }
        self.index.push((step, column));
        Ok(())
    }

    /// Adds a row of zeros for each of the places `(t, b)` and returns these rows, `[places, obs_len]`, to be
    /// written in place. [`SampleBatch::check_ends`](crate::SampleBatch::check_ends) checks the places.
    pub fn push_blank(&mut self, places: &[(u32, u32)]) -> ObsViewMut<'_> {
        self.index.extend_from_slice(places);
        let len = self.index.len() * self.obs_len;
        self.rows.resize(len);
        let first = len - places.len() * self.obs_len;
        match &mut self.rows {
            ObsColumn::F32(rows) => ObsViewMut::F32(&mut rows[first..]),
            ObsColumn::U8(rows) => ObsViewMut::U8(&mut rows[first..]),
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Elements of one observation.
    pub fn obs_len(&self) -> usize {
        self.obs_len
    }

    /// The observations, a row for each entry.
    pub fn rows(&self) -> &ObsColumn {
        &self.rows
    }

    /// The observations, to be rewritten in place.
    pub fn rows_mut(&mut self) -> ObsViewMut<'_> {
        self.rows.view_mut()
    }

    /// `(t, b)` of every entry.
    pub fn index(&self) -> &[(u32, u32)] {
        &self.index
    }

    /// `(t, b, observation)` of every entry.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, ObsView<'_>)> {
        let rows = self.rows.view();
        self.index.iter().enumerate().map(move |(i, &(t, b))| (t, b, rows.row(i, self.obs_len)))
    }

    /// The observation that followed step `t` of column `b`, if there is one.
    pub fn get(&self, t: usize, b: usize) -> Option<ObsView<'_>> {
        let entry = self.index.iter().position(|&(step, column)| (step as usize, column as usize) == (t, b))?;
        Some(self.rows.view().row(entry, self.obs_len))
    }

    /// Removes all entries and keeps the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.index.clear();
    }

    /// Appends the entries of a batch whose columns begin at `first_column` of this one.
    pub(super) fn append(&mut self, part: &FinalObs, first_column: usize) {
        match (&mut self.rows, &part.rows) {
            (ObsColumn::F32(rows), ObsColumn::F32(more)) => rows.extend_from_slice(more),
            (ObsColumn::U8(rows), ObsColumn::U8(more)) => rows.extend_from_slice(more),
            _ => return,
        }
        self.index.extend(part.index.iter().map(|&(t, b)| (t, b + first_column as u32)));
    }
}
