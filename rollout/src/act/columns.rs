use pronk_buffer::{BatchError, BatchShape, End, ObsColumn, ObsView, SampleBatch};

use super::column_storage::{ColumnStorage, Filled, NewStep, Progress, SavedColumn, clear_obs};

/// The columns of one policy: one being filled for every seat (an agent of an environment), and the full
/// ones. A step begins when the agent acts, and is complete when the agent next has to act or its episode
/// ends.
pub(crate) struct Columns {
    /// The shape of one column.
    shape: BatchShape,
    /// `[seats]`: the slot being filled; `None` until the agent's first step under this policy.
    filling: Vec<Option<usize>>,
    /// Seats with the slots that they filled, oldest first.
    full: Vec<(usize, usize)>,
    /// `[seats]`: two, so that one fills while the other is full.
    homes: Vec<[Home; 2]>,
    /// Free slots that are no seat's home.
    spare: Vec<usize>,
    slots: ColumnStorage,
}

/// A slot that a seat prefers. Without homes the slots of neighbouring seats scatter over memory, and loops
/// over thousands of seats take twice as long.
#[derive(Clone, Copy)]
enum Home {
    NotYet,
    Free(usize),
    Taken(usize),
}

impl Columns {
    /// For `n_seats` seats; `shape` is that of one column.
    pub(crate) fn new(shape: BatchShape, n_seats: usize) -> Self {
        Self {
            shape,
            filling: vec![None; n_seats],
            full: Vec::new(),
            homes: vec![[Home::NotYet; 2]; n_seats],
            spare: Vec::new(),
            slots: ColumnStorage::new(shape),
        }
    }

    /// `T`.
    pub(crate) fn steps(&self) -> usize {
        self.shape.steps
    }

    /// Whether the column lacks only the observation that the agent has to act on next, and its value.
    pub(crate) fn lacks_the_last_row(&self, seat: usize) -> bool {
        let progress = self.filling[seat].map(|slot| &self.slots.progress[slot]);
        progress.is_some_and(|progress| progress.is_open && progress.len == self.shape.steps)
    }

    /// The agent has to act on `obs`: this completes its last step, and perhaps its column.
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

    /// The agent acts.
    pub(crate) fn begin(&mut self, seat: usize, step: &NewStep<'_>) -> Result<(), BatchError> {
        let slot = self.filling[seat].unwrap_or_else(|| self.take_slot(seat));
        self.filling[seat] = Some(slot);
        self.slots.begin(slot, step)
    }

    /// Adds to the reward of the agent's last step; ignored before its first step of the episode.
    pub(crate) fn pay(&mut self, seat: usize, reward: f32) {
        if let Some((slot, t)) = self.last_step(seat) {
            let rewards = self.slots.layout.rewards;
            self.slots.numbers_mut(slot)[rewards + t] += reward;
        }
    }

    /// The agent's episode ends: this completes its last step, and perhaps its column. `obs` is the final
    /// observation, used if the episode is truncated.
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
            // Nothing is bootstrapped across an end: the last row is never read.
            clear_obs(slots.obs_row(slot, shape.steps));
            slots.numbers_mut(slot)[shape.steps] = 0.0;
            self.set_aside(seat);
        }
        Ok(())
    }

    /// Steps that the agent has begun in the column being filled.
    pub(crate) fn begun(&self, seat: usize) -> usize {
        self.filling[seat].map_or(0, |slot| self.slots.progress[slot].len)
    }

    /// The agent's last observation in the column being filled.
    pub(crate) fn last_obs(&self, seat: usize) -> Option<ObsColumn> {
        let (slot, t) = self.last_step(seat)?;
        Some(match self.slots.obs.view().row(slot * (self.shape.steps + 1) + t, self.shape.obs_len) {
            ObsView::F32(row) => ObsColumn::F32(row.to_vec()),
            ObsView::U8(row) => ObsColumn::U8(row.to_vec()),
        })
    }

    /// Discards the column being filled.
    pub(crate) fn forget(&mut self, seat: usize) {
        if let Some(slot) = self.filling[seat].take() {
            self.give_back(seat, slot);
        }
    }

    /// The number of full columns.
    pub(crate) fn n_full(&self) -> usize {
        self.full.len()
    }

    /// Moves the columns that have been full for longest into the batch, ordered by seat.
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

    /// Discards every step and keeps the storage.
    pub(crate) fn clear(&mut self) {
        for seat in 0..self.filling.len() {
            self.forget(seat);
        }
        for (seat, slot) in std::mem::take(&mut self.full) {
            self.give_back(seat, slot);
        }
    }

    /// All columns that have steps, for a checkpoint: those being filled by seat, and the full ones, oldest
    /// first.
    pub(crate) fn save(&self) -> Vec<SavedColumn> {
        let filling = self.filling.iter().enumerate().filter_map(|(seat, slot)| Some((seat, (*slot)?)));
        let full = self.full.iter().map(|(seat, slot)| self.slots.save(*seat, *slot, Filled::Full));
        filling.map(|(seat, slot)| self.slots.save(seat, slot, Filled::Partly)).chain(full).collect()
    }

    /// Continues with saved columns. An error says how they do not fit.
    pub(crate) fn load(&mut self, saved: &[SavedColumn]) -> Result<(), String> {
        self.clear();
        for column in saved {
            if column.seat >= self.filling.len() {
                return Err(format!("it has a column of seat {}, of {}", column.seat, self.filling.len()));
            }
            if column.filled == Filled::Partly && self.filling[column.seat].is_some() {
                return Err(format!("seat {} fills two columns", column.seat));
            }
            let slot = self.take_slot(column.seat);
            self.slots.load(slot, column)?;
            match column.filled {
                Filled::Partly => self.filling[column.seat] = Some(slot),
                Filled::Full => self.full.push((column.seat, slot)),
            }
        }
        Ok(())
    }

    /// The slot being filled and its last step, if that is incomplete.
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
