//! The pure loss, in `f64`.

use pronk_policy::categorical;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::*;

const ACTIONS: usize = 3;
const NVEC: &[usize] = &[ACTIONS];

/// Inputs of the loss from logits on, with their own storage.
#[derive(Clone, Debug)]
struct Case {
    steps: usize,
    columns: usize,
    behaviour_logp: Vec<f64>,
    logits: Vec<f64>,
    actions: Vec<usize>,
    values: Vec<f64>,
    next_values: Vec<f64>,
    rewards: Vec<f64>,
    discounts: Vec<f64>,
    mask: Option<Vec<bool>>,
    last_step: Last,
    config: ImpalaLossConfig<f64>,
}

#[derive(Clone, Copy, Debug)]
enum Last {
    Bootstrap,
    Drop,
    OwnValue,
}

struct Evaluated {
    stats: ImpalaLossStats,
    grads: ImpalaGrads<f64>,
    d_logits: Vec<f64>,
}

impl Case {
    fn rows(&self) -> usize {
        self.steps * self.columns
    }

    fn evaluate(&self) -> Result<Evaluated, ShapeError> {
        let rows = || self.logits.chunks_exact(ACTIONS);
        let logp: Vec<f64> =
            rows().zip(&self.actions).map(|(row, &action)| categorical::logp(NVEC, row, &[action])).collect();
        let entropy: Vec<f64> = rows().map(|row| categorical::entropy(NVEC, row)).collect();
        let input = ImpalaLossInput {
            steps: self.steps,
            columns: self.columns,
            behaviour_logp: &self.behaviour_logp,
            logp: &logp,
            entropy: &entropy,
            values: &self.values,
            targets: Targets::Vtrace {
                rewards: &self.rewards,
                discounts: &self.discounts,
                last_step: match self.last_step {
                    Last::Bootstrap => LastStep::Bootstrap(&self.next_values),
                    Last::Drop => LastStep::Drop,
                    Last::OwnValue => LastStep::OwnValue,
                },
            },
            mask: self.mask.as_deref(),
        };
        let mut grads = ImpalaGrads::default();
        let stats = impala_loss(&self.config, &input, &mut grads)?;
        let mut d_logits = vec![0.0; self.logits.len()];
        for (i, (row, d_row)) in rows().zip(d_logits.chunks_exact_mut(ACTIONS)).enumerate() {
            categorical::logp_grad(NVEC, row, &[self.actions[i]], grads.logp[i], d_row);
            categorical::entropy_grad(NVEC, row, grads.entropy[i], d_row);
        }
        Ok(Evaluated { stats, grads, d_logits })
    }

    /// Steps whose loss counts.
    fn learned(&self) -> Vec<usize> {
        let end = match self.last_step {
            Last::Drop => self.rows() - self.columns,
            Last::Bootstrap | Last::OwnValue => self.rows(),
        };
        (0..end).filter(|&i| self.mask.as_ref().is_none_or(|mask| mask[i])).collect()
    }

    /// The loss as the paper defines it, as a function of logits and values while targets and advantages stay
    /// fixed.
    fn total_loss(&self, logits: &[f64], values: &[f64], targets: &VtraceOutput<f64>) -> f64 {
        let of_step = |i: usize| {
            let exps: Vec<f64> = logits[i * ACTIONS..(i + 1) * ACTIONS].iter().map(|logit| logit.exp()).collect();
            let sum: f64 = exps.iter().sum();
            let entropy: f64 = exps.iter().map(|exp| -(exp / sum) * (exp / sum).ln()).sum();
            let logp = (exps[self.actions[i]] / sum).ln();
            let value_error = values[i] - targets.vs[i];
            -logp * targets.pg_advantages[i] + self.config.vf_loss_coeff * 0.5 * value_error * value_error
                - self.config.entropy_coeff * entropy
        };
        self.learned().into_iter().map(of_step).sum()
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let last_step = prop_oneof![Just(Last::Bootstrap), Just(Last::Drop), Just(Last::OwnValue)];
    let masked_steps = prop_oneof![Just(MaskedSteps::Skip), Just(MaskedSteps::Recurse)];
    let settings = (0.0..2.0, 0.0..0.5, prop::option::of(0.0..2.0), masked_steps, last_step);
    (2_usize..6, 1_usize..4, settings).prop_flat_map(|(steps, columns, settings)| {
        let (vf_loss_coeff, entropy_coeff, bar, masked_steps, last_step) = settings;
        let vtrace = VtraceConfig { clip_rho: bar, clip_pg_rho: bar, ..VtraceConfig::default() };
        let config = ImpalaLossConfig { vf_loss_coeff, entropy_coeff, vtrace, masked_steps };
        let rows = steps * columns;
        let number = -2.0..2.0;
        // Not all of them masked, and not all but the dropped ones: the first step is always there.
        let mask = prop::option::of(vec(any::<bool>(), rows).prop_map(|mut mask| {
            mask[0] = true;
            mask
        }));
        (
            (vec(-3.0..-0.1, rows), vec(number.clone(), rows * ACTIONS), vec(0..ACTIONS, rows)),
            (vec(number.clone(), rows), vec(number.clone(), columns), vec(number, rows)),
            vec(prop_oneof![3 => Just(0.97), 1 => Just(0.0)], rows),
            mask,
        )
            .prop_map(move |(policy, values_and_rewards, discounts, mask)| {
                let (behaviour_logp, logits, actions) = policy;
                let (values, next_values, rewards) = values_and_rewards;
                Case {
                    steps,
                    columns,
                    behaviour_logp,
                    logits,
                    actions,
                    values,
                    next_values,
                    rewards,
                    discounts,
                    mask,
                    last_step,
                    config,
                }
            })
    })
}

/// Central differences of `f` at `point`.
fn finite_differences(point: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-5;
    (0..point.len())
        .map(|i| {
            let shifted = |by: f64| {
                let mut point = point.to_vec();
                point[i] += by;
                f(&point)
            };
            (shifted(step) - shifted(-step)) / (2.0 * step)
        })
        .collect()
}

#[track_caller]
fn assert_close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "[{i}] got {got}, want {want}");
    }
}

proptest! {
    #[test]
    fn gradients_are_finite_differences_of_the_loss(case in cases()) {
        let Evaluated { stats, grads, d_logits } = case.evaluate().unwrap();
        let targets = &grads.vtrace;
        assert_close(&[stats.total_loss], &[case.total_loss(&case.logits, &case.values, targets)], 1e-9);
        let of_logits = finite_differences(&case.logits, |logits| case.total_loss(logits, &case.values, targets));
        assert_close(&d_logits, &of_logits, 1e-6);
        let of_values = finite_differences(&case.values, |values| case.total_loss(&case.logits, values, targets));
        assert_close(&grads.values, &of_values, 1e-6);
    }

    #[test]
    fn steps_that_are_not_learned_from_get_no_gradient(case in cases()) {
        let Evaluated { grads, d_logits, .. } = case.evaluate().unwrap();
        let learned = case.learned();
        for i in (0..case.rows()).filter(|i| !learned.contains(i)) {
            assert_eq!(grads.values[i], 0.0);
            assert!(d_logits[i * ACTIONS..(i + 1) * ACTIONS].iter().all(|gradient| *gradient == 0.0));
        }
    }

    #[test]
    fn dropping_the_last_step_is_a_shorter_batch_that_bootstraps_from_it(case in cases()) {
        let case = Case { last_step: Last::Drop, ..case };
        let (rows, dropped) = (case.rows() - case.columns, case.evaluate().unwrap());
        let mut short = case.clone();
        short.steps -= 1;
        short.last_step = Last::Bootstrap;
        short.next_values = short.values.split_off(rows);
        short.logits.truncate(rows * ACTIONS);
        short.actions.truncate(rows);
        for column in [&mut short.behaviour_logp, &mut short.rewards, &mut short.discounts] {
            column.truncate(rows);
        }
        short.mask = short.mask.map(|mask| mask[..rows].to_vec());
        let short = short.evaluate().unwrap();
        assert_eq!(dropped.stats, short.stats);
        assert_eq!(dropped.d_logits[..rows * ACTIONS], short.d_logits);
        assert_eq!(dropped.grads.values[..rows], short.grads.values);
    }

    #[test]
    fn a_step_that_is_its_own_successor_bootstraps_from_the_last_value(case in cases()) {
        let own = Case { last_step: Last::OwnValue, ..case };
        let next_values = own.values[own.rows() - own.columns..].to_vec();
        let given = Case { last_step: Last::Bootstrap, next_values, ..own.clone() };
        assert_eq!(own.evaluate().unwrap().stats, given.evaluate().unwrap().stats);
    }
}

/// One column on the policy's own data: uniform over three actions, gamma 0.5, bootstrap 4.
fn by_hand() -> Case {
    let uniform = -(ACTIONS as f64).ln();
    Case {
        steps: 2,
        columns: 1,
        behaviour_logp: vec![uniform; 2],
        logits: vec![0.0; 2 * ACTIONS],
        actions: vec![0, 1],
        values: vec![1.0, 2.0],
        next_values: vec![4.0],
        rewards: vec![1.0, 2.0],
        discounts: vec![0.5, 0.5],
        mask: None,
        last_step: Last::Bootstrap,
        config: ImpalaLossConfig {
            vf_loss_coeff: 0.5,
            entropy_coeff: 0.01,
            vtrace: VtraceConfig::default(),
            masked_steps: MaskedSteps::Skip,
        },
    }
}

#[test]
fn losses_are_sums_and_the_entropy_is_also_reported_as_a_mean() {
    // Returns are 3 and 4, so errors are 2 and 2, and so are the advantages.
    let stats = by_hand().evaluate().unwrap().stats;
    let entropy = 3.0_f64.ln();
    assert_close(
        &[stats.policy_loss, stats.vf_loss, stats.entropy_sum, stats.entropy_mean],
        &[4.0 * entropy, 4.0, 2.0 * entropy, entropy],
        1e-12,
    );
    assert_close(&[stats.total_loss], &[4.0 * entropy + 0.5 * 4.0 - 0.01 * 2.0 * entropy], 1e-12);
    assert_eq!(stats.vf_explained_var, Some(1.0), "all errors are equal");
}

#[test]
fn explained_variance_is_none_for_one_target_and_lowest_for_constant_ones() {
    let one = Case { last_step: Last::Drop, ..by_hand() };
    assert_eq!(one.evaluate().unwrap().stats.vf_explained_var, None);
    let constant = Case { rewards: vec![1.0, 1.0], discounts: vec![0.0; 2], ..by_hand() };
    assert_eq!(constant.evaluate().unwrap().stats.vf_explained_var, Some(-1.0));
    // Three tenths do not sum to three times a tenth.
    let tenths = Case {
        steps: 1,
        columns: 3,
        behaviour_logp: vec![-1.0; 3],
        logits: vec![0.0; 3 * ACTIONS],
        actions: vec![0; 3],
        values: vec![0.0; 3],
        next_values: vec![0.0; 3],
        rewards: vec![0.1; 3],
        discounts: vec![0.0; 3],
        ..by_hand()
    };
    assert_eq!(tenths.evaluate().unwrap().stats.vf_explained_var, Some(-1.0));
    // Targets 0 and 1, errors 0.5 and 1.
    let half = Case { rewards: vec![0.0, 1.0], values: vec![-0.5, 0.0], discounts: vec![0.0; 2], ..by_hand() };
    assert_close(&[half.evaluate().unwrap().stats.vf_explained_var.unwrap()], &[0.75], 1e-12);
}

#[test]
fn statistics_of_the_ratios_tell_how_far_the_data_is_off_policy() {
    let uniform = -(ACTIONS as f64).ln();
    let mut case = by_hand();
    case.behaviour_logp = vec![uniform - 2.0_f64.ln(), uniform + 2.0_f64.ln()];
    case.config.vtrace.clip_rho = Some(3.0);
    let stats = case.evaluate().unwrap().stats;
    assert_close(&[stats.mean_rho, stats.rho_clipped, stats.c_clipped], &[1.25, 0.0, 0.5], 1e-12);
    case.config.vtrace.clip_rho = None;
    case.behaviour_logp[0] = -800.0;
    assert!(case.evaluate().unwrap().stats.mean_rho.is_finite());
}

#[test]
fn skipped_steps_are_not_there_and_recursing_ones_carry_what_follows_them() {
    let mut case = by_hand();
    case.mask = Some(vec![true, false]);
    let skipped = case.evaluate().unwrap();
    assert_eq!(skipped.grads.vtrace.vs, [1.0 + 0.5 * 2.0, 2.0]);
    assert_eq!(skipped.stats.vf_explained_var, None, "one target is left");
    case.config.masked_steps = MaskedSteps::Recurse;
    let recursed = case.evaluate().unwrap();
    assert_eq!(recursed.grads.vtrace.vs, [1.0 + 0.5 * 4.0, 4.0]);
    assert_eq!(recursed.stats.entropy_mean, recursed.stats.entropy_sum);
    assert_eq!(recursed.stats.vf_explained_var, Some(1.0), "both errors are 2");
}

#[test]
fn a_batch_with_nothing_to_learn_from_is_an_error() {
    let masked = Case { mask: Some(vec![false; 2]), ..by_hand() };
    let error = masked.evaluate().map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "what is left to learn from has 0 elements where at least one step, neither masked nor dropped, needs 1"
    );
    let mut one_step = Case { last_step: Last::Drop, steps: 1, ..by_hand() };
    one_step.logits.truncate(ACTIONS);
    one_step.actions.truncate(1);
    for column in [&mut one_step.behaviour_logp, &mut one_step.values, &mut one_step.rewards, &mut one_step.discounts] {
        column.truncate(1);
    }
    assert!(one_step.evaluate().is_err());
    let mut empty = Case { steps: 0, columns: 0, next_values: vec![], ..one_step };
    empty.logits.clear();
    for column in [&mut empty.behaviour_logp, &mut empty.values, &mut empty.rewards, &mut empty.discounts] {
        column.clear();
    }
    for last_step in [Last::Bootstrap, Last::Drop, Last::OwnValue] {
        assert!(Case { last_step, ..empty.clone() }.evaluate().is_err());
    }
}

#[test]
fn a_wrong_length_is_named() {
    let wrong = Case { rewards: vec![1.0], ..by_hand() };
    assert_eq!(wrong.evaluate().map(|_| ()).unwrap_err().name, "rewards");
    let wrong = Case { mask: Some(vec![true]), ..by_hand() };
    assert_eq!(wrong.evaluate().map(|_| ()).unwrap_err().name, "mask");
    let wrong = Case { next_values: vec![1.0; 2], ..by_hand() };
    assert_eq!(wrong.evaluate().map(|_| ()).unwrap_err().name, "bootstrap");
}
