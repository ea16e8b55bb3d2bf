#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn a_sum_that_rounding_has_made_negative_can_be_loaded() {
    let (mut saved, mut loaded) = (KlCoeff::new(0.2, 0.01), KlCoeff::new(1.0, 0.01));
    saved.add(-1e-9);
    loaded.load(&saved.save()).unwrap();
    assert_eq!(loaded, saved);
}
