//! Where the storage of batches waits between two uses.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::batch::{BatchShape, Columns, End, SampleBatch, Tag};

/// Storage for batches that comes back by itself: dropping a [`SampleBatch`] made here returns its vectors.
///
/// A steady run takes as many batches of a shape as it drops, so after the first few it allocates nothing. Clones share
/// the storage. It may be dropped before the batches made from it.
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
    columns: Columns,
    tags: Vec<Tag>,
}

impl Pool {
    /// Keeps at most `max_idle` unused batches; the one unused for longest is freed beyond that. Enough is what a run
    /// holds at once: one fragment a worker, a full inqueue, and the train batches in the minibatch buffer.
    pub fn new(max_idle: usize) -> Self {
        Self {
            shelf: Arc::new(Shelf {
                max_idle,
                idle: Mutex::new(VecDeque::new()),
            }),
        }
    }

    /// A batch of this shape, from recycled storage when there is some, to be written in place. For shapes that passed
    /// [`BatchShape::check`].
    ///
    /// Every end is [`End::No`] and there are no final observations; the other columns hold whatever was in them, so
    /// write all of them.
    pub fn take(&self, shape: BatchShape, tag: Tag) -> SampleBatch {
        let mut batch = self.take_untagged(shape);
        batch.tags_mut().push(tag);
        batch
    }

    /// How many unused batches are kept.
    pub fn idle(&self) -> usize {
        self.shelf.lock().len()
    }

    pub(crate) fn take_untagged(&self, shape: BatchShape) -> SampleBatch {
        let (columns, tags) = match self.shelf.find(&shape) {
            Some(Idle {
                mut columns,
                mut tags,
                ..
            }) => {
                columns.ends.fill(End::No);
                columns.final_obs.clear();
                tags.clear();
                (columns, tags)
            }
            None => (Columns::zeros(&shape), Vec::new()),
        };
        SampleBatch::from_storage(shape, columns, tags, self.clone())
    }

    pub(crate) fn put_back(&self, shape: BatchShape, columns: Columns, tags: Vec<Tag>) {
        let mut idle = self.shelf.lock();
        idle.push_back(Idle {
            shape,
            columns,
            tags,
        });
        let surplus = if idle.len() > self.shelf.max_idle {
            idle.pop_front()
        } else {
            None
        };
        drop(idle);
        drop(surplus); // freed outside the lock
    }
}

impl Shelf {
    /// Takes storage of exactly this shape, the most recently used first: it is the likeliest to be in the cache.
    fn find(&self, shape: &BatchShape) -> Option<Idle> {
        let mut idle = self.lock();
        let at = idle.iter().rposition(|kept| kept.shape == *shape)?;
        idle.remove(at)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        // Nothing that can panic runs under this lock, so a poisoned one still guards a whole list.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
