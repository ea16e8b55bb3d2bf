use pronk_buffer::{
    ActionColumn, ActionView, ActionViewMut, BatchError, BatchShape, End, FinalObs, ObsColumn, ObsView, ObsViewMut,
    SampleBatch,
};

/// The columns of one policy: for every seat (an agent of an environment) the one that is being filled, and those that are
/// full.
///
/// A step is begun when the agent acts, and complete when it is next asked to act or has ended. A column is full when its last
/// step is complete.
pub(crate) struct Columns {
    /// Of one column.
    shape: BatchShape,
    /// `[seats]`; `None` until the agent's first step under this policy.
    filling: Vec<Option<Column>>,
    full: Vec<(usize, Column)>,
    /// `[seats]`: storage to be used again by the same seat. Handed from seat to seat, it would lie about in memory in no order
    /// after a while, and steps of many thousand seats become slower.
    spare: Vec<Vec<Column>>,
}

/// What one agent did, step by step, in the layout of a batch of one column.
struct Column {
    /// Steps begun.
    len: usize,
    /// Whether the last of them is not complete.
    open: bool,
    obs: ObsColumn,
    actions: ActionColumn,
    rewards: Vec<f32>,
    ends: Vec<End>,
    final_obs: FinalObs,
    logp: Vec<f32>,
    inputs: Vec<f32>,
    values: Vec<f32>,
    state_in: Vec<f32>,
    versions: Vec<u64>,
}

/// What is known of a step as it is begun.
pub(crate) struct Begun<'a> {
    pub(crate) obs: ObsView<'a>,
    pub(crate) action: ActionView<'a>,
    pub(crate) logp: f32,
    pub(crate) inputs: &'a [f32],
    pub(crate) value: f32,
    /// What was remembered before it.
    pub(crate) state: &'a [f32],
    pub(crate) version: u64,
}

impl Columns {
    /// For so many seats; `shape` is that of one column.
    pub(crate) fn new(shape: BatchShape, n_seats: usize) -> Self {
        Self {
            shape,
            filling: (0..n_seats).map(|_| None).collect(),
            full: Vec::new(),
            spare: (0..n_seats).map(|_| Vec::new()).collect(),
        }
    }

    /// `T`.
    pub(crate) fn steps(&self) -> usize {
        self.shape.steps
    }

    /// Whether nothing but the observation that is to be acted upon next, and its value, is missing for a full column.
    pub(crate) fn lacks_the_last_row(&self, seat: usize) -> bool {
        self.filling[seat].as_ref().is_some_and(|column| column.open && column.len == self.shape.steps)
    }

    /// The agent is asked to act upon `obs`: its last step is complete, and so may be its column.
    pub(crate) fn ask(&mut self, seat: usize, obs: ObsView<'_>, value: f32) {
        let last = self.shape.steps;
        let Some(column) = &mut self.filling[seat] else { return };
        if std::mem::take(&mut column.open) && column.len == last {
            copy_obs(obs, column.obs.view_mut().into_row(last, self.shape.obs_len));
            column.values[last] = value;
            self.set_aside(seat);
        }
    }

    /// The agent, which was asked, acts.
    pub(crate) fn begin(&mut self, seat: usize, step: &Begun<'_>) {
        let BatchShape { obs_len, act_len, dist_len, .. } = self.shape;
        let Self { shape, filling, spare, .. } = self;
        let column = filling[seat].get_or_insert_with(|| spare[seat].pop().unwrap_or_else(|| Column::new(shape)));
        let t = column.len;
        if t == 0 {
            column.state_in.copy_from_slice(step.state);
        }
        copy_obs(step.obs, column.obs.view_mut().into_row(t, obs_len));
        copy_actions(step.action, column.actions.view_mut().into_row(t, act_len));
        column.rewards[t] = 0.0;
        column.ends[t] = End::No;
        column.logp[t] = step.logp;
        column.inputs[t * dist_len..(t + 1) * dist_len].copy_from_slice(step.inputs);
        column.values[t] = step.value;
        column.versions[t] = step.version;
        column.len += 1;
        column.open = true;
    }

    /// The agent is paid for what it did last; nothing, if it has done nothing in this episode.
    pub(crate) fn pay(&mut self, seat: usize, reward: f32) {
        if let Some(column) = self.filling[seat].as_mut().filter(|column| column.open) {
            column.rewards[column.len - 1] += reward;
        }
    }

    /// The agent's episode ends: its last step is complete, and so may be its column. `obs` is what it would have gone on
    /// from, had it not been cut off.
    pub(crate) fn end(&mut self, seat: usize, end: End, obs: ObsView<'_>) -> Result<(), BatchError> {
        let last = self.shape.steps;
        let Some(column) = self.filling[seat].as_mut().filter(|column| column.open) else { return Ok(()) };
        column.open = false;
        column.ends[column.len - 1] = end;
        if end == End::Truncated {
            column.final_obs.push(column.len - 1, 0, obs)?;
        }
        if column.len == last {
            // Nothing follows an end, so what stands in the last row is never looked at.
            clear_obs(column.obs.view_mut().into_row(last, self.shape.obs_len));
            column.values[last] = 0.0;
            self.set_aside(seat);
        }
        Ok(())
    }

    /// Steps that the agent has begun in the column that is being filled.
    pub(crate) fn begun(&self, seat: usize) -> usize {
        self.filling[seat].as_ref().map_or(0, |column| column.len)
    }

    /// What the agent acted upon last in the column that is being filled.
    pub(crate) fn last_obs(&self, seat: usize) -> Option<ObsColumn> {
        let column = self.filling[seat].as_ref().filter(|column| column.open)?;
        Some(match column.obs.view().row(column.len - 1, self.shape.obs_len) {
            ObsView::F32(row) => ObsColumn::F32(row.to_vec()),
            ObsView::U8(row) => ObsColumn::U8(row.to_vec()),
        })
    }

    /// Forgets the column that is being filled.
    pub(crate) fn forget(&mut self, seat: usize) {
        if let Some(mut column) = self.filling[seat].take() {
            column.clear();
            keep(&mut self.spare[seat], column);
        }
    }

    /// Columns that are full.
    pub(crate) fn n_full(&self) -> usize {
        self.full.len()
    }

    /// Writes the columns that have been full for longest, as many as the batch has room for, seat by seat, and takes their
    /// storage back.
    pub(crate) fn write(&mut self, batch: &mut SampleBatch) -> Result<(), BatchError> {
        let BatchShape { obs_len, act_len, dist_len, state_len, .. } = self.shape;
        let width = batch.shape().columns;
        self.full[..width].sort_by_key(|(seat, _)| *seat);
        for (b, (seat, mut column)) in self.full.drain(..width).enumerate() {
            match (column.obs.view(), batch.obs_mut()) {
                (ObsView::F32(rows), ObsViewMut::F32(into)) => spread(rows, into, (b, width), obs_len),
                (ObsView::U8(rows), ObsViewMut::U8(into)) => spread(rows, into, (b, width), obs_len),
                // Both were made from the same shape.
                (ObsView::F32(_), ObsViewMut::U8(_)) | (ObsView::U8(_), ObsViewMut::F32(_)) => {}
            }
            match (column.actions.view(), batch.actions_mut()) {
                (ActionView::U32(rows), ActionViewMut::U32(into)) => spread(rows, into, (b, width), act_len),
                (ActionView::F32(rows), ActionViewMut::F32(into)) => spread(rows, into, (b, width), act_len),
                (ActionView::U32(_), ActionViewMut::F32(_)) | (ActionView::F32(_), ActionViewMut::U32(_)) => {}
            }
            spread(&column.rewards, batch.rewards_mut(), (b, width), 1);
            spread(&column.ends, batch.ends_mut(), (b, width), 1);
            spread(&column.logp, batch.behaviour_logp_mut(), (b, width), 1);
            spread(&column.inputs, batch.behaviour_inputs_mut(), (b, width), dist_len);
            spread(&column.values, batch.behaviour_values_mut(), (b, width), 1);
            for (t, _, row) in column.final_obs.iter() {
                batch.final_obs_mut().push(t as usize, b, row)?;
            }
            batch.state_in_mut()[b * state_len..(b + 1) * state_len].copy_from_slice(&column.state_in);
            spread(&column.versions, batch.versions_mut(), (b, width), 1);
            column.clear();
            keep(&mut self.spare[seat], column);
        }
        batch.check_ends()
    }

    /// Forgets every step and keeps the storage.
    pub(crate) fn clear(&mut self) {
        let filling = self.filling.iter_mut().enumerate();
        let filling = filling.filter_map(|(seat, column)| column.take().map(|column| (seat, column)));
        for (seat, mut column) in filling.chain(self.full.drain(..)) {
            column.clear();
            keep(&mut self.spare[seat], column);
        }
    }

    fn set_aside(&mut self, seat: usize) {
        self.full.extend(self.filling[seat].take().map(|column| (seat, column)));
    }
}

impl Column {
    fn new(shape: &BatchShape) -> Self {
        let BatchShape { steps, obs_len, obs_kind, act_len, act_kind, dist_len, state_len, .. } = *shape;
        Self {
            len: 0,
            open: false,
            obs: ObsColumn::zeros(obs_kind, (steps + 1) * obs_len),
            actions: ActionColumn::zeros(act_kind, steps * act_len),
            rewards: vec![0.0; steps],
            ends: vec![End::No; steps],
            final_obs: FinalObs::new(obs_kind, obs_len),
            logp: vec![0.0; steps],
            inputs: vec![0.0; steps * dist_len],
            values: vec![0.0; steps + 1],
            state_in: vec![0.0; state_len],
            versions: vec![0; steps],
        }
    }

    fn clear(&mut self) {
        (self.len, self.open) = (0, false);
        self.final_obs.clear();
    }
}

/// Storage of a seat beyond what it fills and what waits is not needed again soon.
fn keep(spare: &mut Vec<Column>, column: Column) {
    const MOST: usize = 2;
    if spare.len() < MOST {
        spare.push(column);
    }
}

/// Writes rows of `row_len` elements as column `b` of `width`.
fn spread<T: Copy>(rows: &[T], into: &mut [T], (b, width): (usize, usize), row_len: usize) {
    // To copy a few elements costs less than to find out that they are few.
    match row_len {
        1 => return spread_short::<T, 1>(rows, into, (b, width)),
        2 => return spread_short::<T, 2>(rows, into, (b, width)),
        4 => return spread_short::<T, 4>(rows, into, (b, width)),
        _ => {}
    }
    for (from, to) in rows.chunks_exact(row_len).zip(into.chunks_exact_mut(row_len).skip(b).step_by(width)) {
        to.copy_from_slice(from);
    }
}

fn spread_short<T: Copy, const LEN: usize>(rows: &[T], into: &mut [T], (b, width): (usize, usize)) {
    let into = into.as_chunks_mut::<LEN>().0.iter_mut().skip(b).step_by(width);
    for (from, to) in rows.as_chunks::<LEN>().0.iter().zip(into) {
        *to = *from;
    }
}

/// Rows of one policy are of one kind: both sides were made for its spaces.
pub(crate) fn copy_obs(from: ObsView<'_>, to: ObsViewMut<'_>) {
    match (from, to) {
        (ObsView::F32(from), ObsViewMut::F32(to)) => to.copy_from_slice(from),
        (ObsView::U8(from), ObsViewMut::U8(to)) => to.copy_from_slice(from),
        (ObsView::F32(_), ObsViewMut::U8(_)) | (ObsView::U8(_), ObsViewMut::F32(_)) => {}
    }
}

fn clear_obs(row: ObsViewMut<'_>) {
    match row {
        ObsViewMut::F32(row) => row.fill(0.0),
        ObsViewMut::U8(row) => row.fill(0),
    }
}

fn copy_actions(from: ActionView<'_>, to: ActionViewMut<'_>) {
    match (from, to) {
        (ActionView::U32(from), ActionViewMut::U32(to)) => to.copy_from_slice(from),
        (ActionView::F32(from), ActionViewMut::F32(to)) => to.copy_from_slice(from),
        (ActionView::U32(_), ActionViewMut::F32(_)) | (ActionView::F32(_), ActionViewMut::U32(_)) => {}
    }
}
