//! The size rule of train batches.

/// Collects whole pieces until their sizes sum to a threshold.
///
/// The rule is RLlib's: a piece is never split, so a batch may be larger than the threshold.
///
/// ```
/// use pronk_buffer::Accumulate;
///
/// let mut sizes = Accumulate::new(100);
/// assert!(sizes.push("a", 60).is_none());
/// let batch = sizes.push("b", 60).unwrap();
/// assert_eq!((batch.pieces, batch.size), (vec!["a", "b"], 120));
/// assert_eq!(sizes.size(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Accumulate<T> {
    threshold: u64,
    gathered: Gathered<T>,
}

/// Pieces in order of arrival, and the sum of their sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered<T> {
    /// The pieces.
    pub pieces: Vec<T>,
    /// The sum of their sizes.
    pub size: u64,
}

impl<T> Accumulate<T> {
    /// Empty. A threshold of 0 makes every piece a batch of its own.
    pub fn new(threshold: u64) -> Self {
        Self { threshold, gathered: Gathered { pieces: Vec::new(), size: 0 } }
    }

    /// Adds a piece; returns all pieces once their sizes reach the threshold.
    pub fn push(&mut self, piece: T, size: u64) -> Option<Gathered<T>> {
        self.gathered.pieces.push(piece);
        self.gathered.size += size;
        (self.gathered.size >= self.threshold).then(|| self.take())
    }

    /// The sum of the sizes so far.
    pub fn size(&self) -> u64 {
        self.gathered.size
    }

    /// The pieces so far.
    pub fn pieces(&self) -> &[T] {
        &self.gathered.pieces
    }

    /// Takes the pieces, whatever their size.
    pub fn take(&mut self) -> Gathered<T> {
        std::mem::replace(&mut self.gathered, Gathered { pieces: Vec::new(), size: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs sizes through and gives the numbers of the pieces that came out together, and what stayed.
    fn batches(threshold: u64, sizes: &[u64]) -> (Vec<(Vec<usize>, u64)>, u64) {
        let mut accumulate = Accumulate::new(threshold);
        let emitted = sizes.iter().enumerate().filter_map(|(i, size)| accumulate.push(i, *size));
        let emitted = emitted.map(|batch| (batch.pieces, batch.size)).collect();
        (emitted, accumulate.size())
    }

    #[test]
    fn pieces_are_never_split_and_the_surplus_goes_out_with_them() {
        let (emitted, left) = batches(100, &[30, 30, 30, 30, 250, 10, 99, 1, 1]);
        assert_eq!(emitted, [(vec![0, 1, 2, 3], 120), (vec![4], 250), (vec![5, 6], 109)]);
        assert_eq!(left, 2);
    }

    #[test]
    fn the_threshold_itself_is_enough_and_one_less_is_not() {
        assert_eq!(batches(60, &[59]), (vec![], 59));
        assert_eq!(batches(60, &[59, 1]), (vec![(vec![0, 1], 60)], 0));
    }

    #[test]
    fn take_gives_what_waits_and_leaves_nothing() {
        let mut accumulate = Accumulate::new(10);
        assert_eq!(accumulate.push("a", 4), None);
        assert_eq!(accumulate.pieces(), ["a"]);
        assert_eq!(accumulate.take(), Gathered { pieces: vec!["a"], size: 4 });
        assert_eq!((accumulate.size(), accumulate.pieces().len()), (0, 0));
    }
}
