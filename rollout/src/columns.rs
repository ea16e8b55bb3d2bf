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
    /// `[seats]`: the slot that is being filled; `None` until the agent's first step under this policy.
    filling: Vec<Option<usize>>,
    /// Seats with the slots that they filled, in the order of that.
    full: Vec<(usize, usize)>,
    /// `[seats]`: one to be filled while the other is full and waits.
    homes: Vec<[Home; 2]>,
    /// Slots that are nobody's home and free.
    spare: Vec<usize>,
    slots: Slots,
}

/// A slot that a seat fills whenever it can. Handed from seat to seat, slots would lie in no order after a while, and what is done
/// for many thousand seats would take twice as long.
#[derive(Clone, Copy)]
enum Home {
    NotYet,
    Free(usize),
    Taken(usize),
}

/// Room for columns, one next to the other.
struct Slots {
    /// Of one column.
    shape: BatchShape,
    /// `[slots]`: steps begun.
    lens: Vec<usize>,
    /// `[slots]`: whether the last of them is not complete.
    open: Vec<bool>,
    /// `[slots, T + 1, obs_len]`.
    obs: ObsColumn,
    /// `[slots, T, act_len]`.
    actions: ActionColumn,
    /// `[slots, T]`.
    rewards: Vec<f32>,
    /// `[slots, T]`.
    ends: Vec<End>,
    /// `[slots]`.
    final_obs: Vec<FinalObs>,
    /// `[slots, T]`.
    logp: Vec<f32>,
    /// `[slots, T, dist_len]`.
    inputs: Vec<f32>,
    /// `[slots, T + 1]`.
    values: Vec<f32>,
    /// `[slots, state_len]`.
    state_in: Vec<f32>,
    /// `[slots, T]`.
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
            filling: vec![None; n_seats],
            full: Vec::new(),
            homes: vec![[Home::NotYet; 2]; n_seats],
            spare: Vec::new(),
            slots: Slots::new(shape),
        }
    }

    /// `T`.
    pub(crate) fn steps(&self) -> usize {
        self.shape.steps
    }

    /// Whether nothing but the observation that is to be acted upon next, and its value, is missing for a full column.
    pub(crate) fn lacks_the_last_row(&self, seat: usize) -> bool {
        self.filling[seat].is_some_and(|slot| self.slots.open[slot] && self.slots.lens[slot] == self.shape.steps)
    }

    /// The agent is asked to act upon `obs`: its last step is complete, and so may be its column.
    pub(crate) fn ask(&mut self, seat: usize, obs: ObsView<'_>, value: f32) {
        let Self { slots, shape, .. } = self;
        let Some(slot) = self.filling[seat] else { return };
        if std::mem::take(&mut slots.open[slot]) && slots.lens[slot] == shape.steps {
            let last = slot * (shape.steps + 1) + shape.steps;
            copy_obs(obs, slots.obs.view_mut().into_row(last, shape.obs_len));
            slots.values[last] = value;
            self.set_aside(seat);
        }
    }

    /// The agent, which was asked, acts.
    pub(crate) fn begin(&mut self, seat: usize, step: &Begun<'_>) {
        let BatchShape { steps, obs_len, act_len, dist_len, state_len, .. } = self.shape;
        let slot = self.filling[seat].unwrap_or_else(|| self.take_slot(seat));
        self.filling[seat] = Some(slot);
        let slots = &mut self.slots;
        let t = slots.lens[slot];
        if t == 0 {
            slots.state_in[slot * state_len..(slot + 1) * state_len].copy_from_slice(step.state);
        }
        let (row, row_of_more) = (slot * steps + t, slot * (steps + 1) + t);
        copy_obs(step.obs, slots.obs.view_mut().into_row(row_of_more, obs_len));
        slots.values[row_of_more] = step.value;
        copy_actions(step.action, slots.actions.view_mut().into_row(row, act_len));
        slots.rewards[row] = 0.0;
        slots.ends[row] = End::No;
        slots.logp[row] = step.logp;
        slots.inputs[row * dist_len..(row + 1) * dist_len].copy_from_slice(step.inputs);
        slots.versions[row] = step.version;
        slots.lens[slot] += 1;
        slots.open[slot] = true;
    }

    /// The agent is paid for what it did last; nothing, if it has done nothing in this episode.
    pub(crate) fn pay(&mut self, seat: usize, reward: f32) {
        if let Some((slot, t)) = self.last_step(seat) {
            self.slots.rewards[slot * self.shape.steps + t] += reward;
        }
    }

    /// The agent's episode ends: its last step is complete, and so may be its column. `obs` is what it would have gone on
    /// from, had it not been cut off.
    pub(crate) fn end(&mut self, seat: usize, end: End, obs: ObsView<'_>) -> Result<(), BatchError> {
        let Some((slot, t)) = self.last_step(seat) else { return Ok(()) };
        let Self { slots, shape, .. } = self;
        slots.open[slot] = false;
        slots.ends[slot * shape.steps + t] = end;
        if end == End::Truncated {
            slots.final_obs[slot].push(t, 0, obs)?;
        }
        if t + 1 == shape.steps {
            // Nothing follows an end, so what stands in the last row is never looked at.
            let last = slot * (shape.steps + 1) + shape.steps;
            clear_obs(slots.obs.view_mut().into_row(last, shape.obs_len));
            slots.values[last] = 0.0;
            self.set_aside(seat);
        }
        Ok(())
    }

    /// Steps that the agent has begun in the column that is being filled.
    pub(crate) fn begun(&self, seat: usize) -> usize {
        self.filling[seat].map_or(0, |slot| self.slots.lens[slot])
    }

    /// What the agent acted upon last in the column that is being filled.
    pub(crate) fn last_obs(&self, seat: usize) -> Option<ObsColumn> {
        let (slot, t) = self.last_step(seat)?;
        Some(match self.slots.obs.view().row(slot * (self.shape.steps + 1) + t, self.shape.obs_len) {
            ObsView::F32(row) => ObsColumn::F32(row.to_vec()),
            ObsView::U8(row) => ObsColumn::U8(row.to_vec()),
        })
    }

    /// Forgets the column that is being filled.
    pub(crate) fn forget(&mut self, seat: usize) {
        if let Some(slot) = self.filling[seat].take() {
            self.give_back(seat, slot);
        }
    }

    /// Columns that are full.
    pub(crate) fn n_full(&self) -> usize {
        self.full.len()
    }

    /// Writes the columns that have been full for longest, as many as the batch has room for, seat by seat, and forgets them.
    pub(crate) fn write(&mut self, batch: &mut SampleBatch) -> Result<(), BatchError> {
        let width = batch.shape().columns;
        self.full[..width].sort_by_key(|(seat, _)| *seat);
        let written: Vec<_> = self.full.drain(..width).collect();
        self.slots.write(&written, batch)?;
        for (seat, slot) in written {
            self.give_back(seat, slot);
        }
        batch.check_ends()
    }

    /// Forgets every step and keeps the storage.
    pub(crate) fn clear(&mut self) {
        for seat in 0..self.filling.len() {
            self.forget(seat);
        }
        for (seat, slot) in std::mem::take(&mut self.full) {
            self.give_back(seat, slot);
        }
    }

    /// The slot that is being filled and its last step, if that is not complete.
    fn last_step(&self, seat: usize) -> Option<(usize, usize)> {
        let slot = self.filling[seat].filter(|slot| self.slots.open[*slot])?;
        Some((slot, self.slots.lens[slot] - 1))
    }

    fn set_aside(&mut self, seat: usize) {
        self.full.extend(self.filling[seat].take().map(|slot| (seat, slot)));
    }

    fn take_slot(&mut self, seat: usize) -> usize {
        for home in &mut self.homes[seat] {
            let slot = match *home {
                Home::NotYet => self.slots.add(),
                Home::Free(slot) => slot,
                Home::Taken(_) => continue,
            };
            *home = Home::Taken(slot);
            return slot;
        }
        self.spare.pop().unwrap_or_else(|| self.slots.add())
    }

    fn give_back(&mut self, seat: usize, slot: usize) {
        self.slots.clear(slot);
        for home in &mut self.homes[seat] {
            if matches!(*home, Home::Taken(taken) if taken == slot) {
                *home = Home::Free(slot);
                return;
            }
        }
        self.spare.push(slot);
    }
}

impl Slots {
    fn new(shape: BatchShape) -> Self {
        Self {
            shape,
            lens: Vec::new(),
            open: Vec::new(),
            obs: ObsColumn::zeros(shape.obs_kind, 0),
            actions: ActionColumn::zeros(shape.act_kind, 0),
            rewards: Vec::new(),
            ends: Vec::new(),
            final_obs: Vec::new(),
            logp: Vec::new(),
            inputs: Vec::new(),
            values: Vec::new(),
            state_in: Vec::new(),
            versions: Vec::new(),
        }
    }

    /// Makes room for one column more.
    fn add(&mut self) -> usize {
        let BatchShape { steps, obs_len, obs_kind, act_len, dist_len, state_len, .. } = self.shape;
        match &mut self.obs {
            ObsColumn::F32(obs) => lengthen(obs, (steps + 1) * obs_len, 0.0),
            ObsColumn::U8(obs) => lengthen(obs, (steps + 1) * obs_len, 0),
        }
        match &mut self.actions {
            ActionColumn::U32(actions) => lengthen(actions, steps * act_len, 0),
            ActionColumn::F32(actions) => lengthen(actions, steps * act_len, 0.0),
        }
        lengthen(&mut self.rewards, steps, 0.0);
        lengthen(&mut self.ends, steps, End::No);
        lengthen(&mut self.logp, steps, 0.0);
        lengthen(&mut self.inputs, steps * dist_len, 0.0);
        lengthen(&mut self.values, steps + 1, 0.0);
        lengthen(&mut self.state_in, state_len, 0.0);
        lengthen(&mut self.versions, steps, 0);
        self.final_obs.push(FinalObs::new(obs_kind, obs_len));
        self.open.push(false);
        self.lens.push(0);
        self.lens.len() - 1
    }

    fn clear(&mut self, slot: usize) {
        (self.lens[slot], self.open[slot]) = (0, false);
        self.final_obs[slot].clear();
    }

    /// Writes what lies in some slots as the columns of a batch.
    fn write(&self, written: &[(usize, usize)], batch: &mut SampleBatch) -> Result<(), BatchError> {
        let BatchShape { steps, obs_len, act_len, dist_len, state_len, .. } = self.shape;
        match (self.obs.view(), batch.obs_mut()) {
            (ObsView::F32(from), ObsViewMut::F32(to)) => spread(from, to, written, (steps + 1, obs_len)),
            (ObsView::U8(from), ObsViewMut::U8(to)) => spread(from, to, written, (steps + 1, obs_len)),
            // Both were made from the same shape.
            (ObsView::F32(_), ObsViewMut::U8(_)) | (ObsView::U8(_), ObsViewMut::F32(_)) => {}
        }
        match (self.actions.view(), batch.actions_mut()) {
            (ActionView::U32(from), ActionViewMut::U32(to)) => spread(from, to, written, (steps, act_len)),
            (ActionView::F32(from), ActionViewMut::F32(to)) => spread(from, to, written, (steps, act_len)),
            (ActionView::U32(_), ActionViewMut::F32(_)) | (ActionView::F32(_), ActionViewMut::U32(_)) => {}
        }
        spread(&self.rewards, batch.rewards_mut(), written, (steps, 1));
        spread(&self.ends, batch.ends_mut(), written, (steps, 1));
        spread(&self.logp, batch.behaviour_logp_mut(), written, (steps, 1));
        spread(&self.inputs, batch.behaviour_inputs_mut(), written, (steps, dist_len));
        spread(&self.values, batch.behaviour_values_mut(), written, (steps + 1, 1));
        spread(&self.versions, batch.versions_mut(), written, (steps, 1));
        for (b, (_, slot)) in written.iter().enumerate() {
            let state = &self.state_in[slot * state_len..(slot + 1) * state_len];
            batch.state_in_mut()[b * state_len..(b + 1) * state_len].copy_from_slice(state);
            for (t, _, row) in self.final_obs[*slot].iter() {
                batch.final_obs_mut().push(t as usize, b, row)?;
            }
        }
        Ok(())
    }
}

fn lengthen<T: Copy>(column: &mut Vec<T>, by: usize, with: T) {
    column.resize(column.len() + by, with);
}

/// Writes columns of `rows` rows of `row_len` elements, which lie in slots one after the other, side by side.
fn spread<T: Copy>(from: &[T], to: &mut [T], written: &[(usize, usize)], (rows, row_len): (usize, usize)) {
    // To copy a few elements costs less than to find out that they are few.
    match row_len {
        1 => return spread_short::<T, 1>(from, to, written, rows),
        2 => return spread_short::<T, 2>(from, to, written, rows),
        4 => return spread_short::<T, 4>(from, to, written, rows),
        _ => {}
    }
    for (b, (_, slot)) in written.iter().enumerate() {
        let column = from[slot * rows * row_len..].chunks_exact(row_len).take(rows);
        for (to, from) in to.chunks_exact_mut(row_len).skip(b).step_by(written.len()).zip(column) {
            to.copy_from_slice(from);
        }
    }
}

fn spread_short<T: Copy, const LEN: usize>(from: &[T], to: &mut [T], written: &[(usize, usize)], rows: usize) {
    let (from, to) = (from.as_chunks::<LEN>().0, to.as_chunks_mut::<LEN>().0);
    for (b, (_, slot)) in written.iter().enumerate() {
        for (to, from) in to.iter_mut().skip(b).step_by(written.len()).zip(&from[slot * rows..(slot + 1) * rows]) {
            *to = *from;
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use pronk_buffer::{ActionKind, ObsKind, Pool, Tag};
    use pronk_policy::Rng;

    use super::*;

    const STEPS: usize = 3;
    const SEATS: usize = 5;

    impl Home {
        fn slot(self) -> Option<usize> {
            match self {
                Home::NotYet => None,
                Home::Free(slot) | Home::Taken(slot) => Some(slot),
            }
        }
    }

    fn shape(columns: usize) -> BatchShape {
        BatchShape {
            steps: STEPS,
            columns,
            obs_len: 2,
            obs_kind: ObsKind::F32,
            act_len: 1,
            act_kind: ActionKind::U32,
            dist_len: 3,
            state_len: 1,
        }
    }

    /// The `number`th step of a seat, with numbers that tell where they belong.
    fn begin(columns: &mut Columns, seat: usize, number: usize) {
        let (tell, n) = ((10_000 * seat + number) as f32, number as u32);
        let step = Begun {
            obs: ObsView::F32(&[tell, -tell]),
            action: ActionView::U32(&[n]),
            logp: tell + 0.25,
            inputs: &[tell, tell + 1.0, tell + 2.0],
            value: tell + 0.5,
            state: &[tell + 0.75],
            version: number as u64,
        };
        columns.begin(seat, &step);
        columns.pay(seat, tell + 0.125);
    }

    #[test]
    fn what_was_done_is_where_it_belongs_and_seats_fill_slots_of_their_own() {
        let (mut columns, mut rng) = (Columns::new(shape(1), SEATS), Rng::seed_from(3));
        let (mut steps_of, mut columns_of) = ([0; SEATS], [0; SEATS]);
        let mut slots_of = vec![Vec::new(); SEATS];
        for _ in 0..300 {
            while columns.n_full() < SEATS {
                // Nobody is more than a column ahead, in no order.
                let seat = rng.below(SEATS as u64) as usize;
                if steps_of[seat] > steps_of.iter().min().unwrap() + STEPS {
                    continue;
                }
                let tell = (10_000 * seat + steps_of[seat]) as f32;
                columns.ask(seat, ObsView::F32(&[tell, -tell]), tell + 0.5);
                begin(&mut columns, seat, steps_of[seat]);
                slots_of[seat].extend(columns.filling[seat]);
                steps_of[seat] += 1;
                if rng.below(4) == 0 {
                    columns.end(seat, End::Terminated, ObsView::F32(&[])).unwrap();
                }
            }
            let mut batch = Pool::new(1).take(shape(SEATS), Tag { worker: 1, incarnation: 0, sequence: 0 });
            columns.write(&mut batch).unwrap();
            for b in 0..SEATS {
                let seat = batch.behaviour_logp()[b] as usize / 10_000;
                for t in 0..STEPS {
                    let (row, number) = (t * SEATS + b, columns_of[seat] * STEPS + t);
                    let tell = (10_000 * seat + number) as f32;
                    assert_eq!(batch.obs().as_f32().unwrap()[2 * row..2 * row + 2], [tell, -tell]);
                    assert_eq!(batch.rewards()[row], tell + 0.125);
                    assert_eq!(batch.behaviour_logp()[row], tell + 0.25);
                    assert_eq!(batch.behaviour_inputs()[3 * row..3 * row + 3], [tell, tell + 1.0, tell + 2.0]);
                    assert_eq!(batch.behaviour_values()[row], tell + 0.5);
                    assert_eq!(batch.versions()[row], number as u64);
                }
                assert_eq!(batch.state_in()[b], (10_000 * seat + columns_of[seat] * STEPS) as f32 + 0.75);
                columns_of[seat] += 1;
            }
        }
        // A seat that is ahead has two full columns and fills a third, and it is not handed the slots of others for good.
        assert!(columns.slots.lens.len() <= 3 * SEATS, "{}", columns.slots.lens.len());
        let homes: Vec<_> = (0..SEATS).map(|seat| columns.homes[seat].map(Home::slot)).collect();
        for (seat, slots) in slots_of.iter().enumerate() {
            let others = homes.iter().enumerate().filter(|(other, _)| *other != seat).flat_map(|(_, homes)| *homes);
            assert!(others.flatten().all(|home| !slots.contains(&home)), "{seat}: {homes:?}");
        }
    }
}
