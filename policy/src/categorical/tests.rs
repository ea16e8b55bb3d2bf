#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::{Categorical, entropy, entropy_grad, kl, kl_grad_p, kl_grad_q, logp, logp_grad, mode, sample};
use crate::{ActionsMut, ActionsRef, Distribution, PolicyError, Rng};

mod batches;

/// The slope of `f` in each logit by central differences. In f64 with this step the error is around 1e-9: the step squared
/// from the curvature, rounding divided by the step.
fn slopes(logits: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-5;
    let moved = |i: usize, by: f64| {
        let mut logits = logits.to_vec();
        logits[i] += by;
        f(&logits)
    };
    (0..logits.len()).map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step)).collect()
}

fn assert_close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= tolerance, "got {got}, want {want}");
    }
}

fn logits(n: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-6.0..6.0, n)
}

proptest! {
    #[test]
    fn gradients_are_the_slopes(p in logits(1..6), seed in 0_u64..1000) {
        let mut rng = Rng::seed_from(seed);
        let q: Vec<f64> = p.iter().map(|x| x + rng.normal()).collect();
        let (action, weight) = (rng.below(p.len() as u64) as usize, rng.normal());
        // Gradients are added to what is there, weighted.
        let gradient = |add: &dyn Fn(&mut [f64])| {
            let mut grad = vec![0.25; p.len()];
            add(&mut grad);
            grad
        };
        let expected = |slopes: Vec<f64>| slopes.into_iter().map(|slope| 0.25 + weight * slope).collect::<Vec<_>>();

        let got = gradient(&|grad| logp_grad(&p, action, weight, grad));
        assert_close(&got, &expected(slopes(&p, |p| logp(p, action))), 1e-7);
        let got = gradient(&|grad| entropy_grad(&p, weight, grad));
        assert_close(&got, &expected(slopes(&p, entropy)), 1e-7);
        let got = gradient(&|grad| kl_grad_p(&p, &q, weight, grad));
        assert_close(&got, &expected(slopes(&p, |p| kl(p, &q))), 1e-7);
        let got = gradient(&|grad| kl_grad_q(&p, &q, weight, grad));
        assert_close(&got, &expected(slopes(&q, |q| kl(&p, q))), 1e-7);
    }

    #[test]
    fn divergence_is_never_negative_and_zero_to_itself(p in logits(1..6), shift in -3.0..3.0) {
        let q: Vec<f64> = p.iter().rev().copied().collect();
        prop_assert!(kl(&p, &q) >= -1e-12);
        let same: Vec<f64> = p.iter().map(|x| x + shift).collect();
        prop_assert!(kl(&p, &same).abs() < 1e-12);
    }

    #[test]
    fn entropy_lies_between_zero_and_that_of_the_uniform(p in logits(1..6)) {
        prop_assert!((-1e-12..=(p.len() as f64).ln() + 1e-12).contains(&entropy(&p)));
    }
}

#[test]
fn logits_of_any_size_give_finite_numbers() {
    for row in [[1e4_f32, -1e4, 0.0], [-1e4, -1e4, -1e4], [1e4, 1e4, 1e4], [3e38, -3e38, 0.0]] {
        let other = [-1e4_f32, 1e4, 5.0];
        let total: f32 = (0..3).map(|action| logp(&row, action).exp()).sum();
        assert!((total - 1.0).abs() < 1e-6, "{row:?}");
        let mut grad = [0.0; 3];
        logp_grad(&row, 1, 1.0, &mut grad);
        entropy_grad(&row, 1.0, &mut grad);
        kl_grad_q(&row, &other, 1.0, &mut grad);
        assert!(grad.iter().all(|g| g.is_finite()), "{row:?}: {grad:?}");
        assert!(entropy(&row).is_finite());
    }
    assert_eq!(logp(&[1e4_f32, -1e4], 1), -2e4);
    assert_eq!(kl(&[1e4_f32, -1e4], &[-1e4, 1e4]), 2e4);
}

#[test]
fn a_masked_action_has_no_share_in_anything() {
    let (masked, other) = ([0.3, f64::NEG_INFINITY, -0.2], [1.0, 5.0, 0.5]);
    let (without, other_without) = ([0.3, -0.2], [1.0, 0.5]);
    assert_eq!(logp(&masked, 1), f64::NEG_INFINITY);
    assert_eq!(logp(&masked, 2), logp(&without, 1));
    assert_eq!(entropy(&masked), entropy(&without));
    let same_mask = [1.0, f64::NEG_INFINITY, 0.5];
    assert_eq!(kl(&masked, &same_mask), kl(&without, &other_without));
    assert_eq!(kl(&other, &masked), f64::INFINITY);
    let mut grad = [0.0; 3];
    entropy_grad(&masked, 1.0, &mut grad);
    logp_grad(&masked, 0, 1.0, &mut grad);
    assert!(grad[1] == 0.0 && grad.iter().all(|g| g.is_finite()), "{grad:?}");
    assert!((0..1000).all(|i| sample(&masked, f64::from(i) / 1000.0) != 1));
    assert_eq!((sample(&[f64::NEG_INFINITY, 0.0], 0.0), sample(&[0.0, f64::NEG_INFINITY], 1.0 - f64::EPSILON)), (1, 0));
}

#[test]
fn sampled_frequencies_are_the_probabilities() {
    let row = [0.5_f32, -1.0, 2.0, 0.0, -3.0];
    let rows = 100_000;
    let inputs = row.repeat(rows);
    let (mut actions, mut logps) = (vec![0; rows], vec![0.0; rows]);
    let categorical = Categorical::new(5).unwrap();
    categorical.sample(&inputs, &mut Rng::seed_from(11), ActionsMut::Discrete(&mut actions), &mut logps).unwrap();

    let mut counts = [0_u32; 5];
    actions.iter().for_each(|&action| counts[action as usize] += 1);
    let chi_square: f64 = (0..5)
        .map(|action| {
            let expected = rows as f64 * f64::from(logp(&row, action)).exp();
            (f64::from(counts[action]) - expected).powi(2) / expected
        })
        .sum();
    assert!(chi_square < 18.5, "p < 0.001 with 4 degrees of freedom: {counts:?}");

    let mut again = vec![0.0; rows];
    categorical.logp(&inputs, ActionsRef::Discrete(&actions), &mut again).unwrap();
    assert_eq!(logps, again, "bit for bit");
}

#[test]
fn sampling_uses_one_uniform_a_row() {
    let categorical = Categorical::new(3).unwrap();
    let (mut all, mut one, mut logps) = ([0; 4], [0; 1], [0.0; 4]);
    let inputs = [0.1, 0.2, 0.3, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 5.0, 6.0, 7.0];
    let (mut rng, mut twin) = (Rng::seed_from(1), Rng::seed_from(1));
    categorical.sample(&inputs, &mut rng, ActionsMut::Discrete(&mut all), &mut logps).unwrap();
    for (row, action) in inputs.chunks_exact(3).zip(all) {
        categorical.sample(row, &mut twin, ActionsMut::Discrete(&mut one), &mut logps[..1]).unwrap();
        assert_eq!(one, [action]);
    }
    assert_eq!(rng, twin);
}

#[test]
fn nan_comes_out_as_nan() {
    let categorical = Categorical::new(3).unwrap();
    let rows = [f32::NAN, 0.0, 0.0, 0.0, 1.0, f32::NAN, f32::INFINITY, 0.0, 0.0];
    let (mut actions, mut logps, mut entropies) = ([9; 3], [0.0; 3], [0.0; 3]);
    categorical.sample(&rows, &mut Rng::seed_from(0), ActionsMut::Discrete(&mut actions), &mut logps).unwrap();
    categorical.entropy(&rows, &mut entropies).unwrap();
    assert!(actions.iter().all(|&action| action < 3));
    assert!(logps.iter().chain(&entropies).all(|x| x.is_nan()), "{logps:?} {entropies:?}");
}

#[test]
fn the_mode_is_the_first_highest() {
    assert_eq!([mode(&[1.0, 3.0, 3.0]), mode(&[2.0]), mode(&[f32::NEG_INFINITY, -1e30])], [1, 0, 1]);
    let mut actions = [9; 2];
    Categorical::new(2).unwrap().mode(&[0.0, 1.0, 1.0, 0.0], ActionsMut::Discrete(&mut actions)).unwrap();
    assert_eq!(actions, [1, 0]);
}

#[test]
fn an_action_out_of_range_is_an_error_that_names_the_row() {
    let categorical = Categorical::new(2).unwrap();
    let (inputs, actions) = ([0.0; 6], [0, 1, 2]);
    let actions = ActionsRef::Discrete(&actions);
    let errors = [
        categorical.logp(&inputs, actions, &mut [0.0; 3]).unwrap_err(),
        categorical.logp_grad(&inputs, actions, &[1.0; 3], &mut [0.0; 6]).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, PolicyError::ActionOutOfRange { row: 2, action: 2, n: 2 }));
        assert_eq!(error.to_string(), "action 2 in row 2 does not exist: this distribution has actions 0 to 1");
    }
}

#[test]
fn every_slice_of_a_wrong_length_is_named() {
    let c = Categorical::new(2).unwrap();
    let rng = &mut Rng::seed_from(0);
    let (two, four, actions) = (&[0.0_f32; 2], &[0.0_f32; 4], ActionsRef::Discrete(&[0, 0]));
    let one_action = ActionsRef::Discrete(&[0]);
    let results = [
        ("inputs", c.entropy(&[0.0; 3], &mut [0.0; 1])),
        ("actions", c.sample(four, rng, ActionsMut::Discrete(&mut [0; 3]), &mut [0.0; 2])),
        ("logp", c.sample(four, rng, ActionsMut::Discrete(&mut [0; 2]), &mut [0.0; 1])),
        ("actions", c.mode(four, ActionsMut::Discrete(&mut [0; 1]))),
        ("actions", c.logp(four, one_action, &mut [0.0; 2])),
        ("logp", c.logp(four, actions, &mut [0.0; 3])),
        ("entropy", c.entropy(four, &mut [0.0; 3])),
        ("actions", c.logp_and_entropy(four, one_action, &mut [0.0; 2], &mut [0.0; 2])),
        ("logp", c.logp_and_entropy(four, actions, &mut [0.0; 1], &mut [0.0; 2])),
        ("entropy", c.logp_and_entropy(four, actions, &mut [0.0; 2], &mut [0.0; 3])),
        ("logp_weight", c.logp_and_entropy_grad(four, actions, four, two, &mut [0.0; 4])),
        ("entropy_weight", c.logp_and_entropy_grad(four, actions, two, four, &mut [0.0; 4])),
        ("grad", c.logp_and_entropy_grad(four, actions, two, two, &mut [0.0; 3])),
        ("kl", c.kl(four, four, &mut [0.0; 1])),
        ("q", c.kl(four, two, &mut [0.0; 2])),
        ("actions", c.logp_grad(four, one_action, two, &mut [0.0; 4])),
        ("weight", c.logp_grad(four, actions, four, &mut [0.0; 4])),
        ("grad", c.logp_grad(four, actions, two, &mut [0.0; 5])),
        ("weight", c.entropy_grad(four, four, &mut [0.0; 4])),
        ("grad", c.entropy_grad(four, two, &mut [0.0; 2])),
        ("weight", c.kl_grad_q(four, four, four, &mut [0.0; 4])),
        ("q", c.kl_grad_q(four, two, two, &mut [0.0; 4])),
        ("grad", c.kl_grad_q(four, four, two, &mut [0.0; 2])),
    ];
    for (expected, result) in results {
        match result {
            Err(PolicyError::Length { what, expected: a, got: b }) => assert!(what == expected && a != b, "{what}"),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn no_rows_are_fine() {
    let c = Categorical::new(2).unwrap();
    c.sample(&[], &mut Rng::seed_from(0), ActionsMut::Discrete(&mut []), &mut []).unwrap();
    c.logp_grad(&[], ActionsRef::Discrete(&[]), &[], &mut []).unwrap();
}
