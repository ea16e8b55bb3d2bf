#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::End;
use proptest::prelude::*;

use super::*;

/// One set of inputs with its own storage.
#[derive(Clone, Debug)]
struct Case {
    steps: usize,
    columns: usize,
    log_rhos: Vec<f64>,
    discounts: Vec<f64>,
    rewards: Vec<f64>,
    values: Vec<f64>,
    bootstrap: Vec<f64>,
    mask: Option<Vec<bool>>,
}

impl Case {
    fn input(&self) -> VtraceInput<'_, f64> {
        VtraceInput {
            steps: self.steps,
            columns: self.columns,
            log_rhos: &self.log_rhos,
            discounts: &self.discounts,
            rewards: &self.rewards,
            values: &self.values,
            bootstrap: &self.bootstrap,
            mask: self.mask.as_deref(),
        }
    }

    fn run(&self, config: &VtraceConfig<f64>) -> VtraceOutput<f64> {
        let mut output = VtraceOutput::default();
        vtrace(config, &self.input(), &mut output).unwrap();
        output
    }

    fn value_after(&self, t: usize, b: usize) -> f64 {
        if t + 1 == self.steps { self.bootstrap[b] } else { self.values[(t + 1) * self.columns + b] }
    }
}

/// Equation 1 of the paper, term by term: `v_s = V(x_s) + sum over t >= s of gamma^(t-s) (prod of c_i, s <= i
/// < t) delta_t V`, with the discount of each step in the product instead of a power of gamma. `O(T^2)`.
fn vs_of_the_paper(case: &Case, config: &VtraceConfig<f64>) -> Vec<f64> {
    let bar = |rho: f64, bar: Option<f64>| bar.map_or(rho, |bar| rho.min(bar));
    let at = |t: usize, b: usize| t * case.columns + b;
    let mut vs = case.values.clone();
    for s in 0..case.steps {
        for b in 0..case.columns {
            for t in s..case.steps {
                let mut product = 1.0;
                for i in s..t {
                    let c = config.lambda * bar(case.log_rhos[at(i, b)].exp(), config.clip_c);
                    product *= case.discounts[at(i, b)] * c;
                }
                let rho = bar(case.log_rhos[at(t, b)].exp(), config.clip_rho);
                let target = case.rewards[at(t, b)] + case.discounts[at(t, b)] * case.value_after(t, b);
                vs[at(s, b)] += product * rho * (target - case.values[at(t, b)]);
            }
        }
    }
    vs
}

fn advantages_of_the_paper(case: &Case, config: &VtraceConfig<f64>, vs: &[f64]) -> Vec<f64> {
    let mut advantages = Vec::new();
    for t in 0..case.steps {
        for b in 0..case.columns {
            let i = t * case.columns + b;
            let next = if t + 1 == case.steps { case.bootstrap[b] } else { vs[i + case.columns] };
            let rho = case.log_rhos[i].exp();
            let rho = config.clip_pg_rho.map_or(rho, |bar| rho.min(bar));
            advantages.push(rho * (case.rewards[i] + case.discounts[i] * next - case.values[i]));
        }
    }
    advantages
}

fn cases() -> impl Strategy<Value = Case> {
    (0_usize..12, 0_usize..9).prop_flat_map(|(steps, columns)| {
        let of = move |range: std::ops::Range<f64>, n: usize| prop::collection::vec(range, n);
        let n = steps * columns;
        let discount = prop_oneof![3 => 0.5..1.0, 1 => Just(0.0)];
        (
            of(-2.5..2.5, n),
            prop::collection::vec(discount, n),
            of(-3.0..3.0, n),
            of(-3.0..3.0, n),
            of(-3.0..3.0, columns),
        )
            .prop_map(move |(log_rhos, discounts, rewards, values, bootstrap)| Case {
                steps,
                columns,
                log_rhos,
                discounts,
                rewards,
                values,
                bootstrap,
                mask: None,
            })
    })
}

fn configs() -> impl Strategy<Value = VtraceConfig<f64>> {
    let bar = || prop::option::of(0.0..4.0);
    (bar(), bar(), bar(), 0.0..=1.0).prop_map(|(clip_rho, clip_pg_rho, clip_c, lambda)| VtraceConfig {
        clip_rho,
        clip_pg_rho,
        clip_c,
        lambda,
        ..VtraceConfig::default()
    })
}

#[track_caller]
fn assert_close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= 1e-9 * want.abs().max(1.0), "[{i}] got {got}, want {want}");
    }
}

proptest! {
    #[test]
    fn targets_and_advantages_are_those_of_the_paper(case in cases(), config in configs()) {
        let got = case.run(&config);
        let vs = vs_of_the_paper(&case, &config);
        assert_close(&got.vs, &vs);
        assert_close(&got.pg_advantages, &advantages_of_the_paper(&case, &config, &vs));
    }

    #[test]
    fn on_the_policys_own_data_targets_are_discounted_returns(mut case in cases()) {
        case.log_rhos.fill(0.0);
        let mut returns = case.values.clone();
        for b in 0..case.columns {
            let mut after = case.bootstrap[b];
            for t in (0..case.steps).rev() {
                let i = t * case.columns + b;
                after = case.rewards[i] + case.discounts[i] * after;
                returns[i] = after;
            }
        }
        assert_close(&case.run(&VtraceConfig::default()).vs, &returns);
    }

    #[test]
    fn a_ratio_of_zero_leaves_the_value_as_it_is(mut case in cases()) {
        case.log_rhos.fill(f64::NEG_INFINITY);
        let output = case.run(&VtraceConfig::default());
        assert_close(&output.vs, &case.values);
        assert!(output.pg_advantages.iter().all(|advantage| *advantage == 0.0));
    }

    #[test]
    fn columns_do_not_touch_each_other(case in cases(), config in configs()) {
        let together = case.run(&config);
        for b in 0..case.columns {
            let column = |rows: &[f64]| rows.iter().skip(b).step_by(case.columns).copied().collect::<Vec<_>>();
            let alone = Case {
                columns: 1,
                log_rhos: column(&case.log_rhos),
                discounts: column(&case.discounts),
                rewards: column(&case.rewards),
                values: column(&case.values),
                bootstrap: vec![case.bootstrap[b]],
                ..case.clone()
            };
            assert_eq!(alone.run(&config).vs, column(&together.vs));
        }
    }

    #[test]
    fn padding_after_the_end_of_an_episode_changes_nothing(case in cases(), padded in 1_usize..4) {
        let mut padded_case = case.clone();
        let n = padded * case.columns;
        for (column, padding) in [
            (&mut padded_case.log_rhos, 1.5),
            (&mut padded_case.discounts, 0.9),
            (&mut padded_case.rewards, 7.0),
            (&mut padded_case.values, -5.0),
        ] {
            column.extend(std::iter::repeat_n(padding, n));
        }
        padded_case.steps += padded;
        padded_case.mask = Some((0..padded_case.rewards.len()).map(|i| i < case.rewards.len()).collect());
        let last_row = (case.steps * case.columns).saturating_sub(case.columns)..case.steps * case.columns;
        let mut case = case;
        case.discounts[last_row.clone()].fill(0.0);
        padded_case.discounts[last_row].fill(0.0);

        let (got, want) = (padded_case.run(&VtraceConfig::default()), case.run(&VtraceConfig::default()));
        assert_eq!(got.vs[..want.vs.len()], want.vs);
        assert_eq!(got.pg_advantages[..want.vs.len()], want.pg_advantages);
        assert!(got.vs[want.vs.len()..].iter().all(|vs| *vs == -5.0));
    }

    #[test]
    fn a_leaky_mix_of_only_clipped_ratios_is_plain_vtrace(case in cases(), config in configs()) {
        let barely_leaky = VtraceConfig { alpha: 1.0 - 1e-15, ..config };
        assert_close(&case.run(&barely_leaky).vs, &case.run(&config).vs);
    }
}

#[test]
fn a_masked_step_hands_the_error_of_the_next_one_on() {
    let case = Case {
        steps: 3,
        columns: 1,
        log_rhos: vec![0.0; 3],
        discounts: vec![0.5; 3],
        rewards: vec![1.0, 100.0, 2.0],
        values: vec![0.0, 10.0, 0.0],
        bootstrap: vec![4.0],
        mask: Some(vec![true, false, true]),
    };
    // The last step's error is 2 + 0.5 * 4 = 4; the masked one keeps it, undiscounted.
    let vs = case.run(&VtraceConfig::default()).vs;
    assert_eq!(vs[2], 4.0);
    assert_eq!(vs[1], 10.0 + 4.0);
    assert_eq!(vs[0], 1.0 + 0.5 * 10.0 + 0.5 * 4.0);
}

#[test]
fn a_ratio_that_overflows_is_harmless_when_clipped() {
    let input = VtraceInput {
        steps: 2,
        columns: 1,
        log_rhos: &[200.0_f32, 0.0],
        discounts: &[0.9, 0.9],
        rewards: &[1.0, 1.0],
        values: &[0.5, 0.5],
        bootstrap: &[0.5],
        mask: None,
    };
    let mut output = VtraceOutput::default();
    vtrace(&VtraceConfig::default(), &input, &mut output).unwrap();
    assert_eq!(output.rhos[0], f32::INFINITY);
    let on_policy = VtraceInput { log_rhos: &[0.0, 0.0], ..input };
    let mut want = VtraceOutput::default();
    vtrace(&VtraceConfig::default(), &on_policy, &mut want).unwrap();
    assert_eq!((output.vs, output.pg_advantages), (want.vs, want.pg_advantages));
}

#[test]
fn a_wrong_length_names_slice_shape_and_both_lengths() {
    let five = [0.0; 5];
    let input = VtraceInput {
        steps: 2,
        columns: 3,
        log_rhos: &[0.0; 6],
        discounts: &[0.0; 6],
        rewards: &five,
        values: &[0.0; 6],
        bootstrap: &[0.0; 3],
        mask: None,
    };
    let error = vtrace(&VtraceConfig::default(), &input, &mut VtraceOutput::default()).unwrap_err();
    assert_eq!(error.to_string(), "rewards has 5 elements where [steps, columns] = [2, 3] needs 6");
    let bootstrap_of_all_steps = VtraceInput { rewards: &[0.0; 6], bootstrap: &[0.0; 6], ..input };
    let result = vtrace(&VtraceConfig::default(), &bootstrap_of_all_steps, &mut VtraceOutput::default());
    assert_eq!(result.unwrap_err().name, "bootstrap");
}

#[test]
fn the_same_output_can_be_used_for_another_shape() {
    let config = VtraceConfig::default();
    let large = Case {
        steps: 4,
        columns: 2,
        log_rhos: vec![0.1; 8],
        discounts: vec![0.9; 8],
        rewards: vec![1.0; 8],
        values: vec![0.3; 8],
        bootstrap: vec![0.3; 2],
        mask: None,
    };
    let small = Case {
        steps: 1,
        columns: 1,
        log_rhos: vec![0.1],
        discounts: vec![0.9],
        rewards: vec![1.0],
        values: vec![0.3],
        bootstrap: vec![0.3],
        mask: None,
    };
    let mut output = VtraceOutput::default();
    vtrace(&config, &large.input(), &mut output).unwrap();
    vtrace(&config, &small.input(), &mut output).unwrap();
    assert_eq!(output.vs, small.run(&config).vs);
}

#[test]
fn a_truncated_episode_bootstraps_from_its_final_observation_and_a_terminated_one_from_nothing() {
    let mut folded = EpisodeEnds::default();
    let ends = [End::No, End::Truncated, End::Terminated, End::Truncated];
    // One column a row: the entries may come in any order, and a terminated episode may have one too.
    let final_values = [((1, 1), 3.0), ((1, 0), 50.0), ((0, 1), 2.0)];
    folded.fold(0.5, 2, &[1.0, 1.0, 1.0, 1.0], &ends, final_values).unwrap();
    assert_eq!(folded.rewards, [1.0, 2.0, 1.0, 2.5]);
    assert_eq!(folded.discounts, [0.5, 0.0, 0.0, 0.0]);
}

#[test]
fn a_final_value_outside_the_batch_is_refused() {
    let mut folded = EpisodeEnds::default();
    for place in [(2, 0), (0, 2)] {
        let result = folded.fold(0.5, 2, &[1.0; 4], &[End::Truncated; 4], [(place, 3.0)]);
        assert_eq!(result.unwrap_err().name, "final_obs");
    }
    assert_eq!(folded.fold(0.5, 2, &[1.0; 4], &[End::No; 3], []).unwrap_err().name, "ends");
    assert_eq!(folded.fold(0.5, 2, &[1.0; 3], &[End::No; 3], []).unwrap_err().name, "rewards");
}
