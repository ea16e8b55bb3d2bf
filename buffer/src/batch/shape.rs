use super::BatchError;

/// The element type of an observation column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObsKind {
    /// 32-bit floats.
    F32,
    /// Bytes, as pixels are.
    U8,
}

impl ObsKind {
    /// The element type's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::U8 => "u8",
        }
    }
}

/// The element type of an action column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActionKind {
    /// Indices of discrete choices.
    U32,
    /// Continuous actions.
    F32,
}

impl ActionKind {
    /// The element type's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::U32 => "u32",
            Self::F32 => "f32",
        }
    }
}

/// The sizes of a [`SampleBatch`](crate::SampleBatch): `T` steps of `B` columns, and the lengths of their rows.
///
/// ```
/// use pronk_buffer::{ActionKind, BatchShape, ObsKind};
///
/// let cartpole = BatchShape {
///     steps: 32,
///     columns: 8,
///     obs_len: 4,
///     obs_kind: ObsKind::F32,
///     act_len: 1,
///     act_kind: ActionKind::U32,
///     dist_len: 2,
///     state_len: 0,
/// };
/// assert!(cartpole.check().is_ok());
/// assert_eq!(cartpole.agent_steps(), 256);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchShape {
    /// `T`, the steps of every column.
    pub steps: usize,
    /// `B`, the environments (or agents of them) side by side.
    pub columns: usize,
    /// Elements of one observation.
    pub obs_len: usize,
    /// Element type of observations.
    pub obs_kind: ObsKind,
    /// Elements of one action.
    pub act_len: usize,
    /// Element type of actions.
    pub act_kind: ActionKind,
    /// Inputs of the action distribution for one step (logits, or means and log standard deviations).
    pub dist_len: usize,
    /// Elements of one recurrent state; 0 for a network without memory.
    pub state_len: usize,
}

impl BatchShape {
    /// Refuses sizes of which no batch can be made. Call it once where the sizes are read.
    ///
    /// # Errors
    /// [`BatchError::ZeroSize`] names the size that is 0, [`BatchError::TooLarge`] a batch that no memory can hold.
    pub fn check(&self) -> Result<(), BatchError> {
        let sizes = [
            ("steps", self.steps),
            ("columns", self.columns),
            ("obs_len", self.obs_len),
            ("act_len", self.act_len),
            ("dist_len", self.dist_len),
        ];
        if let Some((what, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(BatchError::ZeroSize { what, shape: *self });
        }
        // The longest column is `[T+1, B, longest row]`; four bytes an element must stay addressable, and `t` and `b`
        // are kept as u32 beside final observations.
        let longest = self.obs_len.max(self.act_len).max(self.dist_len).max(self.state_len);
        let fits = self
            .steps
            .checked_add(1)
            .and_then(|rows| rows.checked_mul(self.columns))
            .and_then(|cells| cells.checked_mul(longest))
            .is_some_and(|elements| elements <= isize::MAX as usize / 4);
        let indexable = u32::try_from(self.steps).is_ok() && u32::try_from(self.columns).is_ok();
        if fits && indexable { Ok(()) } else { Err(BatchError::TooLarge { shape: *self }) }
    }

    /// `T * B`: every column is one agent.
    pub fn agent_steps(&self) -> u64 {
        self.cells() as u64
    }

    pub(crate) fn cells(&self) -> usize {
        self.steps * self.columns
    }

    pub(crate) fn cells_and_last(&self) -> usize {
        (self.steps + 1) * self.columns
    }

    /// The same shape with another number of columns.
    pub(crate) fn with_columns(self, columns: usize) -> Self {
        Self { columns, ..self }
    }
}
