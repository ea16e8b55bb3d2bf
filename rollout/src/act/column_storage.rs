use pronk_buffer::{
    ActionColumn, ActionView, ActionViewMut, BatchError, BatchShape, End, FinalObs, ObsColumn, ObsView, ObsViewMut,
    SampleBatch,
};
use serde::{Deserialize, Serialize};

/// A step as it begins.
pub(crate) struct NewStep<'a> {
    pub(crate) obs: ObsView<'a>,
    pub(crate) action: ActionView<'a>,
    pub(crate) logp: f32,
    pub(crate) inputs: &'a [f32],
    pub(crate) value: f32,
    /// The recurrent state before it.
    pub(crate) state: &'a [f32],
    pub(crate) version: u64,
}

/// Storage for columns. Seats step in any order, so the elements of one column lie together, by type.
pub(super) struct ColumnStorage {
    /// The shape of one column.
    shape: BatchShape,
    /// `[slots]`.
    pub(super) progress: Vec<Progress>,
    /// `[slots, T + 1, obs_len]`.
    pub(super) obs: ObsColumn,
    /// `[slots, T, act_len]`.
    actions: ActionColumn,
    /// `[slots, layout.len]`.
    numbers: Vec<f32>,
    pub(super) layout: Layout,
    /// `[slots, T]`.
    pub(super) ends: Vec<End>,
    /// `[slots, T]`.
    versions: Vec<u64>,
}

/// A column with steps in it, for a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedColumn {
    pub(super) seat: usize,
    pub(super) filled: Filled,
    pub(super) is_open: bool,
    /// `[len, obs_len]`, and one more row if it is full.
    obs: ObsColumn,
    /// `[len, act_len]`.
    actions: ActionColumn,
    /// `[layout.len]`.
    numbers: Vec<f32>,
    /// `[len]`.
    ends: Vec<End>,
    /// `[len]`.
    versions: Vec<u64>,
    pub(super) final_obs: FinalObs,
}

impl SavedColumn {
    pub(crate) fn seat(&self) -> usize {
        self.seat
    }

    /// Steps begun.
    pub(crate) fn begun(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Whether the last of them is incomplete.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }
}

/// How far a column is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Filled {
    Partly,
    Full,
}

/// The progress of a column.
pub(super) struct Progress {
    /// Steps begun.
    pub(super) len: usize,
    /// Whether the last of them is incomplete.
    pub(super) is_open: bool,
    pub(super) final_obs: FinalObs,
}

/// Offsets into the numbers of a column.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// `[T + 1]`, at 0.
    values: usize,
    /// `[T]`.
    pub(super) rewards: usize,
    /// `[T]`.
    logp: usize,
    /// `[T, dist_len]`.
    inputs: usize,
    /// `[state_len]`.
    state: usize,
    /// Numbers per column.
    len: usize,
}

impl Layout {
    fn of(shape: &BatchShape) -> Self {
        let BatchShape { steps, dist_len, state_len, .. } = *shape;
        let rewards = steps + 1;
        let logp = rewards + steps;
        let inputs = logp + steps;
        let state = inputs + steps * dist_len;
        Self { values: 0, rewards, logp, inputs, state, len: state + state_len }
    }
}

impl ColumnStorage {
    pub(super) fn new(shape: BatchShape) -> Self {
        Self {
            shape,
            progress: Vec::new(),
            obs: ObsColumn::zeros(shape.obs_kind, 0),
            actions: ActionColumn::zeros(shape.act_kind, 0),
            numbers: Vec::new(),
            layout: Layout::of(&shape),
            ends: Vec::new(),
            versions: Vec::new(),
        }
    }

    /// Adds storage for one column.
    pub(super) fn add(&mut self) -> usize {
        let BatchShape { steps, obs_len, obs_kind, act_len, .. } = self.shape;
        let slots = self.progress.len() + 1;
        self.obs.resize(slots * (steps + 1) * obs_len);
        self.actions.resize(slots * steps * act_len);
        lengthen(&mut self.numbers, self.layout.len, 0.0);
        lengthen(&mut self.ends, steps, End::No);
        lengthen(&mut self.versions, steps, 0);
        self.progress.push(Progress { len: 0, is_open: false, final_obs: FinalObs::new(obs_kind, obs_len) });
        self.progress.len() - 1
    }

    pub(super) fn begin(&mut self, slot: usize, step: &NewStep<'_>) -> Result<(), BatchError> {
        let BatchShape { steps, act_len, dist_len, .. } = self.shape;
        let Layout { values, rewards, logp, inputs, state, .. } = self.layout;
        let Progress { len, is_open, .. } = &mut self.progress[slot];
        let t = *len;
        (*len, *is_open) = (t + 1, true);
        let row = slot * steps + t;
        self.obs_row(slot, t).copy_from(step.obs)?;
        self.actions.view_mut().into_row(row, act_len).copy_from(step.action)?;
        self.ends[row] = End::No;
        self.versions[row] = step.version;
        let numbers = self.numbers_mut(slot);
        if t == 0 {
            numbers[state..].copy_from_slice(step.state);
        }
        numbers[values + t] = step.value;
        numbers[rewards + t] = 0.0;
        numbers[logp + t] = step.logp;
        numbers[inputs + t * dist_len..inputs + (t + 1) * dist_len].copy_from_slice(step.inputs);
        Ok(())
    }

    pub(super) fn clear(&mut self, slot: usize) {
        let Progress { len, is_open, final_obs } = &mut self.progress[slot];
        (*len, *is_open) = (0, false);
        final_obs.clear();
    }

    pub(super) fn obs_row(&mut self, slot: usize, t: usize) -> ObsViewMut<'_> {
        self.obs.view_mut().into_row(slot * (self.shape.steps + 1) + t, self.shape.obs_len)
    }

    pub(super) fn numbers_mut(&mut self, slot: usize) -> &mut [f32] {
        &mut self.numbers[slot * self.layout.len..(slot + 1) * self.layout.len]
    }

    /// The steps in a slot.
    pub(super) fn save(&self, seat: usize, slot: usize, filled: Filled) -> SavedColumn {
        let BatchShape { steps, obs_len, act_len, .. } = self.shape;
        let Progress { len, is_open, final_obs } = &self.progress[slot];
        let (len, is_open) = (*len, *is_open);
        let rows = if filled == Filled::Full { len + 1 } else { len };
        let obs_from = slot * (steps + 1) * obs_len;
        let obs = match self.obs.view() {
            ObsView::F32(all) => ObsColumn::F32(all[obs_from..][..rows * obs_len].to_vec()),
            ObsView::U8(all) => ObsColumn::U8(all[obs_from..][..rows * obs_len].to_vec()),
        };
        let act_from = slot * steps * act_len;
        let actions = match self.actions.view() {
            ActionView::U32(all) => ActionColumn::U32(all[act_from..][..len * act_len].to_vec()),
            ActionView::F32(all) => ActionColumn::F32(all[act_from..][..len * act_len].to_vec()),
        };
        SavedColumn {
            seat,
            filled,
            is_open,
            obs,
            actions,
            numbers: self.numbers[slot * self.layout.len..(slot + 1) * self.layout.len].to_vec(),
            ends: self.ends[slot * steps..][..len].to_vec(),
            versions: self.versions[slot * steps..][..len].to_vec(),
            final_obs: final_obs.clone(),
        }
    }

    /// Puts saved steps into an empty slot. An error says how they do not fit.
    pub(super) fn load(&mut self, slot: usize, saved: &SavedColumn) -> Result<(), String> {
        let BatchShape { steps, obs_len, obs_kind, act_len, .. } = self.shape;
        let len = saved.ends.len();
        let rows = if saved.filled == Filled::Full { len + 1 } else { len };
        let lens = [saved.obs.view().len(), saved.actions.view().len(), saved.numbers.len(), saved.versions.len()];
        let is_of_shape = lens == [rows * obs_len, len * act_len, self.layout.len, len]
            && saved.final_obs.check(obs_kind, obs_len).is_ok();
        // A column with all its steps is full once the last of them is complete.
        let is_as_far = match saved.filled {
            Filled::Full => len == steps && !saved.is_open,
            Filled::Partly => (1..steps).contains(&len) || (len == steps && saved.is_open),
        };
        if !is_of_shape || !is_as_far {
            return Err(format!("one of its columns is not of {:?}", self.shape));
        }
        let other_type = |error: BatchError| error.to_string();
        for t in 0..rows {
            self.obs_row(slot, t).copy_from(saved.obs.view().row(t, obs_len)).map_err(other_type)?;
        }
        for t in 0..len {
            let action = saved.actions.view().row(t, act_len);
            self.actions.view_mut().into_row(slot * steps + t, act_len).copy_from(action).map_err(other_type)?;
        }
        self.numbers_mut(slot).copy_from_slice(&saved.numbers);
        self.ends[slot * steps..][..len].copy_from_slice(&saved.ends);
        self.versions[slot * steps..][..len].copy_from_slice(&saved.versions);
        self.progress[slot] = Progress { len, is_open: saved.is_open, final_obs: saved.final_obs.clone() };
        Ok(())
    }

    /// Writes slots as the columns of a batch.
    pub(super) fn write(&self, written: &[(usize, usize)], batch: &mut SampleBatch) -> Result<(), BatchError> {
        let BatchShape { steps, obs_len, act_len, dist_len, state_len, .. } = self.shape;
        let whole = |rows: usize, row_len: usize| Rows { slot_len: rows * row_len, first: 0, rows, row_len };
        match (self.obs.view(), batch.obs_mut()) {
            (ObsView::F32(from), ObsViewMut::F32(to)) => spread(from, to, written, whole(steps + 1, obs_len)),
            (ObsView::U8(from), ObsViewMut::U8(to)) => spread(from, to, written, whole(steps + 1, obs_len)),
            (from, to) => return to.copy_from(from),
        }
        match (self.actions.view(), batch.actions_mut()) {
            (ActionView::U32(from), ActionViewMut::U32(to)) => spread(from, to, written, whole(steps, act_len)),
            (ActionView::F32(from), ActionViewMut::F32(to)) => spread(from, to, written, whole(steps, act_len)),
            (from, to) => return to.copy_from(from),
        }
        spread(&self.ends, batch.ends_mut(), written, whole(steps, 1));
        spread(&self.versions, batch.versions_mut(), written, whole(steps, 1));
        let Layout { values, rewards, logp, inputs, state, len: slot_len } = self.layout;
        let part = |first: usize, rows: usize, row_len: usize| Rows { slot_len, first, rows, row_len };
        spread(&self.numbers, batch.behaviour_values_mut(), written, part(values, steps + 1, 1));
        spread(&self.numbers, batch.rewards_mut(), written, part(rewards, steps, 1));
        spread(&self.numbers, batch.behaviour_logp_mut(), written, part(logp, steps, 1));
        spread(&self.numbers, batch.behaviour_inputs_mut(), written, part(inputs, steps, dist_len));
        for (b, (_, slot)) in written.iter().enumerate() {
            let from = slot * slot_len + state;
            batch.state_in_mut()[b * state_len..(b + 1) * state_len]
                .copy_from_slice(&self.numbers[from..from + state_len]);
            for (t, _, row) in self.progress[*slot].final_obs.iter() {
                batch.final_obs_mut().push(t as usize, b, row)?;
            }
        }
        Ok(())
    }
}

fn lengthen<T: Copy>(column: &mut Vec<T>, by: usize, with: T) {
    column.resize(column.len() + by, with);
}

/// A part of a slot of `slot_len` elements.
#[derive(Clone, Copy)]
struct Rows {
    slot_len: usize,
    /// Offset within the slot.
    first: usize,
    rows: usize,
    row_len: usize,
}

/// Transposes rows, consecutive in their slots, to columns side by side.
fn spread<T: Copy>(from: &[T], to: &mut [T], written: &[(usize, usize)], part: Rows) {
    // With the length known at compile time, copying a short row is one or two moves.
    match part.row_len {
        1 => return spread_short::<T, 1>(from, to, written, part),
        2 => return spread_short::<T, 2>(from, to, written, part),
        4 => return spread_short::<T, 4>(from, to, written, part),
        _ => {}
    }
    let Rows { slot_len, first, rows, row_len } = part;
    for (b, (_, slot)) in written.iter().enumerate() {
        let column = from[slot * slot_len + first..].chunks_exact(row_len).take(rows);
        for (to, from) in to.chunks_exact_mut(row_len).skip(b).step_by(written.len()).zip(column) {
            to.copy_from_slice(from);
        }
    }
}

fn spread_short<T: Copy, const LEN: usize>(from: &[T], to: &mut [T], written: &[(usize, usize)], part: Rows) {
    let Rows { slot_len, first, rows, .. } = part;
    let to = to.as_chunks_mut::<LEN>().0;
    for (b, (_, slot)) in written.iter().enumerate() {
        let first = slot * slot_len + first;
        let column = from[first..first + rows * LEN].as_chunks::<LEN>().0;
        for (to, from) in to.iter_mut().skip(b).step_by(written.len()).zip(column) {
            *to = *from;
        }
    }
}

pub(super) fn clear_obs(row: ObsViewMut<'_>) {
    match row {
        ObsViewMut::F32(row) => row.fill(0.0),
        ObsViewMut::U8(row) => row.fill(0),
    }
}
