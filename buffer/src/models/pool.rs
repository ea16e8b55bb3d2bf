use pronk_model::{exhaust, thread};

use super::SHAPE;
use crate::{Pool, Tag};

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
