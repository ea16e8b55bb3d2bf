use pronk_buffer::{BatchError, BatchShape, End, ObsColumn, ObsView, SampleBatch};

use super::column_slots::{Begun, Progress, Slots, clear_obs};

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
        let progress = self.filling[seat].map(|slot| &self.slots.progress[slot]);
        progress.is_some_and(|progress| progress.is_open && progress.len == self.shape.steps)
    }

    /// The agent is asked to act upon `obs`: its last step is complete, and so may be its column.
    pub(crate) fn ask(&mut self, seat: usize, obs: ObsView<'_>, value: f32) -> Result<(), BatchError> {
        let Some(slot) = self.filling[seat] else { return Ok(()) };
        let Progress { len, is_open, .. } = &mut self.slots.progress[slot];
        if std::mem::take(is_open) && *len == self.shape.steps {
            self.slots.obs_row(slot, self.shape.steps).copy_from(obs)?;
            self.slots.numbers_mut(slot)[self.shape.steps] = value;
            self.set_aside(seat);
        }
        Ok(())
    }

    /// The agent, which was asked, acts.
    pub(crate) fn begin(&mut self, seat: usize, step: &Begun<'_>) -> Result<(), BatchError> {
        let slot = self.filling[seat].unwrap_or_else(|| self.take_slot(seat));
        self.filling[seat] = Some(slot);
        self.slots.begin(slot, step)
    }

    /// The agent is paid for what it did last; nothing, if it has done nothing in this episode.
    pub(crate) fn pay(&mut self, seat: usize, reward: f32) {
        if let Some((slot, t)) = self.last_step(seat) {
            let rewards = self.slots.layout.rewards;
            self.slots.numbers_mut(slot)[rewards + t] += reward;
        }
    }

    /// The agent's episode ends: its last step is complete, and so may be its column. `obs` is what it would have gone on
    /// from, had it not been cut off.
    pub(crate) fn end(&mut self, seat: usize, end: End, obs: ObsView<'_>) -> Result<(), BatchError> {
        let Some((slot, t)) = self.last_step(seat) else { return Ok(()) };
        let Self { slots, shape, .. } = self;
        let Progress { is_open, final_obs, .. } = &mut slots.progress[slot];
        *is_open = false;
        if end == End::Truncated {
            final_obs.push(t, 0, obs)?;
        }
        slots.ends[slot * shape.steps + t] = end;
        if t + 1 == shape.steps {
            // Nothing follows an end, so what stands in the last row is never looked at.
            clear_obs(slots.obs_row(slot, shape.steps));
            slots.numbers_mut(slot)[shape.steps] = 0.0;
            self.set_aside(seat);
        }
        Ok(())
    }

    /// Steps that the agent has begun in the column that is being filled.
    pub(crate) fn begun(&self, seat: usize) -> usize {
        self.filling[seat].map_or(0, |slot| self.slots.progress[slot].len)
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
        let slot = self.filling[seat]?;
        let Progress { len, is_open, .. } = &self.slots.progress[slot];
        is_open.then(|| (slot, *len - 1))
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

#[cfg(test)]
mod tests;
