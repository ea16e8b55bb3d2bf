//! The statistics against their definitions, and the penalty's gradients against finite differences.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::algorithms::impala::tests::algorithm::{ACTIONS, COLUMNS, Case, ROWS};
use crate::*;

proptest! {
    #[test]
    fn the_sample_size_is_between_one_row_and_all(logps in vec((-5.0..0.0, -5.0..0.0), 1..40)) {
        let (then, now): (Vec<f64>, Vec<f64>) = logps.into_iter().unzip();
        let stats = OffPolicyStats::of(&then, &now).unwrap();
        let size = stats.effective_sample_size;
        prop_assert!(size <= 1.0 + 1e-12 && size * now.len() as f64 >= 1.0 - 1e-12, "{size}");
        // A mean of squares is at least the square of the mean.
        let mean = now.iter().zip(&then).map(|(now, then)| now - then).sum::<f64>() / now.len() as f64;
        prop_assert!(stats.log_ratio_squared >= mean * mean - 1e-12);
    }
}

#[test]
fn the_policy_that_acted_is_no_distance_from_itself() {
    let logp = [-0.1_f32, -2.0, -7.5];
    let want = OffPolicyStats { effective_sample_size: 1.0, log_ratio_squared: 0.0, total_variation: 0.0 };
    assert_eq!(OffPolicyStats::of(&logp, &logp), Ok(want));
    assert!(OffPolicyStats::of(&logp, &logp[1..]).unwrap_err().to_string().contains("behaviour_logp"));
}

#[test]
fn a_ratio_that_overflows_spoils_no_statistic() {
    let stats = OffPolicyStats::of(&[-200.0_f32, -0.5], &[-0.1, -0.5]).unwrap();
    assert_eq!(stats.effective_sample_size, 0.5);
    assert!(stats.total_variation.is_finite() && stats.log_ratio_squared > 1e4);
    let stats = OffPolicyStats::of(&[-1e4_f64, -1.0], &[-1.0, -1.0]).unwrap();
    assert_eq!(stats.effective_sample_size, 0.5);
}

#[test]
fn ratios_that_all_vanish_spoil_no_statistic() {
    let stats = OffPolicyStats::of(&[-0.1_f32, -0.1], &[-500.1, -500.1]).unwrap();
    assert_eq!((stats.effective_sample_size, stats.total_variation), (1.0, 0.5));
    assert!(OffPolicyStats::of(&[-0.1_f32, -0.1], &[f32::NAN, -0.1]).unwrap().effective_sample_size.is_nan());
}

#[test]
fn data_of_the_policy_itself_has_no_penalty() {
    let case = Case::of_the_policy_itself();
    let of_itself = LossInputs { target_logits: &case.logits, ..case.inputs() };
    for algorithm in [impala as fn(f64) -> AlgorithmConfig, appo, appo_without_vtrace] {
        let loss = |behaviour_kl_coeff| {
            let mut grads = pronk_policy::OutputGrads::default();
            algorithm(behaviour_kl_coeff).build().unwrap().loss(&case.batch, &of_itself, &mut grads).unwrap();
            (grads.logits, grads.values)
        };
        assert_eq!(loss(0.5), loss(0.0));
    }
}

#[test]
fn appo_has_a_fifth_of_impalas_weight_by_default() {
    let case = Case::with_behaviour_inputs();
    let inputs = LossInputs { target_logits: &case.logits, ..case.inputs() };
    let penalty = |algorithm: AlgorithmConfig| {
        let mut grads = pronk_policy::OutputGrads::default();
        let info = algorithm.build().unwrap().loss(&case.batch, &inputs, &mut grads).unwrap();
        info.number("behaviour_kl_penalty").unwrap()
    };
    let [of_impala, of_appo] = [ImpalaConfig::default().into(), AppoConfig::default().into()].map(penalty);
    assert_eq!(of_impala, penalty(impala(0.5)));
    // One loss is a sum over the steps, the other a mean.
    let times = of_impala / of_appo / ROWS as f64;
    assert!((times - 5.0).abs() < 1e-5, "{times}");
}

fn impala(behaviour_kl_coeff: f64) -> AlgorithmConfig {
    ImpalaConfig { behaviour_kl_coeff, ..ImpalaConfig::default() }.into()
}

fn appo(behaviour_kl_coeff: f64) -> AlgorithmConfig {
    AppoConfig { behaviour_kl_coeff, ..AppoConfig::default() }.into()
}

fn appo_without_vtrace(behaviour_kl_coeff: f64) -> AlgorithmConfig {
    AppoConfig { behaviour_kl_coeff, vtrace: false, ..AppoConfig::default() }.into()
}

/// Checks what the penalty adds to the gradient against central differences, while advantages, and with them
/// its weight, are constants. Returns what it adds to the loss.
fn check_gradient(algorithm: impl Fn(f64) -> AlgorithmConfig, coeff: f64, case: &Case) -> f64 {
    let loss = |coeff: f64, logits: &[f32]| {
        let mut grads = pronk_policy::OutputGrads::default();
        let inputs = LossInputs { logits, target_logits: logits, ..case.inputs() };
        let info = algorithm(coeff).build().unwrap().loss(&case.batch, &inputs, &mut grads).unwrap();
        (info, grads)
    };
    let kl = |logits: &[f32]| loss(0.0, logits).0.number("behaviour_kl").unwrap();
    let (with, with_grads) = loss(coeff, &case.logits);
    let (without, without_grads) = loss(0.0, &case.logits);
    let of = |info: &pronk_metrics::Info, name| info.number(name).unwrap();
    let penalty = of(&with, "behaviour_kl_penalty");
    assert!(penalty > 0.01, "{penalty}");
    assert_eq!(of(&without, "behaviour_kl_penalty"), 0.0);
    assert!((of(&with, "total_loss") - of(&without, "total_loss") - penalty).abs() < 1e-6 * penalty.max(1.0));
    assert_eq!(with_grads.values, without_grads.values);

    let weight = penalty / kl(&case.logits);
    for i in 0..ROWS * ACTIONS {
        let step = 1e-2;
        let moved = |by: f32| {
            let mut logits = case.logits.clone();
            logits[i] += by;
            kl(&logits)
        };
        let slope = weight * (moved(step) - moved(-step)) / f64::from(2.0 * step);
        let gradient = f64::from(with_grads.logits[i] - without_grads.logits[i]);
        assert!((gradient - slope).abs() < 1e-3 * weight, "logit {i}: {gradient}, but {slope}");
    }
    assert_eq!(with_grads.logits[ROWS * ACTIONS..], vec![0.0; COLUMNS * ACTIONS]);
    penalty
}

#[test]
fn gradients_of_the_penalty_are_those_of_finite_differences() {
    let case = Case::with_behaviour_inputs();
    // From the same advantages: one loss is a sum over the steps, the other a mean.
    let times = check_gradient(impala, 0.3, &case) / check_gradient(appo, 0.3, &case);
    assert!((times - ROWS as f64).abs() < 1e-3, "{times}");
    check_gradient(appo_without_vtrace, 2.0, &case);
}

#[test]
fn the_penalty_is_as_strong_for_rewards_of_any_scale() {
    let penalty = super::Penalty { coeff: 0.3, share: 1.0 };
    let weight = |scale: f64| penalty.weight(&[scale, -3.0 * scale]);
    assert_eq!(weight(1.0), 0.6);
    assert_eq!(weight(1000.0), 600.0);
    assert_eq!(penalty.weight::<f64>(&[]), 0.0);
}
