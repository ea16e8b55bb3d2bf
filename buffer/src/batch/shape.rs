use serde::{Deserialize, Serialize};

/// The element type of an observation column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// The sizes of a [`SampleBatch`](crate::SampleBatch).
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BatchShape {
    /// `T`: steps of every column.
    pub steps: usize,
    /// `B`: environments, or agents in them, side by side.
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
    /// Elements of one recurrent state; 0 for a feed-forward network.
    pub state_len: usize,
}

impl BatchShape {
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
