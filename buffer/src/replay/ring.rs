/// A ring of items, in which a new one replaces the oldest. The order is that of RLlib's storage, so the same
/// index draws the same item.
#[derive(Clone, Debug)]
pub(super) struct Ring<T> {
    places: Vec<T>,
    size: usize,
    /// The index of the oldest item once the ring is full.
    oldest: usize,
}

impl<T> Ring<T> {
    pub(super) fn new(size: usize) -> Self {
        Self { places: Vec::new(), size, oldest: 0 }
    }

    /// Drops the oldest item if the ring is full before it makes the new one, which can thus reuse the
    /// storage. Makes nothing if the size is 0.
    pub(super) fn store_with<E>(&mut self, make: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
        if self.size == 0 {
            return Ok(());
        }
        if self.places.len() < self.size {
            self.places.push(make()?);
            return Ok(());
        }
        // The last item stands in for the one taken out until the new one is there.
        drop(self.places.swap_remove(self.oldest));
        self.places.push(make()?);
        let last = self.places.len() - 1;
        self.places.swap(self.oldest, last);
        self.oldest = (self.oldest + 1) % self.size;
        Ok(())
    }

    /// Replaces all items; beyond the size, the oldest are dropped.
    pub(super) fn fill(&mut self, mut items: Vec<T>, oldest: usize) {
        if items.len() == self.size {
            (self.places, self.oldest) = (items, oldest);
            return;
        }
        // In a ring of another size the oldest is the first.
        let oldest = oldest.min(items.len());
        items.rotate_left(oldest);
        items.drain(..items.len().saturating_sub(self.size));
        (self.places, self.oldest) = (items, 0);
    }

    pub(super) fn items(&self) -> &[T] {
        &self.places
    }

    pub(super) fn oldest(&self) -> usize {
        self.oldest
    }

    pub(super) fn get(&self, place: usize) -> Option<&T> {
        self.places.get(place)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.oldest = 0;
    }
}
