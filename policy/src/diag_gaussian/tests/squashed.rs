use proptest::prelude::*;

use crate::diag_gaussian::{
    DiagGaussian, HIGHEST_ACTION, entropy, entropy_grad, kl, kl_grad_p, kl_grad_q, logp, logp_grad, mode, sample,
    unsquash,
};
use crate::distribution::contract::{Actions, Formulas};
use crate::{ActionsRef, Distribution, Gaussian, GaussianConfig, LogStdRange, PolicyError, Rng};

/// Where the formulas are looked at.
const RANGE: LogStdRange = LogStdRange::DEFAULT;

const SQUASHED: GaussianConfig = GaussianConfig { gaussian: Gaussian::Squashed, log_std_range: RANGE };

const UNSQUASHED: GaussianConfig = GaussianConfig { gaussian: Gaussian::Diagonal, log_std_range: RANGE };

const FORMULAS: Formulas<'static> = Formulas {
    logp: &|p, x| logp(SQUASHED, p, x),
    entropy: &|p| entropy(RANGE, p),
    kl: &|p, q| kl(RANGE, p, q),
    logp_grad: &|p, q, weight, grad| logp_grad(SQUASHED, p, q, weight, grad),
    entropy_grad: &|p, weight, grad| entropy_grad(RANGE, p, weight, grad),
    kl_grad_p: &|p, q, weight, grad| kl_grad_p(RANGE, p, q, weight, grad),
    kl_grad_q: &|p, q, weight, grad| kl_grad_q(RANGE, p, q, weight, grad),
};

/// Means around zero, log standard deviations within their range: beyond, gradients that lead back are no
/// slopes.
fn inputs(n: usize, rng: &mut Rng) -> Vec<f64> {
    let log_std = |rng: &mut Rng| rng.next_f64() * 6.99 - 4.995;
    (0..2 * n).map(|i| if i < n { rng.normal() } else { log_std(rng) }).collect()
}

proptest! {
    #[test]
    fn gradients_are_the_slopes(n in 1_usize..5, seed: u64) {
        let mut rng = Rng::seed_from(seed);
        let (p, q) = (inputs(n, &mut rng), inputs(n, &mut rng));
        let action: Vec<f64> = (0..n).map(|_| rng.normal().tanh()).collect();
        FORMULAS.check_slopes(&p, &q, &action, -1.5);
    }

    #[test]
    fn rows_of_single_precision_agree_with_the_formulas(n in 1_usize..5, rows in 0_usize..20, seed: u64) {
        let mut rng = Rng::seed_from(seed);
        // Standard deviations that are not tiny: their reciprocals are what single precision loses digits by.
        let mut inputs = || (0..rows * 2 * n).map(|_| rng.normal().max(-1.5) as f32).collect::<Vec<_>>();
        FORMULAS.check_rows(&DiagGaussian::new(n, Gaussian::Squashed).unwrap(), &inputs(), &inputs(), seed);
    }

    #[test]
    fn the_density_is_that_of_what_was_squashed_with_the_slope_of_tanh(mean in -2.0..2.0, log_std in -2.0..1.0, x in -3.0..3.0_f64) {
        // Straight from the change of variables, which is precise as long as tanh is not near ±1.
        let squashed = x.tanh();
        let straight = logp(UNSQUASHED, &[mean, log_std], &[x]) - (1.0 - squashed * squashed).ln();
        prop_assert!((logp(SQUASHED, &[mean, log_std], &[squashed]) - straight).abs() < 1e-8 * (1.0 + straight.abs()));
    }

    #[test]
    fn divergence_is_never_negative_and_zero_to_itself(p in prop::array::uniform4(-3.0..3.0), q in prop::array::uniform4(-3.0..3.0)) {
        prop_assert!(kl(RANGE, &p, &q) >= 0.0);
        prop_assert_eq!(kl(RANGE, &p, &p), 0.0);
    }
}

/// The integral of `f · density` over (−1, 1), by the midpoint rule.
fn integral(inputs: &[f64; 2], f: impl Fn(f64) -> f64) -> f64 {
    // a = sin(angle) takes smaller steps near ±1, where the density may be steep.
    let steps = 400_000;
    let step = std::f64::consts::PI / f64::from(steps);
    let at = |i: i32| -std::f64::consts::FRAC_PI_2 + (f64::from(i) + 0.5) * step;
    let term = |angle: f64| f(angle.sin()) * logp(SQUASHED, inputs, &[angle.sin()]).exp() * angle.cos();
    (0..steps).map(|i| term(at(i))).sum::<f64>() * step
}

#[test]
fn the_density_integrates_to_one() {
    for inputs in [[0.0, 0.0], [0.0, 0.5], [1.5, 0.0], [-2.0, -1.0], [0.3, -4.0], [0.3, -9.0]] {
        let total = integral(&inputs, |_| 1.0);
        assert!((total - 1.0).abs() < 1e-5, "{inputs:?}: {total}");
    }
}

#[test]
fn samples_follow_the_density() {
    let rows = 40_000;
    let row = [0.4_f64, -0.2];
    let inputs = row.map(|x| x as f32).repeat(rows);
    let mut logps = vec![0.0; rows];
    let one = DiagGaussian::new(1, Gaussian::Squashed).unwrap();
    let Actions::Numbers(numbers) = Actions::sampled(&one, &inputs, &mut Rng::seed_from(4), &mut logps) else {
        panic!("numbers")
    };
    for edge in [-0.8, -0.3, 0.2, 0.6, 0.95] {
        let probability = integral(&row, |a| if a < edge { 1.0 } else { 0.0 });
        let share = numbers.iter().filter(|&&a| f64::from(a) < edge).count() as f64 / rows as f64;
        let error = (probability * (1.0 - probability) / rows as f64).sqrt();
        assert!((share - probability).abs() < 4.0 * error, "below {edge}: {share} instead of {probability}");
    }
    // The true entropy is the mean of −logp, and less than the one reported, which is that before squashing.
    let surprise = -logps.iter().map(|&x| f64::from(x)).sum::<f64>() / rows as f64;
    let true_entropy = integral(&row, |a| if a.abs() < 1.0 { -logp(SQUASHED, &row, &[a]) } else { 0.0 });
    assert!((surprise - true_entropy).abs() < 0.03, "{surprise} instead of {true_entropy}");
    assert!(true_entropy < entropy(RANGE, &row) - 0.1);
}

#[test]
fn divergence_is_not_changed_by_squashing() {
    let (p, q) = ([0.4, -0.5], [-0.2, 0.1]);
    let integrated = integral(&p, |a| logp(SQUASHED, &p, &[a]) - logp(SQUASHED, &q, &[a]));
    assert!((kl(RANGE, &p, &q) - integrated).abs() < 1e-5, "{} instead of {integrated}", kl(RANGE, &p, &q));
}

#[test]
fn actions_stay_inside_and_their_log_probability_finite_however_far_the_means() {
    let one = DiagGaussian::new(1, Gaussian::Squashed).unwrap();
    for mean in [1e-30_f32, 5.0, 9.0, 50.0, 1e6, -9.0, -1e6] {
        for log_std in [-1e9, -5.0, 0.0, 2.0, 1e9] {
            let inputs = [mean, log_std].repeat(200);
            let mut logps = vec![0.0; 200];
            let actions = Actions::sampled(&one, &inputs, &mut Rng::seed_from(6), &mut logps);
            let mut again = vec![1.0; 200];
            one.logp(&inputs, actions.view(), &mut again).unwrap();
            assert_eq!(logps, again, "bit for bit");
            let Actions::Numbers(numbers) = actions else { panic!("numbers") };
            assert!(numbers.iter().all(|a| a.abs() <= HIGHEST_ACTION), "{mean}, {log_std}: {numbers:?}");
            assert!(logps.iter().all(|logp| logp.is_finite()), "{mean}, {log_std}: {logps:?}");
        }
    }
}

#[test]
fn every_single_inside_is_undone_and_one_itself_is_the_last_of_them() {
    for squashed in [0.0_f32, 1e-30, 1e-4, 0.5, 0.999, HIGHEST_ACTION] {
        for squashed in [squashed, -squashed] {
            let (x, ln_stretch) = unsquash(f64::from(squashed));
            assert!((x.tanh() - f64::from(squashed)).abs() < 1e-15 * (1.0 + x.abs()), "{squashed}");
            let (single, single_stretch) = unsquash(squashed);
            assert!((f64::from(single) - x).abs() <= 1e-6 * x.abs(), "{squashed}: {single}, not {x}");
            assert!((f64::from(single_stretch) - ln_stretch).abs() < 2e-6, "{squashed}");
        }
    }
    assert_eq!(unsquash(1.0_f32), unsquash(HIGHEST_ACTION));
    assert!(HIGHEST_ACTION < 1.0 && HIGHEST_ACTION.next_up() == 1.0);
}

#[test]
fn the_clamp_holds_standard_deviations() {
    let wide = [0.3, 2.0];
    assert_eq!(logp(SQUASHED, &[0.3, 7.0], &[0.1]), logp(SQUASHED, &wide, &[0.1]));
    assert_eq!(
        (entropy(RANGE, &[0.3, 7.0]), entropy(RANGE, &[0.3, -8.0])),
        (entropy(RANGE, &wide), entropy(RANGE, &[0.3, -5.0]))
    );
}

#[test]
fn the_mode_is_the_squashed_mean_and_a_draw_the_squashed_draw() {
    let mut action = [0.0; 2];
    mode(Gaussian::Squashed, &[0.5_f64, -3.0, 9.0, 9.0], &mut action);
    assert_eq!(action, [0.5_f64.tanh(), (-3.0_f64).tanh()]);
    let mut draws = [1.0, -2.0].into_iter();
    sample(SQUASHED, &[0.5_f64, -0.25, 0.0, -9.0], || draws.next().unwrap(), &mut action);
    assert_eq!(action, [1.5_f64.tanh(), (-0.25 - 2.0 * (-5.0_f64).exp()).tanh()]);
}

#[test]
fn an_action_beyond_one_is_refused_with_its_place() {
    let two = DiagGaussian::new(2, Gaussian::Squashed).unwrap();
    let (inputs, numbers) = ([0.0; 12], [0.0, 1.0, -1.0, f32::NAN, 0.5, -1.001]);
    let errors = [
        two.logp(&inputs, ActionsRef::Continuous(&numbers), &mut [0.0; 3]).unwrap_err(),
        two.logp_grad(&inputs, ActionsRef::Continuous(&numbers), &[1.0; 3], &mut [0.0; 12]).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, PolicyError::NumberOutOfRange { row: 2, number: 1, .. }));
        let message = "row 2, number 1 of the action is -1.001: squashed actions lie between -1 and 1";
        assert_eq!(error.to_string(), message);
    }
    let mut logp = [0.0; 2];
    two.logp(&inputs[..8], ActionsRef::Continuous(&numbers[..4]), &mut logp).unwrap();
    assert!(logp[0].is_finite() && logp[1].is_nan(), "ends of the range are actions, and NaN comes out as NaN");
    assert!(matches!(DiagGaussian::new(0, Gaussian::Squashed), Err(PolicyError::BadSpace { .. })));
}
