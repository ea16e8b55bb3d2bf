use loom::thread;

use crate::{exhaust, sync};
use cell::WeightCell;

/// The cell of weights, with the atomics of loom.
#[allow(dead_code, unreachable_pub, reason = "a model needs a part of it, and has it for itself")]
#[path = "../../../buffer/src/weights/cell.rs"]
mod cell;

/// As that of `pronk-buffer`, but for the moments.
#[derive(Debug)]
struct Versioned<W> {
    version: u64,
    weights: W,
}

/// After reading a version number, and however often it loads, a reader finds weights as new.
#[test]
fn a_version_is_seen_after_its_weights() {
    exhaust("weight cell, orderings", || {
        let cell = WeightCell::of(Versioned { version: 0, weights: 0 });
        let readers = [cell.clone(), cell.clone()].map(|cell| {
            thread::spawn(move || {
                let version = cell.version_reader().current();
                let first = cell.load();
                assert!(first.version >= version && first.weights == first.version);
                assert!(cell.load().version >= first.version);
            })
        });
        for version in 1..=2 {
            let replaced = cell.replace(sync::Arc::new(Versioned { version, weights: version }));
            assert_eq!(replaced.version, version - 1);
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}
