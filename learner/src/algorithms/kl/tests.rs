#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn a_sum_that_rounding_has_made_negative_can_be_loaded() {
    let (mut saved, mut loaded) = (KlCoeff::new(0.2, 0.01), KlCoeff::new(1.0, 0.01));
    saved.add(-1e-9);
    loaded.load(&saved.save()).unwrap();
    assert_eq!(loaded, saved);
}

#[test]
fn a_count_that_no_run_reaches_is_refused() {
    for count in [-1.0, 0.5, 1e300] {
        let mut saved = KlCoeff::new(0.2, 0.01).save();
        saved.insert("kl_count".to_owned(), count);
        let refused = KlCoeff::new(0.2, 0.01).load(&saved).unwrap_err().to_string();
        assert!(refused.contains("`kl_count` is"), "{refused}");
    }
}
