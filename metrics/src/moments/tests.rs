#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

/// Mean and variance of each number by their definition.
fn in_two_passes(rows: &[f64], len: usize) -> (Vec<f64>, Vec<f64>) {
    let n = (rows.len() / len) as f64;
    let mean: Vec<f64> = (0..len).map(|i| rows.iter().skip(i).step_by(len).sum::<f64>() / n).collect();
    let squares = |i: usize| rows.iter().skip(i).step_by(len).map(|value| (value - mean[i]).powi(2)).sum::<f64>() / n;
    (mean.clone(), (0..len).map(squares).collect())
}

proptest! {
    #[test]
    fn parts_that_are_merged_have_the_moments_of_the_whole(
        rows in prop::collection::vec(-1e3..1e3_f64, 2..200),
        cuts in prop::collection::vec(0..100_usize, 0..4),
    ) {
        let rows = &rows[..rows.len() / 2 * 2];
        let mut merged = RunningMoments::new(2);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| 2 * cut.min(rows.len() / 2)).collect();
        cuts.extend([0, rows.len()]);
        cuts.sort_unstable();
        for part in cuts.windows(2) {
            let mut moments = RunningMoments::new(2);
            moments.add_rows(&rows[part[0]..part[1]]);
            merged.merge(&moments);
        }
        let (mean, variance) = in_two_passes(rows, 2);
        prop_assert_eq!(merged.count(), rows.len() as u64 / 2);
        for i in 0..2 {
            prop_assert!((merged.mean()[i] - mean[i]).abs() < 1e-9, "{:?}, not {:?}", merged.mean(), mean);
            prop_assert!((merged.variance()[i] - variance[i]).abs() < 1e-6, "{:?}, not {:?}", merged, variance);
        }
        prop_assert!(merged.is_of(2) && !merged.is_of(3));
    }
}

#[test]
fn moments_of_a_file_are_those_that_were_written() {
    let mut observations = RunningMoments::new(3);
    observations.add_rows(&[0.1_f32, 1e-20, 3e20, 0.7, 0.0, -1.0]);
    let moments = NormalizerMoments { observations: Some(observations), returns: Some(RunningMoments::new(1)) };
    let text = serde_json::to_string(&moments).unwrap();
    assert_eq!(serde_json::from_str::<NormalizerMoments>(&text).unwrap(), moments);
    let nothing: NormalizerMoments = serde_json::from_str("{}").unwrap();
    assert_eq!(nothing, NormalizerMoments::default());
    let of_rows = |count: u64| -> RunningMoments {
        serde_json::from_value(serde_json::json!({ "count": count, "mean": [0.0], "squares": [1.0] })).unwrap()
    };
    assert!(of_rows(1 << 40).is_of(1) && !of_rows(u64::MAX).is_of(1), "two counts can be added");
}

#[test]
fn moments_are_merged_each_with_its_own_and_what_was_unknown_is_adopted() {
    let of = |rows: &[f64]| {
        let mut moments = RunningMoments::new(1);
        moments.add_rows(rows);
        Some(moments)
    };
    let mut moments = NormalizerMoments { observations: of(&[1.0]), returns: None };
    moments.merge(&NormalizerMoments { observations: None, returns: of(&[7.0]) });
    moments.merge(&NormalizerMoments { observations: of(&[3.0]), returns: of(&[9.0]) });
    assert_eq!(moments, NormalizerMoments { observations: of(&[1.0, 3.0]), returns: of(&[7.0, 9.0]) });
    moments.clear();
    assert_eq!(moments, NormalizerMoments { observations: of(&[]), returns: of(&[]) });
}
