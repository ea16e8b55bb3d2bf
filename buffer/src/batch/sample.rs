use std::{fmt, mem};

use serde::{Deserialize, Serialize, Serializer};

use super::tag::Tag;
use super::{
    ActionKind, ActionView, ActionViewMut, BatchError, BatchShape, Columns, End, FinalObs, ObsColumn, ObsRows, ObsView,
    ObsViewMut,
};
use crate::Pool;
use crate::pool::{Rows, Storage};

/// `T` steps of `B` columns, time-major.
///
/// Every length is checked once and then fixed: the accessors return slices, and rows of observations. A
/// batch from a [`Pool`] returns its storage when it is dropped.
///
/// *Shapes*: as the fields of [`Columns`].
///
/// ```
/// use pronk_buffer::{ActionKind, BatchShape, ObsKind, SampleBatch, Tag};
///
/// let shape = BatchShape {
///     steps: 2,
///     columns: 3,
///     obs_len: 4,
///     obs_kind: ObsKind::F32,
///     act_len: 1,
///     act_kind: ActionKind::U32,
///     dist_len: 2,
///     state_len: 0,
/// };
/// let mut batch = SampleBatch::blank(shape, Tag { worker: 1, ..Tag::default() });
/// let step = batch.step_mut(0); // everything step 0 reads and writes
/// step.rewards[2] = 1.0;
/// assert_eq!(batch.rewards(), &[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
/// assert_eq!(batch.steps(), 6);
/// ```
#[derive(Clone, Deserialize)]
#[serde(try_from = "Stored<Columns, Vec<Tag>>")]
pub struct SampleBatch {
    shape: BatchShape,
    columns: Columns,
    /// `[T+1, B]`: where each row of `columns.obs` begins, if rows may have elements in common; empty if one
    /// follows another.
    obs_starts: Vec<usize>,
    tags: Vec<Tag>,
    home: Option<Pool>,
}

/// A batch in a file: observations one after another, and not yet checked, as it may come from another
/// program.
#[derive(Serialize, Deserialize)]
struct Stored<C, T> {
    shape: BatchShape,
    columns: C,
    tags: T,
}

impl Serialize for SampleBatch {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (shape, tags) = (self.shape, self.tags.as_slice());
        if self.shares_rows() {
            let mut apart = self.clone();
            apart.lay_apart();
            return Stored { shape, columns: &apart.columns, tags }.serialize(to);
        }
        Stored { shape, columns: &self.columns, tags }.serialize(to)
    }
}

impl TryFrom<Stored<Columns, Vec<Tag>>> for SampleBatch {
    type Error = BatchError;

    fn try_from(Stored { shape, columns, tags }: Stored<Columns, Vec<Tag>>) -> Result<Self, BatchError> {
        Self::new(shape, columns, tags)
    }
}

impl SampleBatch {
    /// Checks columns against the shape. `tags` name the fragments of the batch.
    ///
    /// # Errors
    /// A size of 0, a column of another length or element type, a truncated end without exactly one final
    /// observation, no tags, or more than columns.
    pub fn new(shape: BatchShape, columns: Columns, tags: Vec<Tag>) -> Result<Self, BatchError> {
        shape.check()?;
        columns.check_lengths(&shape)?;
        if tags.is_empty() || tags.len() > shape.columns {
            return Err(BatchError::WrongTags { got: tags.len(), columns: shape.columns });
        }
        let batch = Self { shape, columns, obs_starts: Vec::new(), tags, home: None };
        batch.check_ends()?;
        Ok(batch)
    }

    /// All zeros. The shape must have passed [`BatchShape::check`].
    pub fn blank(shape: BatchShape, tag: Tag) -> Self {
        Self { shape, columns: Columns::zeros(&shape), obs_starts: Vec::new(), tags: vec![tag], home: None }
    }

    /// From storage with stale contents, which returns to `home`.
    pub(crate) fn from_storage(shape: BatchShape, storage: Storage, home: Pool) -> Self {
        let Storage { columns, obs_starts, tags } = storage;
        Self { shape, columns, obs_starts, tags, home: Some(home) }
    }

    /// The sizes.
    pub fn shape(&self) -> &BatchShape {
        &self.shape
    }

    /// Agent-steps: `T * B`.
    pub fn steps(&self) -> u64 {
        self.shape.agent_steps()
    }

    /// The fragments of the batch, in the order of their columns.
    pub fn tags(&self) -> &[Tag] {
        &self.tags
    }

    /// Names the fragments of the batch, in the order of their columns.
    ///
    /// # Errors
    /// No tags, or more than columns; the batch keeps those that it has.
    pub fn set_tags(&mut self, tags: &[Tag]) -> Result<(), BatchError> {
        if tags.is_empty() || tags.len() > self.shape.columns {
            return Err(BatchError::WrongTags { got: tags.len(), columns: self.shape.columns });
        }
        self.tags.clear();
        self.tags.extend_from_slice(tags);
        Ok(())
    }

    /// Checks that every truncated end has exactly one final observation, and that there are no others.
    /// Writers call it once a fragment is complete.
    ///
    /// # Errors
    /// The first violation.
    pub fn check_ends(&self) -> Result<(), BatchError> {
        let (ends, finals) = (&self.columns.ends, &self.columns.final_obs);
        let mut places = finals.index().to_vec();
        places.sort_unstable();
        for (i, &(t, b)) in places.iter().enumerate() {
            let inside = (t as usize) < self.shape.steps && (b as usize) < self.shape.columns;
            let end = inside.then(|| ends[t as usize * self.shape.columns + b as usize]);
            let repeated = i > 0 && places[i - 1] == (t, b);
            if repeated || matches!(end, None | Some(End::No)) {
                return Err(BatchError::misplaced(t, b, end));
            }
        }
        for (cell, _) in ends.iter().enumerate().filter(|(_, end)| **end == End::Truncated) {
            let (t, b) = (cell / self.shape.columns, cell % self.shape.columns);
            if places.binary_search(&(t as u32, b as u32)).is_err() {
                return Err(BatchError::NoFinalObs { t, b });
            }
        }
        Ok(())
    }

    /// Checks that all numbers are finite. Logits may be −∞: those of masked actions.
    ///
    /// # Errors
    /// [`BatchError::NonFinite`] with the place of the first one.
    pub fn check_finite(&self) -> Result<(), BatchError> {
        let Self { shape, columns, .. } = self;
        let width = shape.columns;
        if let ObsView::F32(obs) = columns.obs.view() {
            check_column("obs", obs, shape.obs_len, width)?;
        }
        if let ObsView::F32(rows) = columns.final_obs.rows().view()
            && let Some(i) = first_non_finite(rows)
        {
            let (t, b) = columns.final_obs.index()[i / shape.obs_len];
            let (t, b) = (t as usize, b as usize);
            return Err(BatchError::NonFinite { column: "final_obs", t, b, value: rows[i] });
        }
        if let ActionView::F32(actions) = columns.actions.view() {
            check_column("actions", actions, shape.act_len, width)?;
        }
        check_column("rewards", &columns.rewards, 1, width)?;
        check_column("behaviour_logp", &columns.behaviour_logp, 1, width)?;
        match shape.act_kind {
            ActionKind::U32 => check_logits("behaviour_inputs", &columns.behaviour_inputs, shape.dist_len, width)?,
            ActionKind::F32 => check_column("behaviour_inputs", &columns.behaviour_inputs, shape.dist_len, width)?,
        }
        check_column("behaviour_values", &columns.behaviour_values, 1, width)?;
        check_column("state_in", &columns.state_in, shape.state_len, width)
    }

    /// `[T+1, B, obs_len]`: observations, that of step `t` and column `b` in row `t * B + b`; those of `t =
    /// T` follow the last step.
    pub fn obs(&self) -> ObsRows<'_> {
        let starts = (!self.obs_starts.is_empty()).then_some(self.obs_starts.as_slice());
        ObsRows::new(self.columns.obs.view(), starts, self.shape.obs_len)
    }

    /// `[B, obs_len]`: observations before step `t`, or after the last for `t = T`; panics if `t > T`.
    pub fn obs_row(&self, t: usize) -> ObsRows<'_> {
        self.obs().rows(t * self.shape.columns..(t + 1) * self.shape.columns)
    }

    /// `[T, B, act_len]`.
    pub fn actions(&self) -> ActionView<'_> {
        self.columns.actions.view()
    }

    /// `[T, B]`.
    pub fn rewards(&self) -> &[f32] {
        &self.columns.rewards
    }

    /// `[T, B]`.
    pub fn ends(&self) -> &[End] {
        &self.columns.ends
    }

    /// Final observations of truncated episodes.
    pub fn final_obs(&self) -> &FinalObs {
        &self.columns.final_obs
    }

    /// `[T, B]`.
    pub fn behaviour_logp(&self) -> &[f32] {
        &self.columns.behaviour_logp
    }

    /// `[T, B, dist_len]`.
    pub fn behaviour_inputs(&self) -> &[f32] {
        &self.columns.behaviour_inputs
    }

    /// `[T+1, B]`.
    pub fn behaviour_values(&self) -> &[f32] {
        &self.columns.behaviour_values
    }

    /// `[B, state_len]`.
    pub fn state_in(&self) -> &[f32] {
        &self.columns.state_in
    }

    /// `[T, B]`: version of the weights that chose each action.
    pub fn versions(&self) -> &[u64] {
        &self.columns.versions
    }

    /// All that step `t` reads and writes; panics if `t >= T`.
    pub fn step_mut(&mut self, t: usize) -> StepMut<'_> {
        self.lay_apart();
        let BatchShape { columns: width, obs_len, act_len, dist_len, .. } = self.shape;
        let cells = t * width..(t + 1) * width;
        let (obs, next_obs) = match &mut self.columns.obs {
            ObsColumn::F32(values) => {
                let (before, after) = values.split_at_mut((t + 1) * width * obs_len);
                let row = &before[t * width * obs_len..];
                (ObsView::F32(row), ObsViewMut::F32(&mut after[..width * obs_len]))
            }
            ObsColumn::U8(values) => {
                let (before, after) = values.split_at_mut((t + 1) * width * obs_len);
                let row = &before[t * width * obs_len..];
                (ObsView::U8(row), ObsViewMut::U8(&mut after[..width * obs_len]))
            }
        };
        StepMut {
            obs,
            next_obs,
            actions: self.columns.actions.view_mut().into_row(t, width * act_len),
            rewards: &mut self.columns.rewards[cells.clone()],
            ends: &mut self.columns.ends[cells.clone()],
            final_obs: &mut self.columns.final_obs,
            behaviour_logp: &mut self.columns.behaviour_logp[cells.clone()],
            behaviour_inputs: &mut self.columns.behaviour_inputs[t * width * dist_len..(t + 1) * width * dist_len],
            behaviour_values: &mut self.columns.behaviour_values[cells.clone()],
            versions: &mut self.columns.versions[cells],
        }
    }

    /// `[T+1, B, obs_len]`.
    pub fn obs_mut(&mut self) -> ObsViewMut<'_> {
        self.lay_apart();
        self.columns.obs.view_mut()
    }

    /// `[B, obs_len]`: row `t` of the observations; panics if `t > T`.
    pub fn obs_row_mut(&mut self, t: usize) -> ObsViewMut<'_> {
        let len = self.shape.columns * self.shape.obs_len;
        self.obs_mut().into_row(t, len)
    }

    /// `[T, B, act_len]`.
    pub fn actions_mut(&mut self) -> ActionViewMut<'_> {
        self.columns.actions.view_mut()
    }

    /// `[T, B]`.
    pub fn rewards_mut(&mut self) -> &mut [f32] {
        &mut self.columns.rewards
    }

    /// `[T, B]`; see [`check_ends`](Self::check_ends).
    pub fn ends_mut(&mut self) -> &mut [End] {
        &mut self.columns.ends
    }

    /// Final observations.
    pub fn final_obs_mut(&mut self) -> &mut FinalObs {
        &mut self.columns.final_obs
    }

    /// `[T, B]`.
    pub fn behaviour_logp_mut(&mut self) -> &mut [f32] {
        &mut self.columns.behaviour_logp
    }

    /// `[T, B, dist_len]`.
    pub fn behaviour_inputs_mut(&mut self) -> &mut [f32] {
        &mut self.columns.behaviour_inputs
    }

    /// `[T+1, B]`.
    pub fn behaviour_values_mut(&mut self) -> &mut [f32] {
        &mut self.columns.behaviour_values
    }

    /// `[B, state_len]`.
    pub fn state_in_mut(&mut self) -> &mut [f32] {
        &mut self.columns.state_in
    }

    /// `[T, B]`.
    pub fn versions_mut(&mut self) -> &mut [u64] {
        &mut self.columns.versions
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(super) fn columns_mut(&mut self) -> &mut Columns {
        &mut self.columns
    }

    pub(super) fn home(&self) -> Option<&Pool> {
        self.home.as_ref()
    }

    /// The elements of observations, and where each row begins.
    pub(super) fn obs_storage(&mut self) -> (&mut ObsColumn, &mut Vec<usize>) {
        (&mut self.columns.obs, &mut self.obs_starts)
    }

    pub(crate) fn tags_mut(&mut self) -> &mut Vec<Tag> {
        &mut self.tags
    }
}

impl Pool {
    /// A batch of this shape, from recycled storage if there is any. The shape must have passed
    /// [`BatchShape::check`].
    ///
    /// Ends are [`End::No`], and there are no final observations; all other columns have stale contents.
    pub fn take(&self, shape: BatchShape, tag: Tag) -> SampleBatch {
        let mut batch = self.take_untagged(shape);
        batch.tags_mut().push(tag);
        batch
    }

    pub(crate) fn take_untagged(&self, shape: BatchShape) -> SampleBatch {
        SampleBatch::from_storage(shape, self.take_storage(shape, Rows::Apart), self.clone())
    }

    /// The same without any observations, for those that share rows.
    pub(crate) fn take_sharing(&self, shape: BatchShape) -> SampleBatch {
        SampleBatch::from_storage(shape, self.take_storage(shape, Rows::Shared), self.clone())
    }
}

impl Drop for SampleBatch {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            let Self { shape, columns, obs_starts, tags, .. } = self;
            let (columns, obs_starts, tags) = (mem::take(columns), mem::take(obs_starts), mem::take(tags));
            home.put_back(*shape, Storage { columns, obs_starts, tags });
        }
    }
}

impl fmt::Debug for SampleBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleBatch").field("shape", &self.shape).field("tags", &self.tags).finish_non_exhaustive()
    }
}

/// Row `t` of every column, and the observation that step `t` leads to.
#[derive(Debug)]
pub struct StepMut<'a> {
    /// `[B, obs_len]`: what the policy acts on.
    pub obs: ObsView<'a>,
    /// `[B, obs_len]`: what follows it.
    pub next_obs: ObsViewMut<'a>,
    /// `[B, act_len]`.
    pub actions: ActionViewMut<'a>,
    /// `[B]`.
    pub rewards: &'a mut [f32],
    /// `[B]`.
    pub ends: &'a mut [End],
    /// Final observations of the whole batch.
    pub final_obs: &'a mut FinalObs,
    /// `[B]`.
    pub behaviour_logp: &'a mut [f32],
    /// `[B, dist_len]`.
    pub behaviour_inputs: &'a mut [f32],
    /// `[B]`: values of `obs`; row `T` is written through
    /// [`behaviour_values_mut`](SampleBatch::behaviour_values_mut).
    pub behaviour_values: &'a mut [f32],
    /// `[B]`.
    pub versions: &'a mut [u64],
}

fn check_column(column: &'static str, values: &[f32], row_len: usize, width: usize) -> Result<(), BatchError> {
    refuse(column, values, first_non_finite(values), row_len, width)
}

/// As [`check_column`], but a logit may be −∞: action masks write a probability of 0 that way, and
/// categorical distributions compute with it.
fn check_logits(column: &'static str, logits: &[f32], row_len: usize, width: usize) -> Result<(), BatchError> {
    let is_logit = |logit: &f32| *logit < f32::INFINITY;
    let all_logits = logits.iter().fold(true, |all, logit| all & is_logit(logit));
    let wrong = if all_logits { None } else { logits.iter().position(|logit| !is_logit(logit)) };
    refuse(column, logits, wrong, row_len, width)
}

fn refuse(
    column: &'static str,
    values: &[f32],
    wrong: Option<usize>,
    row_len: usize,
    width: usize,
) -> Result<(), BatchError> {
    match wrong {
        None => Ok(()),
        Some(i) => {
            let cell = i / row_len;
            Err(BatchError::NonFinite { column, t: cell / width, b: cell % width, value: values[i] })
        }
    }
}

fn first_non_finite(values: &[f32]) -> Option<usize> {
    // Nearly always there is none, and a pass without an early exit, over integers, vectorises best.
    const EXPONENT: u32 = f32::INFINITY.to_bits();
    let is_none = |value: &f32| u32::from(value.to_bits() & EXPONENT == EXPONENT);
    let any = values.iter().fold(0, |any, value| any | is_none(value)) != 0;
    if any { values.iter().position(|value| !value.is_finite()) } else { None }
}
