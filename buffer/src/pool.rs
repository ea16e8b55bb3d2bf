//! Recycled storage of batches.

use std::collections::VecDeque;

use crate::batch::{BatchShape, Columns, End, Tag};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Recycles the storage of batches: dropping a [`SampleBatch`](crate::SampleBatch) made here returns its
/// vectors.
///
/// A steady run drops as many batches as it takes, so it soon allocates nothing. Clones share the storage.
/// Batches may outlive the pool.
///
/// ```
/// use pronk_buffer::{ActionKind, BatchShape, ObsKind, Pool, Tag};
///
/// let pool = Pool::new(4);
/// let shape = BatchShape {
///     steps: 2,
///     columns: 1,
///     obs_len: 4,
///     obs_kind: ObsKind::F32,
///     act_len: 1,
///     act_kind: ActionKind::U32,
///     dist_len: 2,
///     state_len: 0,
/// };
/// let batch = pool.take(shape, Tag::default());
/// let address = batch.rewards().as_ptr();
/// drop(batch);
/// assert_eq!(pool.idle(), 1);
/// assert_eq!(pool.take(shape, Tag::default()).rewards().as_ptr(), address);
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    shelf: Arc<Shelf>,
}

#[derive(Debug)]
struct Shelf {
    max_idle: usize,
    idle: Mutex<VecDeque<Idle>>,
}

#[derive(Debug)]
struct Idle {
    shape: BatchShape,
    storage: Storage,
}

/// The vectors of a batch.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) columns: Columns,
    pub(crate) obs_starts: Vec<usize>,
    pub(crate) tags: Vec<Tag>,
}

/// Whether observations may have elements in common. Those that have are much shorter, so their memory is
/// kept for their like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    Apart,
    Shared,
}

impl Storage {
    fn rows(&self) -> Rows {
        if self.obs_starts.is_empty() { Rows::Apart } else { Rows::Shared }
    }
}

impl Pool {
    /// Keeps at most `max_idle` unused batches and frees the least recently used. A run needs one for each
    /// worker, or two if it stores frames once, one for each place in the inqueue, and those of the train
    /// batches in the minibatch buffer.
    pub fn new(max_idle: usize) -> Self {
        Self { shelf: Arc::new(Shelf { max_idle, idle: Mutex::new(VecDeque::new()) }) }
    }

    /// The number of unused batches.
    pub fn idle(&self) -> usize {
        self.shelf.lock().len()
    }

    /// Storage for a batch of this shape, with no ends, final observations or tags, and without any
    /// observations if they are to share rows.
    pub(crate) fn take_storage(&self, shape: BatchShape, rows: Rows) -> Storage {
        let mut storage = match self.shelf.find(&shape, rows) {
            Some(Idle { shape: kept, mut storage }) => {
                if kept != shape {
                    storage.columns.resize(&shape);
                }
                storage.columns.ends.fill(End::No);
                storage.columns.final_obs.clear();
                storage.tags.clear();
                storage
            }
            None => Storage { columns: Columns::without_obs(&shape), obs_starts: Vec::new(), tags: Vec::new() },
        };
        let obs = match rows {
            Rows::Apart => shape.cells_and_last() * shape.obs_len,
            Rows::Shared => 0,
        };
        storage.columns.obs.resize(obs);
        storage.obs_starts.clear();
        storage
    }

    pub(crate) fn put_back(&self, shape: BatchShape, storage: Storage) {
        let mut idle = self.shelf.lock();
        idle.push_back(Idle { shape, storage });
        let surplus = if idle.len() > self.shelf.max_idle { idle.pop_front() } else { None };
        drop(idle);
        drop(surplus); // freed outside the lock
    }
}

impl Shelf {
    /// Takes storage of this shape, the most recently used first, which is likeliest in the cache; else
    /// storage of another number of columns, which varies in multi-agent runs.
    fn find(&self, shape: &BatchShape, rows: Rows) -> Option<Idle> {
        let mut idle = self.lock();
        let find = |fits: &dyn Fn(&BatchShape) -> bool| {
            idle.iter().rposition(|kept| kept.storage.rows() == rows && fits(&kept.shape))
        };
        let exact = find(&|kept| kept == shape);
        let like = || find(&|kept| kept.with_columns(shape.columns) == *shape);
        let at = exact.or_else(like)?;
        idle.remove(at)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        // Nothing that can panic runs under this lock.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::batch::SampleBatch;
    use crate::batch::tests::shape;

    /// Where the storage of every column lies, and how much there is.
    fn storage(batch: &SampleBatch) -> [(usize, usize); 4] {
        let obs = batch.obs().as_f32().unwrap();
        let (rewards, inputs) = (batch.rewards(), batch.behaviour_inputs());
        [
            (obs.as_ptr() as usize, obs.len()),
            (rewards.as_ptr() as usize, rewards.len()),
            (inputs.as_ptr() as usize, inputs.len()),
            (batch.versions().as_ptr() as usize, batch.versions().len()),
        ]
    }

    #[test]
    fn a_steady_cycle_of_take_fill_join_drop_allocates_no_storage() {
        let pool = Pool::new(8);
        let mut seen = HashSet::new();
        for round in 0..20 {
            let fragments: Vec<_> = (0..3)
                .map(|worker| {
                    let mut fragment = pool.take(shape(4, 2), Tag { worker, ..Tag::default() });
                    fragment.rewards_mut().fill(1.0);
                    fragment
                })
                .collect();
            let mut used: Vec<_> = fragments.iter().map(storage).collect();
            let joined = SampleBatch::join(fragments, &pool).unwrap();
            used.push(storage(&joined));
            let new = used.into_iter().filter(|storage| seen.insert(*storage)).count();
            assert_eq!(new, if round == 0 { 4 } else { 0 }, "round {round}");
        }
        assert_eq!(pool.idle(), 4);
    }

    #[test]
    fn recycled_storage_has_no_ends_no_final_observations_and_only_the_new_tag() {
        let pool = Pool::new(1);
        let mut batch = pool.take(shape(2, 2), Tag::default());
        batch.ends_mut()[3] = End::Truncated;
        batch.final_obs_mut().push(1, 1, &[0.0_f32; 3][..]).unwrap();
        drop(batch);
        let tag = Tag { worker: 5, incarnation: 1, slot: 9, ..Tag::default() };
        let batch = pool.take(shape(2, 2), tag);
        assert_eq!(batch.tags(), [tag]);
        assert!(batch.final_obs().is_empty());
        assert_eq!(batch.check_ends(), Ok(()));
        assert!(batch.ends().iter().all(|end| *end == End::No));
    }

    #[test]
    fn storage_serves_its_own_row_lengths_only_and_the_longest_unused_is_freed() {
        let pool = Pool::new(2);
        for steps in 1..=3 {
            drop(pool.take(shape(steps, 1), Tag::default()));
        }
        assert_eq!(pool.idle(), 2);
        let batch = pool.take(shape(1, 1), Tag::default());
        assert_eq!(pool.idle(), 2, "the first shape was freed");
        drop(batch);
        let batch = pool.take(shape(3, 1), Tag::default());
        assert_eq!((pool.idle(), batch.rewards().len()), (1, 3));
    }

    #[test]
    fn storage_serves_another_number_of_columns() {
        let pool = Pool::new(1);
        let wide = pool.take(shape(3, 4), Tag::default());
        let place = storage(&wide)[0].0;
        drop(wide);
        for columns in [2, 4, 1] {
            let batch = pool.take(shape(3, columns), Tag::default());
            assert_eq!((storage(&batch)[0].0, batch.rewards().len()), (place, 3 * columns));
            assert_eq!(batch.check_ends(), Ok(()));
            assert!(batch.ends().len() == 3 * columns && batch.state_in().len() == columns * batch.shape().state_len);
        }
    }

    #[test]
    fn storage_goes_home_from_another_thread_and_outlives_the_pool() {
        let pool = Pool::new(2);
        let batch = pool.take(shape(1, 1), Tag::default());
        let orphan = pool.take(shape(1, 1), Tag::default());
        std::thread::spawn(move || drop(batch)).join().unwrap();
        assert_eq!(pool.idle(), 1);
        drop(pool);
        assert_eq!(orphan.rewards().len(), 1);
    }
}
