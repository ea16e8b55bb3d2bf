#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::{DiagGaussian, entropy, entropy_grad, kl, kl_grad_p, kl_grad_q, logp, logp_grad};
use crate::distribution::contract::{Actions, Formulas};
use crate::{ActionsMut, ActionsRef, Distribution, Gaussian, GaussianConfig, LogStdRange, PolicyError, Rng};

mod squashed;

/// Where the formulas are looked at.
const RANGE: LogStdRange = LogStdRange::UNBOUNDED;

const WIDE: GaussianConfig = GaussianConfig { gaussian: Gaussian::Diagonal, log_std_range: RANGE };

const FORMULAS: Formulas<'static> = Formulas {
    logp: &|p, x| logp(WIDE, p, x),
    entropy: &|p| entropy(RANGE, p),
    kl: &|p, q| kl(RANGE, p, q),
    logp_grad: &|p, q, weight, grad| logp_grad(WIDE, p, q, weight, grad),
    entropy_grad: &|p, weight, grad| entropy_grad(RANGE, p, weight, grad),
    kl_grad_p: &|p, q, weight, grad| kl_grad_p(RANGE, p, q, weight, grad),
    kl_grad_q: &|p, q, weight, grad| kl_grad_q(RANGE, p, q, weight, grad),
};

proptest! {
    #[test]
    fn gradients_are_the_slopes(n in 1_usize..5, seed: u64) {
        let mut rng = Rng::seed_from(seed);
        let mut normals = |len: usize| (0..len).map(|_| rng.normal()).collect::<Vec<_>>();
        FORMULAS.check_slopes(&normals(2 * n), &normals(2 * n), &normals(n), -1.5);
    }

    #[test]
    fn rows_of_single_precision_agree_with_the_formulas(n in 1_usize..5, rows in 0_usize..20, seed: u64) {
        let mut rng = Rng::seed_from(seed);
        let mut inputs = || (0..rows * 2 * n).map(|_| rng.normal() as f32).collect::<Vec<_>>();
        FORMULAS.check_rows(&DiagGaussian::new(n, WIDE).unwrap(), &inputs(), &inputs(), seed);
    }

    #[test]
    fn divergence_is_never_negative_and_zero_to_itself(p in prop::array::uniform4(-3.0..3.0), q in prop::array::uniform4(-3.0..3.0)) {
        prop_assert!(kl(RANGE, &p, &q) >= 0.0);
        prop_assert_eq!(kl(RANGE, &p, &p), 0.0);
    }
}

#[test]
fn the_standard_normal_has_the_numbers_of_the_tables() {
    assert!((logp(WIDE, &[0.0_f64, 0.0], &[0.0]) - 0.398_942_280_401_432_7_f64.ln()).abs() < 1e-15);
    assert!((logp(WIDE, &[0.0_f64, 0.0], &[1.96]) - 0.058_440_944_333_451_48_f64.ln()).abs() < 1e-14);
    assert!((entropy(RANGE, &[5.0_f64, 0.0]) - 1.418_938_533_204_672_7).abs() < 1e-15);
    // ln 2 + (1 + 1) / 8 − 1/2: from the standard normal to one with mean 1 and standard deviation 2.
    assert!((kl(RANGE, &[0.0, 0.0], &[1.0, 2.0_f64.ln()]) - (2.0_f64.ln() - 0.25)).abs() < 1e-15);
}

#[test]
fn samples_have_the_mean_and_the_standard_deviation_of_each_number() {
    let rows = 40_000;
    let inputs = [1.5_f32, -20.0, 0.5_f32.ln(), 3.0_f32.ln()].repeat(rows);
    let mut logps = vec![0.0; rows];
    let two = DiagGaussian::new(2, Gaussian::Diagonal).unwrap();
    let Actions::Numbers(numbers) = Actions::sampled(&two, &inputs, &mut Rng::seed_from(4), &mut logps) else {
        panic!("numbers")
    };
    // Four standard errors: std / √rows of a mean, std / √(2 rows) of a standard deviation.
    for (offset, mean, std) in [(0, 1.5, 0.5), (1, -20.0, 3.0)] {
        let draws: Vec<f64> = numbers.iter().skip(offset).step_by(2).map(|&x| f64::from(x)).collect();
        let got_mean = draws.iter().sum::<f64>() / rows as f64;
        let got_std = (draws.iter().map(|x| (x - got_mean).powi(2)).sum::<f64>() / rows as f64).sqrt();
        let error = std / (rows as f64).sqrt();
        assert!((got_mean - mean).abs() < 4.0 * error, "{got_mean} instead of {mean}");
        assert!((got_std - std).abs() < 4.0 * error / 2.0_f64.sqrt(), "{got_std} instead of {std}");
    }
    // Both numbers of a row are drawn on their own.
    let products = numbers.chunks_exact(2).map(|row| f64::from(row[0] - 1.5) * f64::from(row[1] + 20.0));
    assert!((products.sum::<f64>() / rows as f64).abs() < 4.0 * 1.5 / (rows as f64).sqrt());
    // The mean of −logp is the entropy; the log-probability of a row has a variance of 1/2 for each number.
    let surprise = -logps.iter().map(|&x| f64::from(x)).sum::<f64>() / rows as f64;
    assert!((surprise - f64::from(entropy(RANGE, &inputs[..4]))).abs() < 4.0 / (rows as f64).sqrt());
}

#[test]
fn a_row_uses_one_normal_a_number() {
    let (mut rng, mut twin) = (Rng::seed_from(3), Rng::seed_from(3));
    let (mut action, mut logp) = ([0.0; 4], [0.0; 2]);
    let inputs = [1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0];
    DiagGaussian::new(2, Gaussian::Diagonal)
        .unwrap()
        .sample(&inputs, &mut rng, ActionsMut::Continuous(&mut action), &mut logp)
        .unwrap();
    assert_eq!(action, [1.0, 2.0, 3.0, 4.0].map(|mean: f32| mean + twin.normal() as f32));
    assert_eq!(rng, twin);
}

#[test]
fn standard_deviations_below_and_above_every_float_give_no_nan() {
    for log_std in [-1e30_f32, -200.0, -104.0, 88.0, 200.0, 1e30] {
        let (p, q) = ([0.5, log_std], [0.5, 0.0]);
        let mut grad = [0.0; 2];
        logp_grad(WIDE, &p, &[0.5], 1.0, &mut grad);
        kl_grad_p(RANGE, &p, &q, 1.0, &mut grad);
        kl_grad_q(RANGE, &p, &p, 1.0, &mut grad);
        let answers =
            [logp(WIDE, &p, &[0.5]), logp(WIDE, &p, &[0.75]), entropy(RANGE, &p), kl(RANGE, &p, &q), kl(RANGE, &p, &p)];
        assert!(answers.iter().chain(&grad).all(|x| !x.is_nan()), "{log_std}: {answers:?} {grad:?}");
        assert_eq!((answers[0] + log_std).round(), (-0.9_f32 + log_std - log_std).round(), "{log_std}");
    }
}

#[test]
fn standard_deviations_are_held_in_their_range() {
    let range = LogStdRange::new(-3.0, 1.0).unwrap();
    let config = GaussianConfig { gaussian: Gaussian::Diagonal, log_std_range: range };
    let one = DiagGaussian::new(1, config).unwrap();
    let logp = |log_std: f32| {
        let mut out = [0.0];
        one.logp(&[0.3, log_std], ActionsRef::Continuous(&[0.8]), &mut out).unwrap();
        f64::from(out[0])
    };
    assert_eq!((logp(9.0), logp(-9.0)), (logp(1.0), logp(-3.0)));
    assert!(logp(1.0) != logp(0.9));
    for log_std in [-2.9_f32, 0.0, 0.9] {
        let mut grad = [0.0; 2];
        one.logp_grad(&[0.3, log_std], ActionsRef::Continuous(&[0.8]), &[1.0], &mut grad).unwrap();
        let slope = (logp(log_std + 1e-2) - logp(log_std - 1e-2)) / 2e-2;
        assert!((f64::from(grad[1]) - slope).abs() < 2e-2 * (1.0 + slope.abs()), "{log_std}: {} and {slope}", grad[1]);
    }
    // Draws are as wide as the range allows, however wide the network would have them.
    let (mut action, mut logps) = ([0.0], [0.0]);
    let normal = Rng::seed_from(5).normal() as f32;
    one.sample(&[0.0, 50.0], &mut Rng::seed_from(5), ActionsMut::Continuous(&mut action), &mut logps).unwrap();
    assert_eq!(action, [1.0_f32.exp() * normal]);
}

/// Every gradient of a batch of one row, `[mean, log_std]`, for a weight.
fn gradients(config: GaussianConfig, log_std: f32, weight: f32) -> [[f32; 2]; 4] {
    let one = DiagGaussian::new(1, config).unwrap();
    let (inputs, other) = ([0.3, log_std], [-0.3, 0.2]);
    let (near, far) = (ActionsRef::Continuous(&[0.3]), ActionsRef::Continuous(&[0.999_999]));
    let mut grads = [[0.0; 2]; 4];
    // A near action asks for a narrow distribution, and one far from a narrow one for a wide one.
    let action = if log_std < 0.0 { far } else { near };
    one.logp_grad(&inputs, action, &[weight], &mut grads[0]).unwrap();
    one.entropy_grad(&inputs, &[weight], &mut grads[1]).unwrap();
    one.kl_grad_q(&other, &inputs, &[weight], &mut grads[2]).unwrap();
    one.logp_and_entropy_grad(&inputs, near, &[0.0], &[weight], &mut grads[3]).unwrap();
    grads
}

#[test]
fn at_and_beyond_a_bound_only_gradients_that_lead_back_pass() {
    for gaussian in [Gaussian::Diagonal, Gaussian::Squashed] {
        let bounded = GaussianConfig { gaussian, log_std_range: LogStdRange::new(-3.0, 1.0).unwrap() };
        let free = GaussianConfig { gaussian, log_std_range: LogStdRange::UNBOUNDED };
        for (log_std, bound, outward) in [
            (-30.0, -3.0, -1.0),
            (-3.5, -3.0, -1.0),
            (-3.0, -3.0, -1.0),
            (1.0, 1.0, 1.0),
            (1.5, 1.0, 1.0),
            (40.0, 1.0, 1.0),
        ] {
            let mut passed = [0; 2];
            for weight in [-1.5, 1.5] {
                let (got, at_bound) = (gradients(bounded, log_std, weight), gradients(free, bound, weight));
                for (which, (got, at_bound)) in got.into_iter().zip(at_bound).enumerate() {
                    assert_eq!(got[0], at_bound[0], "gradient {which} of the mean at {log_std}");
                    // A descent moves against the gradient.
                    let leads_out = -at_bound[1] * outward > 0.0;
                    let expected = if leads_out { 0.0 } else { at_bound[1] };
                    assert_eq!(got[1], expected, "{gaussian:?}: gradient {which}, weight {weight}, at {log_std}");
                    passed[usize::from(leads_out)] += 1;
                }
            }
            assert_eq!(passed, [4, 4], "at {log_std} half of them lead back");
        }
        // Within the range nothing is dropped.
        for (log_std, weight) in [(-2.999, 1.5), (-2.999, -1.5), (0.0, 1.5), (0.999, 1.5), (0.999, -1.5)] {
            assert_eq!(gradients(bounded, log_std, weight), gradients(free, log_std, weight));
        }
    }
}

#[test]
fn a_descent_brings_back_what_has_left_the_range_and_keeps_it_at_the_bound() {
    let range = LogStdRange::new(-3.0, 1.0).unwrap();
    let one = DiagGaussian::new(1, GaussianConfig { gaussian: Gaussian::Diagonal, log_std_range: range }).unwrap();
    // The loss `weight · entropy`: below 0 it is a bonus, and above a price.
    for (start, weight, end) in [(-9.0, -0.5, 1.0), (7.0, 0.5, -3.0), (-9.0, 0.5, -9.0), (7.0, -0.5, 7.0)] {
        let mut log_std = start;
        for _ in 0..500 {
            let mut grad = [0.0; 2];
            one.entropy_grad(&[0.0, log_std], &[weight], &mut grad).unwrap();
            log_std -= 0.1 * grad[1];
        }
        assert!((log_std - end).abs() < 0.051, "from {start} by {weight}: {log_std}, not {end}");
    }
}

#[test]
fn a_gradient_that_is_no_number_passes_beyond_the_bounds() {
    let mut grad = [0.0; 2];
    entropy_grad(LogStdRange::DEFAULT, &[0.0_f32, 9.0], f32::NAN, &mut grad);
    assert!(grad[1].is_nan());
}

#[test]
fn a_distribution_over_no_number_is_refused() {
    let error = DiagGaussian::new(0, Gaussian::Diagonal).unwrap_err();
    assert!(matches!(error, PolicyError::BadSpace { .. }) && error.to_string().contains("holds no number"), "{error}");
}
