//! Several choices at once.

use proptest::prelude::*;

use super::super::{entropy, entropy_grad, kl, kl_grad_p, kl_grad_q, logp, logp_grad, mode};
use crate::distribution::contract::{Actions, Formulas, keeps_its_promises};
use crate::{ActionsMut, ActionsRef, Categorical, Distribution, PolicyError, Rng};

const MASKED: f32 = f32::NEG_INFINITY;

fn with_formulas(nvec: &[usize], check: impl FnOnce(&Formulas<'_>)) {
    let indices = |action: &[f64]| action.iter().map(|&index| index as usize).collect::<Vec<_>>();
    check(&Formulas {
        logp: &|p, action| logp(nvec, p, &indices(action)),
        entropy: &|p| entropy(nvec, p),
        kl: &|p, q| kl(nvec, p, q),
        logp_grad: &|p, action, weight, grad| logp_grad(nvec, p, &indices(action), weight, grad),
        entropy_grad: &|p, weight, grad| entropy_grad(nvec, p, weight, grad),
        kl_grad_p: &|p, q, weight, grad| kl_grad_p(nvec, p, q, weight, grad),
        kl_grad_q: &|p, q, weight, grad| kl_grad_q(nvec, p, q, weight, grad),
    });
}

fn nvec() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1_usize..6, 1..4)
}

proptest! {
    #[test]
    fn gradients_are_the_slopes(nvec in nvec(), seed: u64) {
        let mut rng = Rng::seed_from(seed);
        let mut logits = || (0..nvec.iter().sum()).map(|_| 2.0 * rng.normal()).collect::<Vec<f64>>();
        let (p, q) = (logits(), logits());
        let action: Vec<f64> = nvec.iter().map(|&n| rng.below(n as u64) as f64).collect();
        with_formulas(&nvec, |formulas| formulas.check_slopes(&p, &q, &action, -1.5));
    }

    #[test]
    fn rows_of_single_precision_agree_with_the_formulas(nvec in nvec(), rows in 0_usize..40, masked: bool, seed: u64) {
        let multi = Categorical::multi(&nvec).unwrap();
        let (p, q) = masked_pair(&multi, rows, if masked { 0.4 } else { 0.0 }, seed);
        with_formulas(&nvec, |formulas| formulas.check_rows(&multi, &p, &q, seed));
        if rows >= 3 && multi.dist_len() >= 2 && !masked {
            keeps_its_promises(&multi, &p, &q);
        }
    }
}

/// Two batches with the same mask. The first of each choice is possible.
fn masked_pair(multi: &Categorical, rows: usize, masked: f64, seed: u64) -> (Vec<f32>, Vec<f32>) {
    let mut rng = Rng::seed_from(seed);
    let first = |i: usize| multi.heads.iter().any(|head| head.start == i);
    let pair = |i: usize| {
        let mask = !first(i % multi.dist_len) && rng.next_f64() < masked;
        let mut logit = || 3.0 * rng.normal() as f32;
        let pair = (logit(), logit());
        if mask { (MASKED, MASKED) } else { pair }
    };
    (0..rows * multi.dist_len).map(pair).unzip()
}

/// One choice is computed in place, several in copies of their logits: a second choice without an
/// alternative, which adds nothing to any sum, shows that both ways give the same bits.
#[test]
fn one_choice_has_the_same_bits_alone_and_beside_another() {
    const ROWS: usize = 30;
    let (one, two) = (Categorical::new(5).unwrap(), Categorical::multi(&[5, 1]).unwrap());
    let (p, q) = masked_pair(&one, ROWS, 0.2, 5);
    let wider = |rows: &[f32]| rows.chunks_exact(5).flat_map(|row| [row, &[0.7]].concat()).collect::<Vec<_>>();
    let answers = |d: &Categorical, p: &[f32], q: &[f32]| {
        let actions: Vec<u32> = (0..ROWS as u32).flat_map(|row| [row % 5, 0].into_iter().take(d.act_len())).collect();
        let weight = [0.7; ROWS];
        let [mut logp, mut entropy, mut kl] = [[9.0_f32; ROWS]; 3];
        let [mut grad, mut kl_grad] = std::array::from_fn(|_| vec![0.25_f32; p.len()]);
        d.logp_and_entropy(p, ActionsRef::Discrete(&actions), &mut logp, &mut entropy).unwrap();
        d.kl(p, q, &mut kl).unwrap();
        d.logp_and_entropy_grad(p, ActionsRef::Discrete(&actions), &weight, &weight, &mut grad).unwrap();
        d.kl_grad_q(p, q, &weight, &mut kl_grad).unwrap();
        let mut modes = vec![9; ROWS * d.act_len()];
        d.mode(p, ActionsMut::Discrete(&mut modes)).unwrap();
        let first =
            |grad: &[f32]| grad.chunks_exact(d.dist_len()).flat_map(|row| &row[..5]).copied().collect::<Vec<_>>();
        let modes: Vec<u32> = modes.into_iter().step_by(d.act_len()).collect();
        ([logp, entropy, kl], [first(&grad), first(&kl_grad)], modes)
    };
    assert_eq!(answers(&two, &wider(&p), &wider(&q)), answers(&one, &p, &q));
}

#[test]
fn choices_are_drawn_on_their_own_with_their_probabilities() {
    let (rows, nvec) = (60_000, [3, 2]);
    let row = [0.5_f32, -1.0, 1.0, 0.0, 0.7];
    let multi = Categorical::multi(&nvec).unwrap();
    let actions = Actions::sampled(&multi, &row.repeat(rows), &mut Rng::seed_from(12), &mut vec![0.0; rows]);
    let Actions::Indices(actions) = actions else { panic!("indices") };
    let mut counts = [[0_u32; 2]; 3];
    actions.chunks_exact(2).for_each(|action| counts[action[0] as usize][action[1] as usize] += 1);
    let mut chi_square = 0.0;
    for (first, counts) in counts.iter().enumerate() {
        for (second, &count) in counts.iter().enumerate() {
            let expected = rows as f64 * f64::from(logp(&nvec, &row, &[first, second])).exp();
            chi_square += (f64::from(count) - expected).powi(2) / expected;
        }
    }
    assert!(chi_square < 20.5, "p < 0.001 with 5 degrees of freedom: {counts:?}");
}

#[test]
fn a_row_uses_one_uniform_a_choice() {
    let (mut rng, mut twin) = (Rng::seed_from(1), Rng::seed_from(1));
    let multi = Categorical::multi(&[3, 1, 2]).unwrap();
    let row = [0.1, 0.2, 0.3, 9.0, 1.0, 0.0];
    let actions = Actions::sampled(&multi, &row.repeat(5), &mut rng, &mut [0.0; 5]);
    let mut choice = |logits: &[f64]| super::sample(logits, f64::from(twin.next_f32())) as u32;
    let expected: Vec<u32> =
        (0..5).flat_map(|_| [choice(&[0.1, 0.2, 0.3]), choice(&[9.0]), choice(&[1.0, 0.0])]).collect();
    assert_eq!(actions, Actions::Indices(expected));
    assert_eq!(rng, twin);
}

#[test]
fn a_masked_action_has_no_share_in_anything() {
    // The same with the masked actions and without them.
    let (masked, without) = (Categorical::multi(&[3, 2, 2]).unwrap(), Categorical::multi(&[2, 1, 2]).unwrap());
    let (p, q) = ([0.3, MASKED, -0.2, MASKED, 7.0, 0.1, 0.9], [1.0, MASKED, 0.5, MASKED, 2.0, -3.0, 0.4]);
    let (p_without, q_without) = ([0.3, -0.2, 7.0, 0.1, 0.9], [1.0, 0.5, 2.0, -3.0, 0.4]);
    for rows in [1, 20] {
        let (with, less) = ((p.repeat(rows), q.repeat(rows)), (p_without.repeat(rows), q_without.repeat(rows)));
        let (actions, actions_less) = ([2, 1, 0].repeat(rows), [1, 0, 0].repeat(rows));
        let got = answers(&masked, &with.0, &with.1, &actions);
        let want = answers(&without, &less.0, &less.1, &actions_less);
        assert_eq!(got.0, want.0);
        let kept = |grad: &[f32]| {
            let rows = grad.chunks_exact(7);
            rows.flat_map(|row| [row[0], row[2], row[4], row[5], row[6]]).collect::<Vec<_>>()
        };
        for (grad, want) in got.1.iter().zip(&want.1) {
            assert_eq!(&kept(grad), want);
            assert!(grad.chunks_exact(7).all(|row| row[1] == 0.25 && row[3] == 0.25), "{grad:?}");
        }
    }
    let mut forbidden = [0.0];
    masked.logp(&p, ActionsRef::Discrete(&[1, 1, 0]), &mut forbidden).unwrap();
    assert_eq!(forbidden, [MASKED]);
    let mut kl = [0.0; 2];
    Categorical::multi(&[2]).unwrap().kl(&[0.0, 0.0, 0.0, MASKED], &[0.0, MASKED, 0.0, 1.0], &mut kl).unwrap();
    assert!(kl[0] == f32::INFINITY && kl[1].is_finite(), "{kl:?}");
}

type Everything = ([Vec<f32>; 3], [Vec<f32>; 3]);

fn answers(multi: &Categorical, p: &[f32], q: &[f32], actions: &[u32]) -> Everything {
    let (rows, actions) = (p.len() / multi.dist_len(), ActionsRef::Discrete(actions));
    let weight = vec![-0.5; rows];
    let [mut logp, mut entropy, mut kl] = std::array::from_fn(|_| vec![9.0; rows]);
    multi.logp_and_entropy(p, actions, &mut logp, &mut entropy).unwrap();
    multi.kl(p, q, &mut kl).unwrap();
    let [mut logp_grad, mut entropy_grad, mut kl_grad] = std::array::from_fn(|_| vec![0.25; p.len()]);
    multi.logp_grad(p, actions, &weight, &mut logp_grad).unwrap();
    multi.entropy_grad(p, &weight, &mut entropy_grad).unwrap();
    multi.kl_grad_q(p, q, &weight, &mut kl_grad).unwrap();
    ([logp, entropy, kl], [logp_grad, entropy_grad, kl_grad])
}

#[test]
fn the_mode_is_the_first_highest_of_each_choice() {
    assert_eq!(mode(&[2, 3], &[1.0, 1.0, 0.0, 5.0, 5.0]), [0, 1]);
    let mut actions = [9; 4];
    let logits = [0.0, 1.0, 3.0, 2.0, 1.0, 4.0, 3.0, MASKED, MASKED, -1e30];
    let multi = Categorical::multi(&[2, 3]).unwrap();
    multi.mode(&logits, ActionsMut::Discrete(&mut actions)).unwrap();
    assert_eq!(actions, [1, 0, 0, 2]);
}

#[test]
fn an_action_out_of_range_is_an_error_that_names_row_and_choice() {
    let multi = Categorical::multi(&[2, 3]).unwrap();
    let (inputs, actions) = ([0.0; 15], [0, 2, 1, 0, 2, 0]);
    let actions = ActionsRef::Discrete(&actions);
    let errors = [
        multi.logp(&inputs, actions, &mut [0.0; 3]).unwrap_err(),
        multi.logp_and_entropy(&inputs, actions, &mut [0.0; 3], &mut [0.0; 3]).unwrap_err(),
        multi.logp_grad(&inputs, actions, &[1.0; 3], &mut [0.0; 15]).unwrap_err(),
        multi.logp_and_entropy_grad(&inputs, actions, &[1.0; 3], &[1.0; 3], &mut [0.0; 15]).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, PolicyError::ChoiceOutOfRange { row: 2, choice: 0, action: 2, n: 2 }));
        let message = "row 2, choice 0: action 2 does not exist: this choice has actions 0 to 1";
        assert_eq!(error.to_string(), message);
    }
    assert!(logp(&[2, 3], &[0.0_f64; 5], &[0, 3]).is_nan());
}

#[test]
fn choices_that_make_no_sense_are_refused() {
    for nvec in [vec![], vec![2, 0], vec![usize::MAX, 2]] {
        assert!(matches!(Categorical::multi(&nvec), Err(PolicyError::BadSpace { .. })));
    }
}
