//! Copies between columns; different element types or lengths are an error.

use super::columns::{ActionColumn, ActionView, ActionViewMut};
use super::error::BatchError;
use super::observations::{ObsColumn, ObsView, ObsViewMut};

impl ObsViewMut<'_> {
    /// Copies observations into this view.
    ///
    /// # Errors
    /// Different element types or lengths.
    #[inline]
    pub fn copy_from(self, from: ObsView<'_>) -> Result<(), BatchError> {
        match (self, from) {
            (Self::F32(to), ObsView::F32(from)) => copy("obs", from, to),
            (Self::U8(to), ObsView::U8(from)) => copy("obs", from, to),
            (to, from) => Err(BatchError::wrong_kind("obs", to.as_view().kind().name(), from.kind().name())),
        }
    }
}

impl ObsColumn {
    /// Appends observations; an empty column takes on their element type.
    ///
    /// # Errors
    /// An element type other than the column's.
    #[inline]
    pub fn append(&mut self, from: ObsView<'_>) -> Result<(), BatchError> {
        match (&mut *self, from) {
            (Self::F32(to), ObsView::F32(from)) => to.extend_from_slice(from),
            (Self::U8(to), ObsView::U8(from)) => to.extend_from_slice(from),
            (to, ObsView::F32(from)) if to.view().is_empty() => *to = Self::F32(from.to_vec()),
            (to, ObsView::U8(from)) if to.view().is_empty() => *to = Self::U8(from.to_vec()),
            (to, from) => return Err(BatchError::wrong_kind("obs", to.view().kind().name(), from.kind().name())),
        }
        Ok(())
    }

    /// Truncates the column or extends it with zeros.
    pub fn resize(&mut self, len: usize) {
        match self {
            Self::F32(values) => values.resize(len, 0.0),
            Self::U8(values) => values.resize(len, 0),
        }
    }
}

impl ActionViewMut<'_> {
    /// Copies actions into this view.
    ///
    /// # Errors
    /// Different element types or lengths.
    #[inline]
    pub fn copy_from(self, from: ActionView<'_>) -> Result<(), BatchError> {
        match (self, from) {
            (Self::U32(to), ActionView::U32(from)) => copy("actions", from, to),
            (Self::F32(to), ActionView::F32(from)) => copy("actions", from, to),
            (to, from) => Err(BatchError::wrong_kind("actions", to.as_view().kind().name(), from.kind().name())),
        }
    }
}

impl ActionColumn {
    /// Appends actions; an empty column takes on their element type.
    ///
    /// # Errors
    /// An element type other than the column's.
    #[inline]
    pub fn append(&mut self, from: ActionView<'_>) -> Result<(), BatchError> {
        match (&mut *self, from) {
            (Self::U32(to), ActionView::U32(from)) => to.extend_from_slice(from),
            (Self::F32(to), ActionView::F32(from)) => to.extend_from_slice(from),
            (to, ActionView::U32(from)) if to.view().is_empty() => *to = Self::U32(from.to_vec()),
            (to, ActionView::F32(from)) if to.view().is_empty() => *to = Self::F32(from.to_vec()),
            (to, from) => return Err(BatchError::wrong_kind("actions", to.view().kind().name(), from.kind().name())),
        }
        Ok(())
    }

    /// Truncates the column or extends it with zeros.
    pub fn resize(&mut self, len: usize) {
        match self {
            Self::U32(values) => values.resize(len, 0),
            Self::F32(values) => values.resize(len, 0.0),
        }
    }
}

#[inline]
fn copy<T: Copy>(column: &'static str, from: &[T], to: &mut [T]) -> Result<(), BatchError> {
    if from.len() != to.len() {
        return Err(BatchError::WrongLength { column, expected: to.len().to_string(), got: from.len() });
    }
    to.copy_from_slice(from);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_an_error_and_copies_nothing() {
        let mut floats = [1.0_f32, 2.0];
        assert!(ObsViewMut::F32(&mut floats).copy_from(ObsView::U8(&[7, 8])).is_err());
        assert!(ObsViewMut::F32(&mut floats).copy_from(ObsView::F32(&[7.0])).is_err());
        assert_eq!(floats, [1.0, 2.0]);
        ObsViewMut::F32(&mut floats).copy_from(ObsView::F32(&[7.0, 8.0])).unwrap();
        assert_eq!(floats, [7.0, 8.0]);

        let mut indices = [1_u32];
        let error = ActionViewMut::U32(&mut indices).copy_from(ActionView::F32(&[0.5])).unwrap_err();
        assert_eq!(error.to_string(), "column `actions` must hold u32, got f32");
    }

    #[test]
    fn an_empty_column_takes_the_element_type_of_what_is_appended() {
        let mut column = ObsColumn::F32(Vec::new());
        column.append(ObsView::U8(&[1, 2])).unwrap();
        column.append(ObsView::U8(&[3])).unwrap();
        assert_eq!(column, ObsColumn::U8(vec![1, 2, 3]));
        assert!(column.append(ObsView::F32(&[0.5])).is_err());
    }
}
