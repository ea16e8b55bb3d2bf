use pronk_buffer::{ActionKind, ActionView, BatchError, ObsKind, ObsView, ObsViewMut};
use pronk_policy::{ObsDtype, Space};

use super::error::EnvError;
use super::failure::EnvFailureCause;

/// The row that an environment writes its observation into: `[obs_len]`, in the element type of its space.
#[derive(Debug)]
pub enum ObsMut<'a> {
    /// A row of floats.
    F32(&'a mut [f32]),
    /// A row of bytes, such as an image.
    U8(&'a mut [u8]),
}

impl<'a> ObsMut<'a> {
    /// How many elements the row has.
    pub fn len(&self) -> usize {
        match self {
            ObsMut::F32(row) => row.len(),
            ObsMut::U8(row) => row.len(),
        }
    }

    /// Whether the row has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row, read only.
    pub(crate) fn as_view(&self) -> ObsView<'_> {
        match self {
            ObsMut::F32(row) => ObsView::F32(row),
            ObsMut::U8(row) => ObsView::U8(row),
        }
    }

    /// The row as floats. An error if the observation space has bytes.
    #[inline]
    pub fn f32(self) -> Result<&'a mut [f32], EnvError> {
        match self {
            ObsMut::F32(row) => Ok(row),
            ObsMut::U8(_) => {
                Err(EnvError::new("the environment writes f32 observations but its space has u8 elements"))
            }
        }
    }

    /// The row as bytes. An error if the observation space has floats.
    #[inline]
    pub fn u8(self) -> Result<&'a mut [u8], EnvError> {
        match self {
            ObsMut::U8(row) => Ok(row),
            ObsMut::F32(_) => {
                Err(EnvError::new("the environment writes u8 observations but its space has f32 elements"))
            }
        }
    }

    /// Writes a whole observation of floats. An error if the space has bytes or another length.
    #[inline]
    pub fn write(self, values: &[f32]) -> Result<(), EnvError> {
        let row = self.f32()?;
        if row.len() != values.len() {
            return Err(EnvError::new(format!(
                "the environment writes {} observation values but its space has {}",
                values.len(),
                row.len()
            )));
        }
        row.copy_from_slice(values);
        Ok(())
    }

    /// The same row, borrowed for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> ObsMut<'_> {
        match self {
            ObsMut::F32(row) => ObsMut::F32(row),
            ObsMut::U8(row) => ObsMut::U8(row),
        }
    }

    /// `len` elements from `start`; panics if there are fewer.
    #[inline]
    pub fn part(&mut self, start: usize, len: usize) -> ObsMut<'_> {
        match self {
            ObsMut::F32(all) => ObsMut::F32(&mut all[start..start + len]),
            ObsMut::U8(all) => ObsMut::U8(&mut all[start..start + len]),
        }
    }

    /// Copies observations here.
    /// Errors: another element type, or another number of elements.
    pub(crate) fn copy_from(self, from: ObsView<'_>) -> Result<(), BatchError> {
        match self {
            ObsMut::F32(row) => ObsViewMut::F32(row).copy_from(from),
            ObsMut::U8(row) => ObsViewMut::U8(row).copy_from(from),
        }
    }

    /// [`EnvFailureCause::NonFiniteObservation`] of the first element that is NaN or infinite, if any.
    #[inline]
    pub fn check_finite(&self) -> Result<(), EnvFailureCause> {
        match self {
            ObsMut::F32(row) => check_finite(row),
            ObsMut::U8(_) => Ok(()),
        }
    }
}

impl<'a> From<ObsViewMut<'a>> for ObsMut<'a> {
    fn from(rows: ObsViewMut<'a>) -> Self {
        match rows {
            ObsViewMut::F32(rows) => ObsMut::F32(rows),
            ObsViewMut::U8(rows) => ObsMut::U8(rows),
        }
    }
}

/// Whether every element of an observation is finite.
#[inline]
pub(crate) fn check_finite(row: &[f32]) -> Result<(), EnvFailureCause> {
    match first_non_finite(row) {
        None => Ok(()),
        Some((element, value)) => Err(EnvFailureCause::NonFiniteObservation { element, value }),
    }
}

/// The first non-finite value, with its index. The scan has no early exit, so that it vectorises.
#[inline]
pub(crate) fn first_non_finite(values: &[f32]) -> Option<(usize, f32)> {
    if values.iter().fold(true, |finite, value| finite & value.is_finite()) {
        return None;
    }
    values.iter().enumerate().find(|(_, value)| !value.is_finite()).map(|(element, value)| (element, *value))
}

/// The action that an environment takes: `[act_len]` of its action space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ActionRef<'a> {
    /// The chosen index of each discrete part.
    Discrete(&'a [u32]),
    /// The value of each continuous part.
    Continuous(&'a [f32]),
}

impl<'a> ActionRef<'a> {
    /// The number of its components.
    pub fn len(self) -> usize {
        match self {
            ActionRef::Discrete(indices) => indices.len(),
            ActionRef::Continuous(values) => values.len(),
        }
    }

    /// Whether it has no component.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The index chosen from a [`Space::Discrete`]. An error for another action space.
    #[inline]
    pub fn discrete(self) -> Result<u32, EnvError> {
        match self {
            ActionRef::Discrete([index]) => Ok(*index),
            other => Err(EnvError::new(format!("the environment expects one discrete action, got {other:?}"))),
        }
    }

    /// The values chosen from a [`Space::Box`]. An error for another action space.
    #[inline]
    pub fn continuous(self) -> Result<&'a [f32], EnvError> {
        match self {
            ActionRef::Continuous(values) => Ok(values),
            other => Err(EnvError::new(format!("the environment expects continuous actions, got {other:?}"))),
        }
    }

    /// The action as a view of a batch.
    pub fn view(self) -> ActionView<'a> {
        match self {
            ActionRef::Discrete(indices) => ActionView::U32(indices),
            ActionRef::Continuous(numbers) => ActionView::F32(numbers),
        }
    }

    /// `len` components from `start`.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn part(self, start: usize, len: usize) -> ActionRef<'a> {
        match self {
            ActionRef::Discrete(all) => ActionRef::Discrete(&all[start..start + len]),
            ActionRef::Continuous(all) => ActionRef::Continuous(&all[start..start + len]),
        }
    }
}

impl<'a> From<ActionView<'a>> for ActionRef<'a> {
    fn from(actions: ActionView<'a>) -> Self {
        match actions {
            ActionView::U32(actions) => ActionRef::Discrete(actions),
            ActionView::F32(actions) => ActionRef::Continuous(actions),
        }
    }
}

/// The element type of columns of such observations.
pub(crate) fn obs_kind(observation: &Space) -> ObsKind {
    match observation.obs_dtype() {
        ObsDtype::F32 => ObsKind::F32,
        ObsDtype::U8 => ObsKind::U8,
    }
}

/// The element type of columns of such actions.
pub(crate) fn act_kind(action: &Space) -> ActionKind {
    if action.has_discrete_actions() { ActionKind::U32 } else { ActionKind::F32 }
}
