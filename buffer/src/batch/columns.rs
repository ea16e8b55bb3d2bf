use serde::{Deserialize, Serialize};

use super::end::End;
use super::{ActionKind, BatchError, BatchShape, FinalObs, ObsColumn, ObsKind};

/// Actions in the element type of their space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ActionColumn {
    /// Discrete and multi-discrete.
    U32(Vec<u32>),
    /// Continuous.
    F32(Vec<f32>),
}

impl ActionColumn {
    /// `len` zeros.
    pub fn zeros(kind: ActionKind, len: usize) -> Self {
        match kind {
            ActionKind::U32 => Self::U32(vec![0; len]),
            ActionKind::F32 => Self::F32(vec![0.0; len]),
        }
    }

    /// All elements, read only.
    pub fn view(&self) -> ActionView<'_> {
        match self {
            Self::U32(values) => ActionView::U32(values),
            Self::F32(values) => ActionView::F32(values),
        }
    }

    /// All elements, to be written in place.
    pub fn view_mut(&mut self) -> ActionViewMut<'_> {
        match self {
            Self::U32(values) => ActionViewMut::U32(values),
            Self::F32(values) => ActionViewMut::F32(values),
        }
    }
}

impl Default for ActionColumn {
    fn default() -> Self {
        Self::U32(Vec::new())
    }
}

/// Borrowed actions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ActionView<'a> {
    /// Discrete and multi-discrete.
    U32(&'a [u32]),
    /// Continuous.
    F32(&'a [f32]),
}

impl<'a> ActionView<'a> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::U32(values) => values.len(),
            Self::F32(values) => values.len(),
        }
    }

    /// True without elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type.
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::U32(_) => ActionKind::U32,
            Self::F32(_) => ActionKind::F32,
        }
    }

    /// Row `i` of rows of `len` elements; panics if there is none.
    pub fn row(&self, i: usize, len: usize) -> ActionView<'a> {
        match *self {
            Self::U32(values) => ActionView::U32(&values[i * len..(i + 1) * len]),
            Self::F32(values) => ActionView::F32(&values[i * len..(i + 1) * len]),
        }
    }
}

/// Mutably borrowed actions; their number is fixed.
#[derive(Debug, PartialEq)]
pub enum ActionViewMut<'a> {
    /// Discrete and multi-discrete.
    U32(&'a mut [u32]),
    /// Continuous.
    F32(&'a mut [f32]),
}

impl<'a> ActionViewMut<'a> {
    /// Borrows again, for a shorter time.
    pub fn reborrow(&mut self) -> ActionViewMut<'_> {
        match self {
            Self::U32(values) => ActionViewMut::U32(values),
            Self::F32(values) => ActionViewMut::F32(values),
        }
    }

    /// The same actions, read only.
    pub fn as_view(&self) -> ActionView<'_> {
        match self {
            Self::U32(values) => ActionView::U32(values),
            Self::F32(values) => ActionView::F32(values),
        }
    }

    /// Row `i` of rows of `len` elements; panics if there is none.
    pub fn into_row(self, i: usize, len: usize) -> ActionViewMut<'a> {
        match self {
            Self::U32(values) => ActionViewMut::U32(&mut values[i * len..(i + 1) * len]),
            Self::F32(values) => ActionViewMut::F32(&mut values[i * len..(i + 1) * len]),
        }
    }
}

/// The columns of a batch as plain vectors, not yet checked.
///
/// *Shapes*: time-major, `T` steps of `B` columns, rows contiguous.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// `[T+1, B, obs_len]`; row `T` follows the last step.
    pub obs: ObsColumn,
    /// `[T, B, act_len]`.
    pub actions: ActionColumn,
    /// `[T, B]`.
    pub rewards: Vec<f32>,
    /// `[T, B]`.
    pub ends: Vec<End>,
    /// Sparse: an entry for each truncated end; terminated ends may have one.
    pub final_obs: FinalObs,
    /// `[T, B]`: log-probability of the action under the behaviour policy.
    pub behaviour_logp: Vec<f32>,
    /// `[T, B, dist_len]`: inputs of its action distribution.
    pub behaviour_inputs: Vec<f32>,
    /// `[T+1, B]`: its value estimates.
    pub behaviour_values: Vec<f32>,
    /// `[B, state_len]`: recurrent state at `t = 0`.
    pub state_in: Vec<f32>,
    /// `[T, B]`: version of the weights that chose each action.
    pub versions: Vec<u64>,
}

impl Columns {
    /// Zeros of the right lengths.
    pub fn zeros(shape: &BatchShape) -> Self {
        let obs = ObsColumn::zeros(shape.obs_kind, shape.cells_and_last() * shape.obs_len);
        Self { obs, ..Self::without_obs(shape) }
    }

    /// The same without observations.
    pub(crate) fn without_obs(shape: &BatchShape) -> Self {
        Self {
            obs: ObsColumn::zeros(shape.obs_kind, 0),
            actions: ActionColumn::zeros(shape.act_kind, shape.cells() * shape.act_len),
            rewards: vec![0.0; shape.cells()],
            ends: vec![End::No; shape.cells()],
            final_obs: FinalObs::new(shape.obs_kind, shape.obs_len),
            behaviour_logp: vec![0.0; shape.cells()],
            behaviour_inputs: vec![0.0; shape.cells() * shape.dist_len],
            behaviour_values: vec![0.0; shape.cells_and_last()],
            state_in: vec![0.0; shape.columns * shape.state_len],
            versions: vec![0; shape.cells()],
        }
    }

    /// Resizes every column but the observations to the shape, in place. Row lengths and types stay.
    pub(crate) fn resize(&mut self, shape: &BatchShape) {
        match &mut self.actions {
            ActionColumn::U32(actions) => actions.resize(shape.cells() * shape.act_len, 0),
            ActionColumn::F32(actions) => actions.resize(shape.cells() * shape.act_len, 0.0),
        }
        self.rewards.resize(shape.cells(), 0.0);
        self.ends.resize(shape.cells(), End::No);
        self.behaviour_logp.resize(shape.cells(), 0.0);
        self.behaviour_inputs.resize(shape.cells() * shape.dist_len, 0.0);
        self.behaviour_values.resize(shape.cells_and_last(), 0.0);
        self.state_in.resize(shape.columns * shape.state_len, 0.0);
        self.versions.resize(shape.cells(), 0);
    }

    /// Checks every length and element type against the shape.
    pub(super) fn check_lengths(&self, shape: &BatchShape) -> Result<(), BatchError> {
        let BatchShape { steps: t, columns: b, obs_len, act_len, dist_len, state_len, .. } = *shape;
        let t1 = t + 1;
        check_length("obs", self.obs.view().len(), &[("T+1", t1), ("B", b), ("obs_len", obs_len)])?;
        check_length("actions", self.actions.view().len(), &[("T", t), ("B", b), ("act_len", act_len)])?;
        check_length("rewards", self.rewards.len(), &[("T", t), ("B", b)])?;
        check_length("ends", self.ends.len(), &[("T", t), ("B", b)])?;
        self.final_obs.check(shape.obs_kind, obs_len)?;
        check_length("behaviour_logp", self.behaviour_logp.len(), &[("T", t), ("B", b)])?;
        let inputs = [("T", t), ("B", b), ("dist_len", dist_len)];
        check_length("behaviour_inputs", self.behaviour_inputs.len(), &inputs)?;
        check_length("behaviour_values", self.behaviour_values.len(), &[("T+1", t1), ("B", b)])?;
        check_length("state_in", self.state_in.len(), &[("B", b), ("state_len", state_len)])?;
        check_length("versions", self.versions.len(), &[("T", t), ("B", b)])?;

        check_kind("obs", self.obs.view().kind(), shape.obs_kind)?;
        let got = self.actions.view().kind();
        if got != shape.act_kind {
            return Err(BatchError::WrongKind { column: "actions", expected: shape.act_kind.name(), got: got.name() });
        }
        Ok(())
    }
}

impl FinalObs {
    /// Checks that each entry has a row of `obs_len` elements of a type: those of a file need not.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, kind: ObsKind, obs_len: usize) -> Result<(), BatchError> {
        check_length("final_obs", self.obs_len(), &[("obs_len", obs_len)])?;
        check_length("final_obs", self.rows().view().len(), &[("entries", self.len()), ("obs_len", obs_len)])?;
        check_kind("final_obs", self.rows().view().kind(), kind)
    }
}

fn check_kind(column: &'static str, got: ObsKind, expected: ObsKind) -> Result<(), BatchError> {
    match got == expected {
        true => Ok(()),
        false => Err(BatchError::WrongKind { column, expected: expected.name(), got: got.name() }),
    }
}

/// `sizes` are the expected dimensions with their names for the error.
fn check_length(column: &'static str, got: usize, sizes: &[(&str, usize)]) -> Result<(), BatchError> {
    let expected: usize = sizes.iter().map(|(_, size)| size).product();
    if got == expected {
        return Ok(());
    }
    let dimensions: Vec<String> = sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
    let expected = format!("[{}] = {expected}", dimensions.join(", "));
    Err(BatchError::WrongLength { column, expected, got })
}
