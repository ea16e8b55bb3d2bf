//! What advantages that say nothing about the actions do to a Gaussian whose data an older version made, and
//! what becomes of policies that are far apart.
//!
//! The expectation over actions is a sum over the midpoints of equally likely intervals, so no figure here
//! depends on a draw.

use num_traits::Float;

use crate::algorithms::surrogate::{SurrogateConfig, ValueLoss};
use crate::*;

/// Intervals of equal probability under the policy that acted.
const POINTS: usize = 4_000;

/// Where the policy acted: standard normal actions, one for each interval.
fn actions() -> Vec<f64> {
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let (mut actions, mut below, mut x, dx) = (Vec::new(), 0.0, -8.0, 1e-4);
    while actions.len() < POINTS {
        below += density(x + dx / 2.0) * dx;
        x += dx;
        if below * POINTS as f64 >= actions.len() as f64 + 0.5 {
            actions.push(x);
        }
    }
    actions
}

/// Nothing but the surrogate.
fn config<F: Float>(form: AppoForm, standardize_advantages: bool) -> AppoLossConfig<F> {
    AppoLossConfig {
        form,
        surrogate: SurrogateConfig {
            clip_param: F::from(0.2).unwrap(),
            vf_loss_coeff: F::zero(),
            value_loss: ValueLoss::HalfSquared,
            entropy_coeff: F::zero(),
            kl_coeff: F::zero(),
        },
        vtrace: VtraceConfig::default(),
        masked_steps: MaskedSteps::Skip,
        standardize_advantages,
    }
}

/// Expected gradients of the objective, the loss with its sign turned, once target network and present policy
/// are `shift` away from the policy that acted: `(in the mean, in the log deviation, largest sum over the
/// rows of one action)`.
///
/// Every action has a row for each of `advantages`.
fn gradients(form: AppoForm, standardize_advantages: bool, shift: f64, advantages: &[f64]) -> (f64, f64, f64) {
    let actions: Vec<f64> = actions().into_iter().flat_map(|x| advantages.iter().map(move |_| x)).collect();
    let logp = |mean: f64| actions.iter().map(|x| -(x - mean).powi(2) / 2.0).collect::<Vec<_>>();
    let (behaviour_logp, logp) = (logp(0.0), logp(shift));
    let zero = vec![0.0; actions.len()];
    let rewards: Vec<f64> = advantages.iter().copied().cycle().take(actions.len()).collect();
    let config = config(form, standardize_advantages);
    let input = AppoLossInput {
        steps: 1,
        columns: actions.len(),
        behaviour_logp: &behaviour_logp,
        target_logp: &logp,
        logp: &logp,
        entropy: &zero,
        values: &zero,
        kl: None,
        // Episodes of one step with a value of zero: the advantage is the reward.
        targets: Targets::Vtrace { rewards: &rewards, discounts: &zero, last_step: LastStep::Bootstrap(&zero) },
        mask: None,
    };
    let mut grads = AppoGrads::default();
    appo_loss(&config, &input, &mut grads).unwrap();
    let d_logp = &grads.surrogate.logp;
    let expected = |score: fn(f64) -> f64| -d_logp.iter().zip(&actions).map(|(d, x)| d * score(x - shift)).sum::<f64>();
    let sums = d_logp.chunks(advantages.len()).map(|rows| rows.iter().sum::<f64>().abs());
    (expected(|z| z), expected(|z| z * z - 1.0), sums.fold(0.0, f64::max))
}

const NOISE: [f64; 2] = [1.0, -1.0];
const CONSTANT: [f64; 1] = [3.0];

#[test]
fn advantages_that_say_nothing_move_nothing_however_old_the_data() {
    for shift in [0.0, 0.5, 1.0, 2.0] {
        // Noise around zero, a constant, and noise around a constant.
        for (standardize, advantages) in
            [(false, &NOISE[..]), (true, &NOISE[..]), (true, &CONSTANT[..]), (true, &[4.0, 2.0][..])]
        {
            let (mean, log_std, of_an_action) = gradients(AppoForm::Unbiased, standardize, shift, advantages);
            assert!(mean.abs() < 1e-6 && log_std.abs() < 1e-6, "{advantages:?} at {shift}: {mean}, {log_std}");
            // Not only in the sum over all: so it holds for every distribution, and every parameter of it.
            assert!(of_an_action < 1e-12, "{advantages:?} at {shift}: {of_an_action}");
        }
    }
}

#[test]
fn the_form_of_the_paper_widens_gaussians_by_noise_and_narrows_them_by_a_constant() {
    for (shift, by_noise, by_constant) in [(0.5, 0.0305, -0.612), (1.0, 0.0457, -0.339)] {
        let (_, widened, _) = gradients(AppoForm::Impact, false, shift, &NOISE);
        assert!((widened - by_noise).abs() < 1e-3, "{widened}");
        // In units of the deviation of V-trace's weight; as `c * (weight - mean weight)` it is -0.134 c and
        // -0.112 c.
        let (_, narrowed, _) = gradients(AppoForm::Impact, true, shift, &CONSTANT);
        assert!((narrowed - by_constant).abs() < 3e-3, "{narrowed}");
    }
    let (mean, log_std, _) = gradients(AppoForm::Impact, true, 0.0, &NOISE);
    assert!(mean.abs() < 1e-6 && log_std.abs() < 1e-6, "without lag there is no bias: {mean}, {log_std}");
}

#[test]
fn policies_that_are_far_apart_leave_the_loss_finite() {
    // The target network would hardly ever, or as far as f32 goes never, have chosen the first action; the
    // present policy may.
    for (target, now) in [(-200.0, -50.0), (-100.0, -5.0), (-100.0, -99.0)] {
        let (zero, one) = ([0.0_f32; 2], [1.0; 2]);
        let config = config(AppoForm::Unbiased, false);
        let input = AppoLossInput {
            steps: 1,
            columns: 2,
            behaviour_logp: &zero,
            target_logp: &[target, 0.0],
            logp: &[now, 0.0],
            entropy: &zero,
            values: &zero,
            kl: None,
            targets: Targets::Vtrace { rewards: &[-1.0, -1.0], discounts: &one, last_step: LastStep::Bootstrap(&zero) },
            mask: None,
        };
        let mut grads = AppoGrads::default();
        let stats = appo_loss(&config, &input, &mut grads).unwrap();
        assert!((stats.surrogate.policy_loss - 0.5).abs() < 0.01, "{target}, {now}: {stats:?}");
        assert!(grads.surrogate.logp[0].abs() < 1e-3, "{target}, {now}: {grads:?}");
    }
}
