#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Inputs with their own storage.
#[derive(Clone, Debug)]
struct Case {
    behaviour_logp: Vec<f64>,
    logp: Vec<f64>,
    entropy: Vec<f64>,
    values: Vec<f64>,
    advantages: Vec<f64>,
    value_targets: Vec<f64>,
    ratio_weights: Vec<f64>,
    kl: Vec<f64>,
    mask: Option<Vec<bool>>,
    config: SurrogateConfig<f64>,
}

impl Case {
    fn input(&self) -> SurrogateInput<'_, f64> {
        SurrogateInput {
            behaviour_logp: &self.behaviour_logp,
            logp: &self.logp,
            entropy: &self.entropy,
            values: &self.values,
            advantages: &self.advantages,
            value_targets: &self.value_targets,
            ratio_weights: Some(&self.ratio_weights),
            kl: Some(&self.kl),
            mask: self.mask.as_deref(),
        }
    }

    fn run(&self) -> (SurrogateStats, SurrogateGrads<f64>) {
        let mut grads = SurrogateGrads { logp: vec![7.0; 99], ..SurrogateGrads::default() };
        let stats = surrogate_loss(&self.config, &self.input(), &mut grads).unwrap();
        (stats, grads)
    }

    fn total(&self) -> f64 {
        self.run().0.total_loss
    }

    fn rows(&self) -> usize {
        self.logp.len()
    }

    /// Without the entries that are masked.
    fn without_masked(&self) -> Case {
        let kept: Vec<usize> = (0..self.rows()).filter(|&i| self.mask.as_ref().is_none_or(|mask| mask[i])).collect();
        let of = |numbers: &[f64]| kept.iter().map(|&i| numbers[i]).collect::<Vec<_>>();
        Case {
            behaviour_logp: of(&self.behaviour_logp),
            logp: of(&self.logp),
            entropy: of(&self.entropy),
            values: of(&self.values),
            advantages: of(&self.advantages),
            value_targets: of(&self.value_targets),
            ratio_weights: of(&self.ratio_weights),
            kl: of(&self.kl),
            mask: None,
            config: self.config,
        }
    }
}

fn cases() -> impl Strategy<Value = Case> {
    (1_usize..9, any::<bool>(), any::<bool>()).prop_flat_map(|(rows, half, masked)| {
        let numbers = |low: f64, high: f64| vec(low..high, rows);
        let columns = (
            numbers(-2.0, 0.0),
            numbers(-2.0, 0.0),
            numbers(0.0, 2.0),
            numbers(-2.0, 2.0),
            numbers(-2.0, 2.0),
            numbers(-2.0, 2.0),
            numbers(0.5, 1.5),
            numbers(0.0, 1.0),
        );
        (columns, vec(any::<bool>(), rows)).prop_map(move |(c, mut mask)| {
            mask[0] = true;
            let value_loss = if half { ValueLoss::HalfSquared } else { ValueLoss::Squared { most: 1.5 } };
            Case {
                behaviour_logp: c.0,
                logp: c.1,
                entropy: c.2,
                values: c.3,
                advantages: c.4,
                value_targets: c.5,
                ratio_weights: c.6,
                kl: c.7,
                mask: masked.then_some(mask),
                config: SurrogateConfig {
                    clip_param: 0.2,
                    vf_loss_coeff: 0.7,
                    value_loss,
                    entropy_coeff: 0.03,
                    kl_coeff: 0.4,
                },
            }
        })
    })
}

type Column = fn(&mut Case) -> &mut Vec<f64>;

proptest! {
    #[test]
    fn every_gradient_is_the_slope_of_the_total(case in cases()) {
        const H: f64 = 1e-6;
        let (_, grads) = case.run();
        let columns: [(&str, Column, &Vec<f64>); 4] = [
            ("logp", |case| &mut case.logp, &grads.logp),
            ("entropy", |case| &mut case.entropy, &grads.entropy),
            ("values", |case| &mut case.values, &grads.values),
            ("kl", |case| &mut case.kl, &grads.kl),
        ];
        for (name, column, gradient) in columns {
            prop_assert_eq!(gradient.len(), case.rows());
            for (i, &here) in gradient.iter().enumerate() {
                let moved = |by: f64| {
                    let mut case = case.clone();
                    column(&mut case)[i] += by;
                    case.total()
                };
                let (up, down) = ((moved(H) - case.total()) / H, (case.total() - moved(-H)) / H);
                // At a kink the slopes of both sides differ; the gradient is one of them or lies between.
                let (low, high) = (up.min(down) - 1e-5, up.max(down) + 1e-5);
                prop_assert!((low..=high).contains(&here), "{} {}: {} not in {}..{}", name, i, here, low, high);
            }
        }
    }

    #[test]
    fn masked_entries_are_as_if_they_were_not_there(case in cases()) {
        let ((stats, grads), (want, want_grads)) = (case.run(), case.without_masked().run());
        for (got, want) in [
            (stats.total_loss, want.total_loss),
            (stats.mean_ratio, want.mean_ratio),
            (stats.vf_explained_var.unwrap_or(9.0), want.vf_explained_var.unwrap_or(9.0)),
        ] {
            prop_assert!((got - want).abs() <= 1e-12 * (1.0 + want.abs()), "{} {}", got, want);
        }
        let kept = |i: &usize| case.mask.as_ref().is_none_or(|mask| mask[*i]);
        let (there, gone): (Vec<usize>, Vec<usize>) = (0..case.rows()).partition(kept);
        prop_assert_eq!(there.iter().map(|&i| grads.logp[i]).collect::<Vec<_>>(), want_grads.logp);
        prop_assert!(gone.iter().all(|&i| grads.logp[i] == 0.0 && grads.values[i] == 0.0 && grads.kl[i] == 0.0));
    }
}

/// One entry with this ratio and advantage: the policy loss, and its slope with respect to logp.
fn one(ratio: f64, advantage: f64) -> (f64, f64) {
    let (numbers, config) = (
        [0.0; 1],
        SurrogateConfig {
            clip_param: 0.2,
            vf_loss_coeff: 1.0,
            value_loss: ValueLoss::HalfSquared,
            entropy_coeff: 0.0,
            kl_coeff: 0.0,
        },
    );
    let input = SurrogateInput {
        behaviour_logp: &numbers,
        logp: &[ratio.ln()],
        entropy: &numbers,
        values: &numbers,
        advantages: &[advantage],
        value_targets: &numbers,
        ratio_weights: None,
        kl: None,
        mask: None,
    };
    let mut grads = SurrogateGrads::default();
    let stats = surrogate_loss(&config, &input, &mut grads).unwrap();
    assert_eq!(stats.kl, None);
    (stats.policy_loss, grads.logp[0])
}

#[test]
fn a_ratio_beyond_the_clip_earns_nothing_more_and_only_mistakes_are_taken_back() {
    // Too far already in the good direction: held, no slope.
    assert_eq!(one(1.5, 2.0), (-1.2 * 2.0, 0.0));
    assert_eq!(one(0.5, -2.0), (0.8 * 2.0, 0.0));
    // Too far in the bad direction: the whole way back counts.
    let (loss, slope) = one(1.5, -2.0);
    assert!((loss - 3.0).abs() < 1e-12 && (slope - 3.0).abs() < 1e-12, "{loss} {slope}");
    let (loss, slope) = one(0.5, 2.0);
    assert!((loss + 1.0).abs() < 1e-12 && (slope + 1.0).abs() < 1e-12, "{loss} {slope}");
}

#[test]
fn a_value_error_beyond_its_bound_costs_the_bound_and_pulls_no_more() {
    let (loss, slope) = ValueLoss::Squared { most: 4.0 }.of(3.0_f64);
    assert_eq!((loss, slope), (4.0, 0.0));
    assert_eq!(ValueLoss::Squared { most: 4.0 }.of(1.5_f64), (2.25, 3.0));
    assert_eq!(ValueLoss::Squared { most: f64::INFINITY }.of(30.0_f64), (900.0, 60.0));
    assert_eq!(ValueLoss::HalfSquared.of(-3.0_f64), (4.5, -3.0));
}

#[test]
fn nan_stays_nan_and_bad_lengths_are_refused_by_name() {
    assert!(one(f64::NAN, 1.0).0.is_nan());
    assert!(one(1.0, f64::NAN).0.is_nan());

    let (full, short) = ([0.5; 4], [0.5; 3]);
    let input = SurrogateInput {
        behaviour_logp: &full,
        logp: &full,
        entropy: &full,
        values: &full,
        advantages: &full,
        value_targets: &full,
        ratio_weights: Some(&full),
        kl: Some(&full),
        mask: None,
    };
    let config = SurrogateConfig {
        clip_param: 0.2,
        vf_loss_coeff: 1.0,
        value_loss: ValueLoss::HalfSquared,
        entropy_coeff: 0.0,
        kl_coeff: 0.0,
    };
    let name = |input: SurrogateInput<'_, f64>| {
        surrogate_loss(&config, &input, &mut SurrogateGrads::default()).unwrap_err().name
    };
    assert_eq!(name(SurrogateInput { behaviour_logp: &short, ..input }), "behaviour_logp");
    assert_eq!(name(SurrogateInput { entropy: &short, ..input }), "entropy");
    assert_eq!(name(SurrogateInput { values: &short, ..input }), "values");
    assert_eq!(name(SurrogateInput { advantages: &short, ..input }), "advantages");
    assert_eq!(name(SurrogateInput { value_targets: &short, ..input }), "value_targets");
    assert_eq!(name(SurrogateInput { ratio_weights: Some(&short), ..input }), "ratio_weights");
    assert_eq!(name(SurrogateInput { kl: Some(&short), ..input }), "kl");
    assert_eq!(name(SurrogateInput { mask: Some(&[true; 5]), ..input }), "mask");
    assert_eq!(name(SurrogateInput { mask: Some(&[false; 4]), ..input }), "what is left to learn from");
}
