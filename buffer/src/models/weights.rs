use pronk_model::{check, exhaust, sometimes, thread};

use super::SCHEDULES;
use crate::weight_cell;

/// A reader never goes back to older weights, and after reading a version number finds weights as new.
#[test]
fn weights_only_get_newer() {
    exhaust("weight cell", || {
        let (mut publisher, cell) = weight_cell(0_u64);
        let reader = thread::spawn(move || {
            let (version, first) = (cell.version(), cell.load());
            assert!(first.version >= version && first.weights == first.version);
            assert!(cell.load().version >= first.version);
        });
        publisher.publish(1);
        publisher.publish(2);
        reader.join().unwrap();
    });
}

/// Weights that a reader holds are not written over, and once no reader holds them, their memory is used
/// again.
#[test]
fn weights_that_are_read_do_not_change() {
    check("weight cell, recycled", SCHEDULES, || {
        let (mut publisher, cell) = weight_cell(vec![0_u64; 2]);
        let readers = [cell.clone(), cell].map(|cell| {
            thread::spawn(move || {
                for _ in 0..2 {
                    let held = cell.load();
                    thread::yield_now();
                    assert_eq!(held.weights, [held.version; 2]);
                }
            })
        });
        for version in 1..=3 {
            publisher.publish_with(|recycled| {
                sometimes("memory is used again", recycled.is_some());
                sometimes("all memory is being read", version > 1 && recycled.is_none());
                let mut weights = recycled.unwrap_or_else(|| vec![0; 2]);
                weights.fill(version);
                weights
            });
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        publisher.publish_with(|recycled| recycled.unwrap());
    });
}
