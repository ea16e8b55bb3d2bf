use pronk_model::{exhaust, thread};

use crate::{ActionKind, BatchShape, ObsKind, Pool, Tag};

const SHAPE: BatchShape = BatchShape {
    steps: 2,
    columns: 1,
    obs_len: 1,
    obs_kind: ObsKind::F32,
    act_len: 1,
    act_kind: ActionKind::U32,
    dist_len: 2,
    state_len: 0,
};

/// No storage is handed out twice at a time, and the pool keeps no more than it may.
#[test]
fn storage_has_one_owner() {
    exhaust("pool", || {
        let pool = Pool::new(1);
        drop(pool.take(SHAPE, Tag::default()));
        let takers = [pool.clone(), pool.clone()].map(|pool| {
            thread::spawn(move || {
                let batch = pool.take(SHAPE, Tag::default());
                (batch.rewards().as_ptr() as usize, batch)
            })
        });
        let taken = takers.map(|taker| taker.join().unwrap());
        assert_ne!(taken[0].0, taken[1].0);
        let dropping = taken.map(|(_, batch)| thread::spawn(move || drop(batch)));
        dropping.into_iter().for_each(|dropping| dropping.join().unwrap());
        assert_eq!(pool.idle(), 1);
    });
}
