use super::*;

fn standing(rung: usize, scores: &[f64]) -> Standing {
    Standing { rung, scores: scores.iter().map(|&score| Some(score)).collect() }
}

#[test]
fn rungs_grow_by_the_reduction_up_to_the_largest() {
    assert_eq!(rungs(20_000, 320_000, 4), [20_000, 80_000, 320_000]);
    assert_eq!(rungs(20_000, 319_999, 4), [20_000, 80_000]);
    assert_eq!(rungs(5, 5, 2), [5]);
    assert_eq!(rungs(u64::MAX / 2, u64::MAX, 3), [u64::MAX / 2]);
}

#[test]
fn nothing_is_promoted_before_enough_points_have_completed_a_rung() {
    let mut trials = vec![standing(0, &[3.0]), standing(0, &[1.0]), standing(0, &[2.0])];
    assert_eq!(promotable(&trials, 3, 4), None);
    trials.push(standing(0, &[]));
    assert_eq!(promotable(&trials, 3, 4), None, "the fourth has not completed it yet");
    trials[3].scores.push(Some(0.0));
    assert_eq!(promotable(&trials, 3, 4), Some(0));
}

#[test]
fn the_best_that_is_not_promoted_comes_first_and_each_once() {
    let mut trials: Vec<_> = [5.0, 8.0, 7.0, 1.0].iter().map(|&score| standing(0, &[score])).collect();
    assert_eq!(promotable(&trials, 2, 2), Some(1));
    trials[1].rung = 1;
    assert_eq!(promotable(&trials, 2, 2), Some(2));
    trials[2].rung = 1;
    assert_eq!(promotable(&trials, 2, 2), None, "the others are not in the upper half");
    // One that comes later may push one that was promoted out of the upper half.
    trials.extend([standing(0, &[9.0]), standing(0, &[6.0])]);
    assert_eq!(promotable(&trials, 2, 2), Some(4));
}

#[test]
fn higher_rungs_come_first_and_the_top_one_is_the_end() {
    let mut trials = vec![
        standing(1, &[9.0, 10.0]),
        standing(1, &[8.0, 20.0]),
        standing(0, &[7.0]),
        standing(0, &[6.0]),
        standing(0, &[5.0]),
        standing(0, &[4.0]),
    ];
    assert_eq!(promotable(&trials, 3, 2), Some(1), "the better at rung 1, not the third at rung 0");
    trials[1].rung = 2;
    trials[1].scores.push(Some(30.0));
    assert_eq!(promotable(&trials, 3, 2), Some(2));
    trials[2].rung = 1;
    assert_eq!(promotable(&trials, 3, 2), None);
    assert_eq!(promotable(&trials, 1, 2), None, "with one rung nothing is promoted");
}

#[test]
fn a_point_without_a_score_is_not_compared_and_of_equal_ones_the_first_is_promoted() {
    let none = Standing { rung: 0, scores: vec![None] };
    let trials = [none.clone(), standing(0, &[-1.0]), none, standing(0, &[-1.0])];
    assert_eq!(promotable(&trials, 2, 2), Some(1));
}
