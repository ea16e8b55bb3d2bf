use std::collections::HashSet;
use std::thread;

use super::*;
use crate::batch::tests::moments;

#[test]
fn versions_count_publications_from_zero() {
    let (mut publisher, cell) = weight_cell('a');
    assert_eq!(*cell.load(), Versioned::new(0, 'a'));
    assert_eq!(publisher.publish('b'), 1);
    assert_eq!(publisher.publish_with(|_| 'c'), 2);
    assert_eq!(*cell.load(), Versioned::new(2, 'c'));
    assert_eq!((cell.version(), publisher.version(), cell.version_reader().current()), (2, 2, 2));
}

#[test]
fn weights_that_a_reader_holds_are_not_recycled() {
    let (mut publisher, cell) = weight_cell(vec![0_u64; 16]);
    let held = cell.load();
    for version in 1..=20 {
        publisher.publish_with(|recycled| {
            let mut weights = recycled.unwrap_or_else(|| vec![0; 16]);
            weights.fill(version);
            weights
        });
    }
    assert_eq!(held.weights, [0; 16], "as it was when it was loaded");
    assert_eq!(cell.load().weights, [20; 16]);
}

#[test]
fn a_steady_run_of_publications_allocates_no_weights() {
    let (mut publisher, cell) = weight_cell(vec![0_u64; 16]);
    let slow_readers: Vec<_> = (0..10)
        .map(|_| {
            publisher.publish(vec![0; 16]);
            cell.load()
        })
        .collect();
    let mut addresses = HashSet::new();
    for _ in 0..50 {
        publisher.publish_with(|recycled| recycled.unwrap_or_else(|| vec![0; 16]));
        addresses.insert(cell.load().weights.as_ptr() as usize);
    }
    assert!(addresses.len() <= 3, "{} buffers were used", addresses.len());
    drop(slow_readers);
}

#[test]
fn readers_see_whole_snapshots_whose_versions_never_go_back() {
    const LAST: u64 = if cfg!(miri) { 100 } else { 5_000 };
    let (mut publisher, cell) = weight_cell(vec![0_u64; 64]);
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let cell = cell.clone();
            thread::spawn(move || {
                let mut newest = 0;
                while newest < LAST {
                    let announced = cell.version();
                    let snapshot = cell.load();
                    assert!(snapshot.version >= announced, "the announced weights are there");
                    assert!(snapshot.version >= newest);
                    assert!(snapshot.weights.iter().all(|w| *w == snapshot.version), "not a mixture");
                    newest = snapshot.version;
                }
            })
        })
        .collect();
    for version in 1..=LAST {
        publisher.publish_with(|recycled| {
            let mut weights = recycled.unwrap_or_else(|| vec![0; 64]);
            weights.fill(version);
            weights
        });
    }
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn the_last_weights_stay_readable_when_the_publisher_is_gone() {
    let (mut publisher, cell) = weight_cell(1);
    publisher.publish(2);
    let other = publisher.cell();
    drop(publisher);
    assert_eq!((cell.load().weights, other.load().weights), (2, 2));
}

#[test]
fn moments_are_published_with_the_weights_that_follow_them() {
    let first = Versioned { version: 3, weights: 'a', moments: Arc::new(moments(1.0)) };
    let (mut publisher, cell) = weight_cell_from(first.clone());
    assert_eq!((&*cell.load(), cell.version()), (&first, 3), "a resumed run continues from its moments");
    publisher.merge(&moments(3.0));
    assert_eq!(*cell.load(), first, "a snapshot does not change");
    publisher.publish('b');
    let mut expected = moments(1.0);
    expected.merge(&moments(3.0));
    let second = Versioned { version: 4, weights: 'b', moments: Arc::new(expected) };
    assert_eq!(*cell.load(), second);
    publisher.publish('c');
    assert_eq!(cell.load().moments, second.moments, "they stay until more are merged");
}
