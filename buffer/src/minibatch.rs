//! Several passes over train batches.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{NextError, Source};

#[cfg(test)]
mod tests;

/// A ring of slots that returns every item for `num_passes` passes: RLlib's `MinibatchBuffer`.
///
/// The ring moves to the next slot at every call, so with two slots and two passes items come as a, b, a, b.
/// A slot whose item has no passes left loads the next one in its turn, and waits for it even if other slots
/// have passes left. The first item gets `init_num_passes`, each later one a pass more, up to `num_passes`;
/// an `init_num_passes` above that stays. An item with 0 passes is returned once.
///
/// The last pass gives the item away, so that its storage leaves the ring.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::time::Duration;
/// use pronk_buffer::{Gate, MinibatchBuffer, Pass, inqueue, shutdown};
///
/// let (_guard, token) = shutdown();
/// let (sender, receiver) = inqueue(4, Gate::Bounded, &token)?;
/// let mut buffer = MinibatchBuffer::new(receiver, NonZeroUsize::MIN, 2, 2);
/// sender.push("batch")?;
///
/// let first = buffer.next(Duration::ZERO)?;
/// assert!(matches!(first.pass, Pass::Again(_)) && first.number == 1);
/// let second = buffer.next(Duration::ZERO)?;
/// assert!(matches!(second.pass, Pass::Last("batch")) && second.number == 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MinibatchBuffer<S: Source> {
    source: S,
    slots: Vec<Slot<S::Item>>,
    position: usize,
    num_passes: u32,
    next_load_passes: u32,
    last_shown: usize,
    /// Slots of a resumed run whose items have not returned yet, each with its passes left and shown.
    returning: VecDeque<(usize, i64, u32)>,
}

/// The slots of a ring, for a checkpoint. Their items come first of the source of a resumed run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRing {
    /// Of every slot: passes left and shown, if it has an item.
    pub slots: Vec<Option<(i64, u32)>>,
    /// The next slot.
    pub position: usize,
    /// Passes of the next item to be loaded.
    pub next_load_passes: u32,
}

impl SavedRing {
    /// How many items return.
    pub fn n_items(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}

#[derive(Debug)]
struct Slot<T> {
    /// Present while passes are left.
    item: Option<T>,
    /// Signed, because an item of 0 passes then has -1.
    passes_left: i64,
    passes_shown: u32,
}

impl<S: Source> MinibatchBuffer<S> {
    /// A ring of `size` empty slots in front of `source`. Without warm-up, as in RLlib, both numbers are
    /// `num_sgd_iter`.
    pub fn new(source: S, size: NonZeroUsize, num_passes: u32, init_num_passes: u32) -> Self {
        let slots = (0..size.get()).map(|_| Slot { item: None, passes_left: 0, passes_shown: 0 }).collect();
        Self {
            source,
            slots,
            position: 0,
            num_passes,
            next_load_passes: init_num_passes,
            last_shown: 0,
            returning: VecDeque::new(),
        }
    }

    /// Continues a saved ring: the source's first items return to its slots, in their order.
    ///
    /// A ring with fewer slots than the saved one shows the items beyond it from the start, as new ones.
    pub fn resume(&mut self, saved: &SavedRing) {
        let slots = saved.slots.iter().take(self.slots.len()).enumerate();
        self.returning = slots.filter_map(|(slot, passes)| passes.map(|(left, shown)| (slot, left, shown))).collect();
        self.position = saved.position % self.slots.len();
        self.next_load_passes = saved.next_load_passes;
    }

    /// The slots, for a checkpoint, with their items in order. Items that have not returned to their slots
    /// since the ring was resumed are still the first of the source.
    pub fn save(&self) -> (SavedRing, Vec<&S::Item>) {
        let passes = |slot: &Slot<S::Item>| slot.item.as_ref().map(|_| (slot.passes_left, slot.passes_shown));
        let mut slots: Vec<_> = self.slots.iter().map(passes).collect();
        for (slot, left, shown) in &self.returning {
            slots[*slot] = Some((*left, *shown));
        }
        let saved = SavedRing { slots, position: self.position, next_load_passes: self.next_load_passes };
        (saved, self.slots.iter().filter_map(|slot| slot.item.as_ref()).collect())
    }

    /// Loads an item into the next slot, if it is empty.
    ///
    /// *Blocks* for at most `timeout`, and only if the slot is empty.
    ///
    /// # Errors
    /// Those of the source; position and warm-up are unchanged then.
    pub fn load(&mut self, timeout: Duration) -> Result<(), NextError> {
        while let Some((slot, passes_left, passes_shown)) = self.returning.front().copied() {
            let item = Some(self.source.next(timeout)?);
            self.slots[slot] = Slot { item, passes_left, passes_shown };
            self.returning.pop_front();
        }
        let slot = &mut self.slots[self.position];
        if slot.item.is_none() {
            slot.item = Some(self.source.next(timeout)?);
            slot.passes_left = self.next_load_passes.into();
            slot.passes_shown = 0;
            if self.next_load_passes < self.num_passes {
                self.next_load_passes += 1;
            }
        }
        Ok(())
    }

    /// Returns the item of the current slot, loading one if the slot is empty, and moves on to the next slot.
    ///
    /// *Blocks* as [`load`](Self::load).
    ///
    /// # Errors
    /// Those of the source; position and warm-up are unchanged then.
    pub fn next(&mut self, timeout: Duration) -> Result<Shown<'_, S::Item>, NextError> {
        self.load(timeout)?;
        let position = self.position;
        let slot = &mut self.slots[position];
        let Some(item) = slot.item.take() else {
            // Not reached: `load` has just filled the slot.
            return Err(NextError::TimedOut);
        };
        self.position = (position + 1) % self.slots.len();
        self.last_shown = position;

        let slot = &mut self.slots[position];
        slot.passes_left -= 1;
        slot.passes_shown += 1;
        let number = slot.passes_shown;
        let pass = if slot.passes_left > 0 { Pass::Again(slot.item.insert(item)) } else { Pass::Last(item) };
        Ok(Shown { pass, number })
    }

    /// Whether the current slot is empty, so that [`next`](Self::next) takes an item from the source.
    pub fn needs_item(&self) -> bool {
        self.slots[self.position].item.is_none()
    }

    /// Takes the last returned item out of its slot, which ends its passes; `None` if it was given away.
    pub fn discard(&mut self) -> Option<S::Item> {
        let slot = &mut self.slots[self.last_shown];
        let item = slot.item.take()?;
        slot.passes_left = 0;
        Some(item)
    }

    /// The next slot.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Passes left in every slot.
    pub fn passes_left(&self) -> impl Iterator<Item = i64> {
        self.slots.iter().map(|slot| slot.passes_left)
    }

    /// Passes of the next item to be loaded.
    pub fn next_load_passes(&self) -> u32 {
        self.next_load_passes
    }

    /// The source of items.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// The source, to be saved.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// All items, here and in the source. Does not block.
    pub fn drain(&mut self) -> Vec<S::Item> {
        let mut held = Vec::new();
        for slot in &mut self.slots {
            slot.passes_left = 0;
            held.extend(slot.item.take());
        }
        held.extend(self.source.drain());
        held
    }
}

/// One pass over an item.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown<'a, T> {
    /// The item, lent or given away.
    pub pass: Pass<'a, T>,
    /// The number of the pass, from 1.
    pub number: u32,
}

/// An item: lent, or given away with its last pass.
#[derive(Debug, PartialEq, Eq)]
pub enum Pass<'a, T> {
    /// More passes follow.
    Again(&'a mut T),
    /// The last pass: dropping it returns its storage.
    Last(T),
}

impl<T> Pass<'_, T> {
    /// The item.
    pub fn item(&self) -> &T {
        match self {
            Self::Again(item) => item,
            Self::Last(item) => item,
        }
    }

    /// The item, mutable; later passes see the changes.
    pub fn item_mut(&mut self) -> &mut T {
        match self {
            Self::Again(item) => item,
            Self::Last(item) => item,
        }
    }

    /// Whether this is the last pass.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Last(_))
    }
}
