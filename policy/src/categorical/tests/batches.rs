//! Many rows at once against one row at a time: against the functions in double precision, and against themselves.

use std::ops::Range;

use proptest::prelude::*;

use super::super::{Categorical, entropy, entropy_grad, kl, kl_grad_q, logp, logp_grad, sample};
use crate::{ActionsMut, ActionsRef, Distribution, Rng};

/// What every method is asked with.
#[derive(Clone, Debug)]
struct Batch {
    n: usize,
    p: Vec<f32>,
    q: Vec<f32>,
    actions: Vec<u32>,
    weight: Vec<f32>,
}

impl Batch {
    /// Logits up to ±`size`, some of which are masked. Each row has one that is not, the same in `p` and `q`.
    fn random(n: usize, rows: usize, size: f64, masked: f64, seed: u64) -> Self {
        let mut rng = Rng::seed_from(seed);
        let open: Vec<usize> = (0..rows).map(|_| rng.below(n as u64) as usize).collect();
        let mut logits = || -> Vec<f32> {
            let mut logit = |i: usize| {
                let mask = i % n != open[i / n] && rng.next_f64() < masked;
                if mask { f32::NEG_INFINITY } else { ((rng.next_f64() * 2.0 - 1.0) * size) as f32 }
            };
            (0..rows * n).map(&mut logit).collect()
        };
        let (p, q) = (logits(), logits());
        let actions = (0..rows).map(|_| rng.below(n as u64) as u32).collect();
        let weight = (0..rows).map(|_| rng.normal() as f32).collect();
        Self { n, p, q, actions, weight }
    }

    fn rows(&self, rows: Range<usize>) -> Self {
        let numbers = rows.start * self.n..rows.end * self.n;
        Self {
            n: self.n,
            p: self.p[numbers.clone()].to_vec(),
            q: self.q[numbers].to_vec(),
            actions: self.actions[rows.clone()].to_vec(),
            weight: self.weight[rows].to_vec(),
        }
    }

    fn answers(&self) -> Answers {
        let (c, rows) = (Categorical::new(self.n).unwrap(), self.actions.len());
        let (actions, weight) = (ActionsRef::Discrete(&self.actions), &self.weight);
        let (row, number) = (vec![9.0; rows], vec![0.25; rows * self.n]);
        let mut answers =
            Answers { by_row: [row.clone(), row.clone(), row], by_number: std::array::from_fn(|_| number.clone()) };
        let [logp, entropy, kl] = &mut answers.by_row;
        c.logp(&self.p, actions, logp).unwrap();
        c.entropy(&self.p, entropy).unwrap();
        c.kl(&self.p, &self.q, kl).unwrap();
        let [logp_grad, entropy_grad, kl_grad] = &mut answers.by_number;
        c.logp_grad(&self.p, actions, weight, logp_grad).unwrap();
        c.entropy_grad(&self.p, weight, entropy_grad).unwrap();
        c.kl_grad_q(&self.p, &self.q, weight, kl_grad).unwrap();
        answers
    }

    /// Log-probability and entropy asked for together, and their gradients: the same bits as one after the other.
    fn check_together(&self) {
        let (c, rows) = (Categorical::new(self.n).unwrap(), self.actions.len());
        let actions = ActionsRef::Discrete(&self.actions);
        let (mut logp, mut entropy, mut grad) = (vec![9.0; rows], vec![9.0; rows], vec![0.25; rows * self.n]);
        c.logp_and_entropy(&self.p, actions, &mut logp, &mut entropy).unwrap();
        let entropy_weight: Vec<f32> = self.weight.iter().map(|weight| 0.5 - weight).collect();
        c.logp_and_entropy_grad(&self.p, actions, &self.weight, &entropy_weight, &mut grad).unwrap();

        let (mut logp_alone, mut entropy_alone) = (vec![9.0; rows], vec![9.0; rows]);
        let mut one_by_one = vec![0.25; rows * self.n];
        c.logp(&self.p, actions, &mut logp_alone).unwrap();
        c.entropy(&self.p, &mut entropy_alone).unwrap();
        c.logp_grad(&self.p, actions, &self.weight, &mut one_by_one).unwrap();
        c.entropy_grad(&self.p, &entropy_weight, &mut one_by_one).unwrap();
        let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for (together, alone) in [(&logp, &logp_alone), (&entropy, &entropy_alone), (&grad, &one_by_one)] {
            assert_eq!(bits(together), bits(alone), "{self:?}");
        }
    }

    /// The same in double precision, row by row, with the size of what each number is made of.
    fn check(&self, got: &Answers) {
        let (p, q) = (double(&self.p), double(&self.q));
        let rows = p.chunks_exact(self.n).zip(q.chunks_exact(self.n)).zip(self.actions.iter().zip(&self.weight));
        for (row, ((p, q), (&action, &weight))) in rows.enumerate() {
            let (action, weight) = (action as usize, f64::from(weight));
            let probable = (0..self.n).filter(|&i| logp(p, i).exp() > 0.0);
            let terms: f64 = probable.map(|i| logp(p, i).exp() * (logp(p, i) - logp(q, i)).abs()).sum();
            let expected = [(logp(p, action), logp(p, action)), (entropy(p), entropy(p)), (kl(p, q), terms)];
            for (which, (expected, size)) in expected.into_iter().enumerate() {
                assert_near(got.by_row[which][row], expected, size, || format!("answer {which}, row {row}: {self:?}"));
            }
            let mut expected: [Vec<f64>; 3] = std::array::from_fn(|_| vec![0.25; self.n]);
            logp_grad(p, action, weight, &mut expected[0]);
            entropy_grad(p, weight, &mut expected[1]);
            kl_grad_q(p, q, weight, &mut expected[2]);
            for (which, expected) in expected.iter().enumerate() {
                for (i, &expected) in expected.iter().enumerate() {
                    let got = got.by_number[which][row * self.n + i];
                    assert_near(got, expected, 4.0 * weight, || format!("gradient {which}, row {row}: {self:?}"));
                }
            }
        }
    }
}

struct Answers {
    /// Log-probability, entropy, divergence.
    by_row: [Vec<f32>; 3],
    /// Their gradients, added to a quarter.
    by_number: [Vec<f32>; 3],
}

impl Answers {
    fn bits(&self, rows: Range<usize>, n: usize) -> Vec<u32> {
        let by_row = self.by_row.iter().flat_map(|row| &row[rows.clone()]);
        let by_number = self.by_number.iter().flat_map(|numbers| &numbers[rows.start * n..rows.end * n]);
        by_row.chain(by_number).map(|x| x.to_bits()).collect()
    }
}

fn double(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().copied().map(f64::from).collect()
}

fn assert_near(got: f32, expected: f64, size: f64, what: impl Fn() -> String) {
    let got = f64::from(got);
    let near = (got - expected).abs() <= 1e-6 * (1.0 + size.abs());
    assert!(got == expected || near, "got {got}, expected {expected}: {}", what());
}

proptest! {
    #[test]
    fn batches_agree_with_the_formulas(n in 1_usize..40, rows in 0_usize..300, small: bool, masked: bool, seed: u64) {
        let size = if small { 3.0 } else { 50.0 };
        let batch = Batch::random(n, rows, size, if masked { 0.3 } else { 0.0 }, seed);
        batch.check(&batch.answers());
        batch.check_together();
    }

    #[test]
    fn a_row_comes_out_the_same_bit_for_bit_in_any_batch(
        n in 1_usize..24,
        rows in 1_usize..100,
        from in 0.0..1.0,
        to in 0.0..1.0,
        seed: u64,
    ) {
        let batch = Batch::random(n, rows, 9.0, 0.1, seed);
        let from = (from * rows as f64) as usize;
        let part = from..from + 1 + (to * (rows - from) as f64) as usize;
        let got = batch.rows(part.clone()).answers().bits(0..part.len(), n);
        prop_assert_eq!(got, batch.answers().bits(part, n));
    }

    #[test]
    fn samples_follow_one_uniform_a_row_and_bring_the_bits_of_logp(
        n in 1_usize..24,
        rows in 1_usize..100,
        split in 0.0..1.0,
        seed: u64,
    ) {
        let (batch, c) = (Batch::random(n, rows, 3.0, 0.2, seed), Categorical::new(n).unwrap());
        let (mut actions, mut logps) = (vec![u32::MAX; rows], vec![9.0; rows]);
        let mut rng = Rng::seed_from(seed);
        let (first, second) = actions.split_at_mut((split * rows as f64) as usize);
        let (first_logps, second_logps) = logps.split_at_mut(first.len());
        let (first_logits, second_logits) = batch.p.split_at(first.len() * n);
        c.sample(first_logits, &mut rng, ActionsMut::Discrete(first), first_logps).unwrap();
        c.sample(second_logits, &mut rng, ActionsMut::Discrete(second), second_logps).unwrap();

        let mut again = vec![0.0; rows];
        c.logp(&batch.p, ActionsRef::Discrete(&actions), &mut again).unwrap();
        prop_assert_eq!(&logps, &again);
        prop_assert!(logps.iter().all(|logp| logp.is_finite()), "no masked action was sampled");
        let mut twin = Rng::seed_from(seed);
        for (logits, &action) in batch.p.chunks_exact(n).zip(&actions) {
            let (logits, uniform) = (double(logits), f64::from(twin.next_f32()));
            let around = [uniform - 1e-6, uniform + 1e-6].map(|uniform| sample(&logits, uniform.clamp(0.0, 1.0 - 1e-12)));
            prop_assert!((around[0]..=around[1]).contains(&(action as usize)), "{around:?}, not {action}");
        }
        prop_assert_eq!(rng, twin);
    }
}

#[test]
fn long_rows_agree_with_the_formulas() {
    for n in [63, 64, 65, 128, 129, 1000] {
        for rows in [1, 5, 20] {
            let batch = Batch::random(n, rows, 8.0, 0.1, n as u64);
            batch.check(&batch.answers());
        }
    }
}

#[test]
fn the_only_action_left_is_certain() {
    const MASKED: f32 = f32::NEG_INFINITY;
    let p = [0.3, MASKED, MASKED, MASKED, -50.0, MASKED, MASKED, MASKED, 1e30].repeat(7);
    let (n, rows) = (3, 21);
    let batch = Batch { n, q: p.clone(), p, actions: [0, 1, 2].repeat(7), weight: vec![2.0; rows] };
    let answers = batch.answers();
    assert!(answers.by_row.iter().flatten().all(|&x| x == 0.0), "{:?}", answers.by_row);
    assert!(answers.by_number.iter().flatten().all(|&x| x == 0.25), "{:?}", answers.by_number);

    let (mut actions, mut logps) = (vec![9; rows], vec![9.0; rows]);
    let mut rng = Rng::seed_from(5);
    for _ in 0..1000 {
        let c = Categorical::new(n).unwrap();
        c.sample(&batch.p, &mut rng, ActionsMut::Discrete(&mut actions), &mut logps).unwrap();
        assert_eq!(actions, batch.actions);
    }
}

/// Seeds whose first uniform is the least there is, 0, and the greatest, 1 − 2⁻²⁴.
const EXTREMES: [(u64, f32); 2] = [(5_884_661, 0.0), (330_027, 1.0 - f32::EPSILON / 2.0)];

#[test]
fn the_least_and_the_greatest_uniform_hit_no_masked_action_at_the_ends() {
    for (seed, uniform) in EXTREMES {
        assert_eq!(Rng::seed_from(seed).next_f32(), uniform);
        for trial in 0..2000 {
            let n = 3 + trial % 20;
            let mut logits = Batch::random(n, 1, 5.0, 0.2, trial as u64).p;
            (logits[0], logits[1], logits[n - 1]) = (f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY);
            let first_open = 1;
            let last_open = (0..n).rfind(|&i| logits[i].is_finite()).unwrap();
            // As one row and as many: the first is the one with that uniform.
            for rows in [1, 3] {
                let (mut actions, mut logps) = (vec![99; rows], vec![9.0; rows]);
                let c = Categorical::new(n).unwrap();
                let (logits, rng) = (logits.repeat(rows), &mut Rng::seed_from(seed));
                c.sample(&logits, rng, ActionsMut::Discrete(&mut actions), &mut logps).unwrap();
                assert_eq!(actions[0] as usize, if uniform == 0.0 { first_open } else { last_open });
            }
        }
    }
}

#[test]
fn what_one_may_do_and_the_other_may_not_is_infinitely_far() {
    let (p, q) = ([0.0, 1.0, 0.0, f32::NEG_INFINITY], [0.0, f32::NEG_INFINITY, 0.0, 1.0]);
    let mut kl = [0.0; 2];
    Categorical::new(2).unwrap().kl(&p, &q, &mut kl).unwrap();
    assert_eq!(kl[0], f32::INFINITY);
    assert!((kl[1] - 1.0_f32.exp().ln_1p()).abs() < 1e-6);
}

#[test]
fn huge_logits_stay_finite_in_batches() {
    let p = [1e4, -1e4, 0.0, -1e4, -1e4, -1e4, 1e4, 1e4, 1e4].repeat(6);
    let q = [-1e4, 1e4, 5.0].repeat(18);
    let batch = Batch { n: 3, p, q, actions: [1, 0, 2].repeat(6), weight: vec![1.0; 18] };
    let answers = batch.answers();
    batch.check(&answers);
    let mut numbers = answers.by_row.iter().chain(&answers.by_number).flatten();
    assert!(numbers.all(|x| x.is_finite()));
    assert_eq!(answers.by_row[0][0], -2e4);
}

#[test]
fn a_row_of_nan_stays_alone() {
    let healthy = Batch::random(5, 40, 3.0, 0.0, 8);
    for nan in [f32::NAN, -f32::NAN, f32::INFINITY] {
        for row in [0, 17, 39] {
            let mut ill = healthy.clone();
            ill.p[row * 5 + 3] = nan;
            let (got, expected) = (ill.answers(), healthy.answers());
            assert!(got.by_row.iter().all(|answer| answer[row].is_nan()));
            let gradients = |answers: &Answers, at: usize| answers.by_number.clone().map(|numbers| numbers[at]);
            assert!(gradients(&got, row * 5).iter().chain(&gradients(&got, row * 5 + 3)).any(|x| x.is_nan()));
            for others in [0..row, row + 1..40] {
                assert_eq!(got.bits(others.clone(), 5), expected.bits(others, 5));
            }
        }
    }
}
