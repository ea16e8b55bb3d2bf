#![allow(clippy::unwrap_used)]

mod lag;

use std::num::NonZeroU64;

use crate::algorithms::surrogate::{SurrogateConfig, ValueLoss};
use crate::*;

/// Two steps of one column, with this weight and these divergences.
fn loss(standardize_advantages: bool, kl_coeff: f64, kl: &[f64]) -> (AppoLossStats, AppoGrads<f64>) {
    let config = AppoLossConfig {
        form: AppoForm::Unbiased,
        surrogate: SurrogateConfig {
            clip_param: 0.4,
            vf_loss_coeff: 0.5,
            value_loss: ValueLoss::HalfSquared,
            entropy_coeff: 0.0,
            kl_coeff,
        },
        vtrace: VtraceConfig::default(),
        masked_steps: MaskedSteps::Skip,
        standardize_advantages,
    };
    let zero = [0.0; 2];
    let input = AppoLossInput {
        steps: 2,
        columns: 1,
        behaviour_logp: &zero,
        target_logp: &zero,
        logp: &zero,
        entropy: &zero,
        values: &zero,
        kl: Some(kl),
        targets: Targets::Given { advantages: &[100.0, 300.0], value_targets: &zero },
        mask: None,
    };
    let mut grads = AppoGrads::default();
    let stats = appo_loss(&config, &input, &mut grads).unwrap();
    (stats, grads)
}

#[test]
fn standardised_advantages_have_no_unit() {
    assert_eq!(loss(false, 0.0, &[0.0; 2]).1.surrogate.logp, [-50.0, -150.0]);
    assert_eq!(loss(true, 0.0, &[0.0; 2]).1.surrogate.logp, [0.5, -0.5]);
}

#[test]
fn a_divergence_without_weight_may_be_infinite_and_leaves_the_loss_alone() {
    let infinite = [0.0, f64::INFINITY];
    assert_eq!(loss(false, 0.0, &infinite).0.surrogate.total_loss, -200.0);
    assert_eq!(loss(false, 0.1, &infinite).0.surrogate.total_loss, f64::INFINITY);
}

#[test]
fn a_weight_neither_vanishes_nor_runs_away_and_a_weight_of_nothing_stays() {
    for (kl, bound) in [(0.0, 1e-8), (1.0, 1e8), (f64::INFINITY, 1e8)] {
        let mut weight = KlCoeff::new(1.0, 0.01);
        for _ in 0..2000 {
            weight.add(kl);
            weight.adapt();
        }
        assert_eq!(weight.value(), bound, "{kl}");
    }
    let mut none = KlCoeff::new(0.0, 0.01);
    none.add(0.0);
    none.adapt();
    assert_eq!(none.value(), 0.0);
}

#[test]
fn settings_that_do_nothing_are_refused_with_the_reason() {
    let refused = |config: AppoConfig, word: &str| {
        let error = Appo::new(config).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    let kl = AppoConfig { use_kl_loss: true, ..AppoConfig::default() };
    refused(AppoConfig { target_update_frequency: NonZeroU64::new(1), ..kl.clone() }, "target_update_frequency");
    refused(AppoConfig { kl_coeff: 0.0, ..kl.clone() }, "kl_coeff");
    refused(AppoConfig { vtrace: false, use_critic: false, ..AppoConfig::default() }, "use_critic");
    refused(AppoConfig { vtrace_clip_rho_threshold: Some(0.0), ..AppoConfig::default() }, "vtrace_clip_rho_threshold");
    assert!(Appo::new(AppoConfig { target_update_frequency: NonZeroU64::new(2), ..kl }).is_ok());
}

#[test]
fn a_target_network_stays_for_several_updates_and_for_the_lag_unless_a_setting_says_otherwise() {
    let count = |count| NonZeroU64::new(count).unwrap();
    let period = |config: AppoConfig, (per_buffer, lag): (u64, u64)| {
        let mut appo = Appo::new(config).unwrap();
        appo.set_rhythm(UpdateRhythm { per_train_batch: count(per_buffer), per_buffer: count(per_buffer), lag });
        appo.target_update_period().map(NonZeroU64::get)
    };
    let open = AppoConfig::default();
    assert_eq!(Appo::new(open.clone()).unwrap().target_update_period(), NonZeroU64::new(8));
    for (rhythm, expected) in
        [((1, 0), 8), ((1, 8), 9), ((1, 32), 33), ((40, 0), 40), ((40, 80), 120), ((9, u64::MAX), u64::MAX)]
    {
        assert_eq!(period(open.clone(), rhythm), Some(expected), "{rhythm:?}");
        let set = AppoConfig { target_update_frequency: NonZeroU64::new(3), ..open.clone() };
        assert_eq!(period(set, rhythm), Some(3), "{rhythm:?}");
        assert_eq!(period(AppoConfig { vtrace: false, ..open.clone() }, rhythm), None);
    }
}
