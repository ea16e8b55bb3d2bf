#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
struct Case {
    steps: usize,
    columns: usize,
    rewards: Vec<f64>,
    discounts: Vec<f64>,
    values: Vec<f64>,
    bootstrap: Vec<f64>,
    lambda: f64,
}

impl Case {
    fn run(&self, lambda: f64, kind: Advantages) -> GaeOutput<f64> {
        let input = GaeInput {
            steps: self.steps,
            columns: self.columns,
            rewards: &self.rewards,
            discounts: &self.discounts,
            values: &self.values,
            bootstrap: &self.bootstrap,
        };
        // Storage with something in it, which must not show.
        let mut output = GaeOutput { advantages: vec![7.0; 99], value_targets: vec![7.0; 1] };
        gae(lambda, kind, &input, &mut output).unwrap();
        output
    }

    /// The sum of the paper, term by term: Σ over l of (γλ)^l δ[t+l], up to the end of the episode.
    fn by_the_paper(&self, t: usize, b: usize) -> f64 {
        let at = |t: usize| t * self.columns + b;
        let value = |t: usize| if t == self.steps { self.bootstrap[b] } else { self.values[at(t)] };
        let (mut sum, mut weight) = (0.0, 1.0);
        for l in t..self.steps {
            sum += weight * (self.rewards[at(l)] + self.discounts[at(l)] * value(l + 1) - value(l));
            weight *= self.discounts[at(l)] * self.lambda;
        }
        sum
    }
}

fn cases() -> impl Strategy<Value = Case> {
    (1_usize..8, 1_usize..5, 0.0..=1.0).prop_flat_map(|(steps, columns, lambda)| {
        let rows = steps * columns;
        let discount = prop_oneof![3 => Just(0.9), 1 => Just(0.0)];
        let numbers = |len| vec(-3.0..3.0, len);
        (numbers(rows), vec(discount, rows), numbers(rows), numbers(columns)).prop_map(
            move |(rewards, discounts, values, bootstrap)| Case {
                steps,
                columns,
                rewards,
                discounts,
                values,
                bootstrap,
                lambda,
            },
        )
    })
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * (1.0 + a.abs() + b.abs())
}

proptest! {
    #[test]
    fn advantages_are_the_sum_of_the_paper_and_targets_add_the_value(case in cases()) {
        let output = case.run(case.lambda, Advantages::Gae);
        for i in 0..case.steps * case.columns {
            let expected = case.by_the_paper(i / case.columns, i % case.columns);
            prop_assert!(close(output.advantages[i], expected), "{i}: {} {expected}", output.advantages[i]);
            prop_assert!(close(output.value_targets[i], expected + case.values[i]));
        }
    }

    #[test]
    fn at_lambda_one_they_are_returns_less_values(case in cases()) {
        let (with_lambda, returns) = (case.run(1.0, Advantages::Gae), case.run(0.3, Advantages::Return));
        let alone = case.run(0.3, Advantages::ReturnAlone);
        for i in 0..case.steps * case.columns {
            prop_assert!(close(with_lambda.advantages[i], returns.advantages[i]));
            prop_assert!(close(with_lambda.value_targets[i], returns.value_targets[i]));
            prop_assert_eq!((alone.advantages[i], alone.value_targets[i]), (returns.value_targets[i], 0.0));
        }
    }
}

#[test]
fn a_slice_of_another_length_is_refused_by_name() {
    let full = [0.0_f64; 6];
    let of = |rewards, discounts, values, bootstrap| {
        let input = GaeInput { steps: 2, columns: 3, rewards, discounts, values, bootstrap };
        gae(1.0, Advantages::Gae, &input, &mut GaeOutput::default())
    };
    let (short, three) = (&full[..5], &full[..3]);
    assert_eq!(of(&full, &full, &full, three), Ok(()));
    for (name, result) in [
        ("rewards", of(short, &full, &full, three)),
        ("discounts", of(&full, short, &full, three)),
        ("values", of(&full, &full, short, three)),
        ("bootstrap", of(&full, &full, &full, short)),
    ] {
        assert_eq!(result.unwrap_err().name, name);
    }
}
