//! What every implementation of [`Distribution`] has to keep, as tests that any of them can call.

use std::ops::Range;

use super::{ActionsMut, ActionsRef, Distribution, KlTerm};
use crate::{PolicyError, Rng};

/// Checks all that can be said without knowing the family.
///
/// `p` and `q` are `[rows, dist_len]`, three rows at least, of ordinary finite numbers, and two of them a
/// row: with one, every number of rows is whole.
pub(crate) fn keeps_its_promises(d: &dyn Distribution, p: &[f32], q: &[f32]) {
    let rows = p.len() / d.dist_len();
    assert!(
        d.dist_len() >= 2 && rows >= 3 && p.len() == rows * d.dist_len() && p.len() == q.len(),
        "three whole rows to test with"
    );
    let actions = samples_bring_the_bits_of_logp(d, p);
    let weight: Vec<f32> = (0..rows).map(|row| 0.5 - row as f32 * 0.25).collect();
    let batch = Batch { p, q, actions, weight: &weight };
    rows_come_out_the_same_alone(d, &batch);
    together_is_one_after_the_other(d, &batch);
    lengths_are_refused(d, &batch);
    the_other_type_of_action_is_refused(d, &batch);
    nan_comes_out_as_nan(d, &batch);
    no_rows_are_fine(d);
}

/// The formulas of one row in double precision. Actions are numbers, or indices written as numbers.
pub(crate) struct Formulas<'a> {
    pub(crate) logp: &'a dyn Fn(&[f64], &[f64]) -> f64,
    pub(crate) entropy: &'a dyn Fn(&[f64]) -> f64,
    pub(crate) kl: &'a dyn Fn(&[f64], &[f64]) -> f64,
    pub(crate) logp_grad: GradOfTwo<'a>,
    pub(crate) entropy_grad: GradOfOne<'a>,
    pub(crate) kl_grad_p: GradOfTwo<'a>,
    pub(crate) kl_grad_q: GradOfTwo<'a>,
}

/// Adds a weighted gradient that follows from a row.
type GradOfOne<'a> = &'a dyn Fn(&[f64], f64, &mut [f64]);

/// Adds a weighted gradient that follows from a row and an action, or from two rows.
type GradOfTwo<'a> = &'a dyn Fn(&[f64], &[f64], f64, &mut [f64]);

impl Formulas<'_> {
    /// Holds every gradient against central differences.
    pub(crate) fn check_slopes(&self, p: &[f64], q: &[f64], action: &[f64], weight: f64) {
        let gradient = |add: &dyn Fn(&mut [f64])| {
            let mut grad = vec![0.25; p.len()];
            add(&mut grad);
            grad
        };
        let got = gradient(&|grad| (self.logp_grad)(p, action, weight, grad));
        assert_slopes("logp", &got, weight, p, &|p| (self.logp)(p, action));
        let got = gradient(&|grad| (self.entropy_grad)(p, weight, grad));
        assert_slopes("entropy", &got, weight, p, self.entropy);
        let got = gradient(&|grad| (self.kl_grad_p)(p, q, weight, grad));
        assert_slopes("kl in p", &got, weight, p, &|p| (self.kl)(p, q));
        let got = gradient(&|grad| (self.kl_grad_q)(p, q, weight, grad));
        assert_slopes("kl in q", &got, weight, q, &|q| (self.kl)(p, q));
    }

    /// Holds a distribution over many rows of `f32` against the formulas, on actions that it draws itself.
    pub(crate) fn check_rows(&self, d: &dyn Distribution, p: &[f32], q: &[f32], seed: u64) {
        let (width, rows) = (d.dist_len(), p.len() / d.dist_len());
        let mut rng = Rng::seed_from(seed);
        let actions = Actions::sampled(d, p, &mut rng, &mut vec![0.0; rows]);
        let weight: Vec<f32> = (0..rows).map(|_| rng.normal() as f32).collect();
        let got = answers(d, &Batch { p, q, actions: actions.clone(), weight: &weight });
        let (p, q, actions) = (double(p), double(q), actions.double());
        for row in 0..rows {
            let (p, q) = (&p[row * width..][..width], &q[row * width..][..width]);
            let action = &actions[row * d.act_len()..][..d.act_len()];
            let weight = f64::from(weight[row]);
            let want = [(self.logp)(p, action), (self.entropy)(p), (self.kl)(p, q)];
            for (which, want) in want.into_iter().enumerate() {
                assert_near(got.by_row[which][row], want, 1.0 + want.abs(), || format!("answer {which}, row {row}"));
            }
            let mut want: [Vec<f64>; 3] = std::array::from_fn(|_| vec![0.0; width]);
            (self.logp_grad)(p, action, weight, &mut want[0]);
            (self.entropy_grad)(p, weight, &mut want[1]);
            (self.kl_grad_q)(p, q, weight, &mut want[2]);
            for (which, want) in want.iter().enumerate() {
                // What a sum of opposite terms loses shows in all numbers of a row alike.
                let size = want.iter().fold(1.0 + weight.abs(), |size, x| size.max(x.abs()));
                for (i, &want) in want.iter().enumerate() {
                    let got = got.by_number[which][row * width + i] - 0.25;
                    assert_near(got, want, size, || format!("gradient {which}, row {row}, number {i}"));
                }
            }
        }
    }
}

/// Single precision keeps seven digits; a few are lost where two numbers of about the same size are
/// subtracted.
fn assert_near(got: f32, want: f64, size: f64, what: impl Fn() -> String) {
    let near = (f64::from(got) - want).abs() <= 2e-5 * size;
    assert!(f64::from(got) == want || near, "{}: got {got}, want {want}", what());
}

/// `got` started at a quarter, to show that gradients are added.
fn assert_slopes(what: &str, got: &[f64], weight: f64, at: &[f64], f: &dyn Fn(&[f64]) -> f64) {
    let step = 1e-5;
    for (i, got) in got.iter().enumerate() {
        let moved = |by: f64| {
            let mut inputs = at.to_vec();
            inputs[i] += by;
            f(&inputs)
        };
        let slope = (moved(step) - moved(-step)) / (2.0 * step);
        let want = 0.25 + weight * slope;
        // Curvature adds about the square of the step, and `f` is only known to its rounding, divided by the
        // step.
        let tolerance = (1.0 + weight.abs()) * (1e-6 * (1.0 + slope.abs()) + 1e-9 * f(at).abs());
        assert!((got - want).abs() <= tolerance, "{what}, number {i}: got {got}, want {want} at {at:?}");
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Actions {
    Indices(Vec<u32>),
    Numbers(Vec<f32>),
}

impl Actions {
    /// Nothing chosen yet, in the type that the distribution takes.
    pub(crate) fn blank(d: &dyn Distribution, rows: usize) -> Self {
        let len = rows * d.act_len();
        match d.mode(&[], ActionsMut::Discrete(&mut [])) {
            Ok(()) => Self::Indices(vec![u32::MAX; len]),
            Err(PolicyError::Kind { .. }) => Self::Numbers(vec![9e9; len]),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn sampled(d: &dyn Distribution, inputs: &[f32], rng: &mut Rng, logp: &mut [f32]) -> Self {
        let mut actions = Self::blank(d, logp.len());
        d.sample(inputs, rng, actions.view_mut(), logp).unwrap();
        actions
    }

    pub(crate) fn view(&self) -> ActionsRef<'_> {
        match self {
            Self::Indices(actions) => ActionsRef::Discrete(actions),
            Self::Numbers(actions) => ActionsRef::Continuous(actions),
        }
    }

    pub(crate) fn view_mut(&mut self) -> ActionsMut<'_> {
        match self {
            Self::Indices(actions) => ActionsMut::Discrete(actions),
            Self::Numbers(actions) => ActionsMut::Continuous(actions),
        }
    }

    fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Indices(actions) => Self::Indices(actions[range].to_vec()),
            Self::Numbers(actions) => Self::Numbers(actions[range].to_vec()),
        }
    }

    fn double(&self) -> Vec<f64> {
        match self {
            Self::Indices(actions) => actions.iter().map(|&index| f64::from(index)).collect(),
            Self::Numbers(actions) => double(actions),
        }
    }
}

fn double(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().copied().map(f64::from).collect()
}

struct Batch<'a> {
    p: &'a [f32],
    q: &'a [f32],
    actions: Actions,
    weight: &'a [f32],
}

#[derive(Debug)]
struct Answers {
    /// Log-probability, entropy, divergence.
    by_row: [Vec<f32>; 3],
    /// Their gradients, added to a quarter.
    by_number: [Vec<f32>; 3],
}

impl Answers {
    fn bits(&self, rows: Range<usize>, width: usize) -> Vec<u32> {
        let by_row = self.by_row.iter().flat_map(|row| &row[rows.clone()]);
        let by_number = self.by_number.iter().flat_map(|numbers| &numbers[rows.start * width..rows.end * width]);
        by_row.chain(by_number).map(|x| x.to_bits()).collect()
    }
}

fn answers(d: &dyn Distribution, batch: &Batch<'_>) -> Answers {
    let (Batch { p, q, weight, .. }, actions) = (batch, batch.actions.view());
    let [mut logp, mut entropy, mut kl] = std::array::from_fn(|_| vec![9.0; weight.len()]);
    d.logp(p, actions, &mut logp).unwrap();
    d.entropy(p, &mut entropy).unwrap();
    d.kl(p, q, &mut kl).unwrap();
    let [mut logp_grad, mut entropy_grad, mut kl_grad] = std::array::from_fn(|_| vec![0.25; p.len()]);
    d.logp_grad(p, actions, weight, &mut logp_grad).unwrap();
    d.entropy_grad(p, weight, &mut entropy_grad).unwrap();
    d.kl_grad_q(p, q, weight, &mut kl_grad).unwrap();
    Answers { by_row: [logp, entropy, kl], by_number: [logp_grad, entropy_grad, kl_grad] }
}

fn samples_bring_the_bits_of_logp(d: &dyn Distribution, p: &[f32]) -> Actions {
    let rows = p.len() / d.dist_len();
    let (mut rng, mut twin) = (Rng::seed_from(31), Rng::seed_from(31));
    let (mut logp, mut again) = (vec![9.0; rows], vec![8.0; rows]);
    let actions = Actions::sampled(d, p, &mut rng, &mut logp);
    d.logp(p, actions.view(), &mut again).unwrap();
    assert_eq!(bits(&logp), bits(&again), "bit for bit");
    assert!(logp.iter().all(|logp| logp.is_finite()), "{logp:?}");

    for (row, inputs) in p.chunks_exact(d.dist_len()).enumerate() {
        let alone = Actions::sampled(d, inputs, &mut twin, &mut again[..1]);
        assert_eq!(alone, actions.part(row * d.act_len()..(row + 1) * d.act_len()), "draws go row by row");
        assert_eq!(bits(&again[..1]), bits(&logp[row..=row]));
    }
    assert_eq!(rng, twin);
    actions
}

fn rows_come_out_the_same_alone(d: &dyn Distribution, batch: &Batch<'_>) {
    let (width, rows) = (d.dist_len(), batch.weight.len());
    let all = answers(d, batch);
    for row in 0..rows {
        let numbers = row * width..(row + 1) * width;
        let alone = Batch {
            p: &batch.p[numbers.clone()],
            q: &batch.q[numbers],
            actions: batch.actions.part(row * d.act_len()..(row + 1) * d.act_len()),
            weight: &batch.weight[row..=row],
        };
        assert_eq!(answers(d, &alone).bits(0..1, width), all.bits(row..row + 1, width), "row {row}");
    }
}

fn together_is_one_after_the_other(d: &dyn Distribution, batch: &Batch<'_>) {
    let Batch { p, weight, actions, .. } = batch;
    let entropy_weight: Vec<f32> = weight.iter().map(|weight| 1.5 - weight).collect();
    let [mut logp, mut entropy] = std::array::from_fn(|_| vec![9.0; weight.len()]);
    d.logp_and_entropy(p, actions.view(), &mut logp, &mut entropy).unwrap();
    let alone = answers(d, batch);
    assert_eq!([bits(&logp), bits(&entropy)], [bits(&alone.by_row[0]), bits(&alone.by_row[1])]);

    let [mut grad, mut one_by_one] = std::array::from_fn(|_| vec![0.25; p.len()]);
    d.logp_and_entropy_grad(p, actions.view(), weight, &entropy_weight, &mut grad).unwrap();
    d.logp_grad(p, actions.view(), weight, &mut one_by_one).unwrap();
    d.entropy_grad(p, &entropy_weight, &mut one_by_one).unwrap();
    assert_eq!(bits(&grad), bits(&one_by_one));

    let [mut together, mut kl] = [vec![0.25; p.len()], vec![9.0; weight.len()]];
    let term = KlTerm { p: batch.q, weight: &entropy_weight, out: &mut kl };
    d.loss_grad(p, actions.view(), weight, &entropy_weight, term, &mut together).unwrap();
    let mut alone = vec![9.0; weight.len()];
    d.kl(batch.q, p, &mut alone).unwrap();
    d.kl_grad_q(batch.q, p, &entropy_weight, &mut one_by_one).unwrap();
    assert_eq!([bits(&together), bits(&kl)], [bits(&one_by_one), bits(&alone)]);
}

fn lengths_are_refused(d: &dyn Distribution, batch: &Batch<'_>) {
    let Batch { p, q, weight: w, actions } = batch;
    let (rows, a, few) = (w.len(), actions.view(), actions.part(0..(w.len() - 1) * d.act_len()));
    let few = few.view();
    let (short, ragged) = (&p[..p.len() - d.dist_len()], &p[..p.len() - 1]);
    let (mut many, mut fewer) = (Actions::blank(d, rows + 1), Actions::blank(d, rows - 1));
    let out = &mut vec![0.0; rows];
    let long = &mut vec![0.0; rows + 1];
    let grad = &mut vec![0.0; p.len()];
    let bad_grad = &mut vec![0.0; p.len() - 1];
    let rng = &mut Rng::seed_from(0);
    let with_kl = |p_of_kl: &[f32], weight: &[f32], out: &mut [f32], grad: &mut [f32]| {
        d.loss_grad(p, a, w, w, KlTerm { p: p_of_kl, weight, out }, grad)
    };
    let results = [
        ("inputs", d.logp(ragged, a, out)),
        ("inputs", d.entropy(ragged, out)),
        ("inputs", d.sample(ragged, rng, many.view_mut(), out)),
        ("inputs", d.mode(ragged, many.view_mut())),
        ("inputs", d.logp_grad(ragged, a, w, grad)),
        ("inputs", d.entropy_grad(ragged, w, grad)),
        ("p", d.kl(ragged, q, out)),
        ("p", d.kl_grad_q(ragged, q, w, grad)),
        ("actions", d.sample(p, rng, many.view_mut(), out)),
        ("actions", d.mode(p, fewer.view_mut())),
        ("actions", d.logp(p, few, out)),
        ("actions", d.logp_grad(p, few, w, grad)),
        ("actions", d.logp_and_entropy(p, few, out, long)),
        ("actions", d.logp_and_entropy_grad(p, few, w, w, grad)),
        ("logp", d.sample(p, rng, Actions::blank(d, rows).view_mut(), long)),
        ("logp", d.logp(p, a, long)),
        ("logp", d.logp_and_entropy(p, a, long, out)),
        ("entropy", d.entropy(p, long)),
        ("entropy", d.logp_and_entropy(p, a, out, long)),
        ("kl", d.kl(p, q, long)),
        ("q", d.kl(p, short, out)),
        ("q", d.kl_grad_q(p, short, w, grad)),
        ("weight", d.logp_grad(p, a, &w[1..], grad)),
        ("weight", d.entropy_grad(p, &w[1..], grad)),
        ("weight", d.kl_grad_q(p, q, &w[1..], grad)),
        ("grad", d.logp_grad(p, a, w, bad_grad)),
        ("grad", d.entropy_grad(p, w, bad_grad)),
        ("grad", d.kl_grad_q(p, q, w, bad_grad)),
        ("grad", d.logp_and_entropy_grad(p, a, w, w, bad_grad)),
        ("p", with_kl(short, w, out, grad)),
        ("weight", with_kl(q, &w[1..], out, grad)),
        ("kl", with_kl(q, w, long, grad)),
        ("grad", with_kl(q, w, out, bad_grad)),
    ];
    for (expected, result) in results {
        match result {
            Err(PolicyError::Length { what, expected: a, got: b }) => assert!(what == expected && a != b, "{what}"),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

fn the_other_type_of_action_is_refused(d: &dyn Distribution, batch: &Batch<'_>) {
    let Batch { p, weight, actions, .. } = batch;
    let mut other = match actions {
        Actions::Indices(actions) => Actions::Numbers(vec![0.0; actions.len()]),
        Actions::Numbers(actions) => Actions::Indices(vec![0; actions.len()]),
    };
    let (mut out, mut grad) = (vec![0.0; weight.len()], vec![0.0; p.len()]);
    let results = [
        d.sample(p, &mut Rng::seed_from(0), other.view_mut(), &mut out),
        d.mode(p, other.view_mut()),
        d.logp(p, other.view(), &mut out),
        d.logp_grad(p, other.view(), weight, &mut grad),
    ];
    for result in results {
        assert!(matches!(result, Err(PolicyError::Kind { what: "actions", .. })), "{result:?}");
    }
}

fn nan_comes_out_as_nan(d: &dyn Distribution, batch: &Batch<'_>) {
    let (width, rows) = (d.dist_len(), batch.weight.len());
    let healthy = answers(d, batch);
    for i in 0..width {
        let mut ill = batch.p.to_vec();
        ill[width + i] = f32::NAN;
        let mut logp = vec![0.0; rows];
        let actions = Actions::sampled(d, &ill, &mut Rng::seed_from(2), &mut logp);
        assert!(logp[1].is_nan() && !logp[0].is_nan() && !logp[2].is_nan(), "number {i}: {logp:?}");
        // What it drew is an action all the same: to be asked about, if only to hear NaN.
        d.logp(&ill, actions.view(), &mut logp).unwrap();
        assert!(logp[1].is_nan());
        d.mode(&ill, Actions::blank(d, rows).view_mut()).unwrap();

        let got = answers(d, &Batch { p: &ill, actions: batch.actions.clone(), ..*batch });
        let of_row = |numbers: &[f32]| numbers[width..2 * width].iter().any(|x| x.is_nan());
        assert!(got.by_row[0][1].is_nan() && of_row(&got.by_number[0]), "number {i}");
        assert!(got.by_row[2][1].is_nan() && of_row(&got.by_number[2]), "number {i}");
        for others in [0..1, 2..rows] {
            assert_eq!(got.bits(others.clone(), width), healthy.bits(others, width), "other rows know nothing of it");
        }
    }
}

fn no_rows_are_fine(d: &dyn Distribution) {
    let mut none = Actions::blank(d, 0);
    d.sample(&[], &mut Rng::seed_from(0), none.view_mut(), &mut []).unwrap();
    d.logp_and_entropy(&[], none.view(), &mut [], &mut []).unwrap();
    d.logp_and_entropy_grad(&[], none.view(), &[], &[], &mut []).unwrap();
    d.kl(&[], &[], &mut []).unwrap();
    d.kl_grad_q(&[], &[], &[], &mut []).unwrap();
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}
