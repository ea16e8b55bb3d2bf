//! Action masks.

use crate::error::check_len;
use crate::{PolicyError, Space};

/// Masks actions: where `mask` is false, the logit becomes −∞. Such an action is never sampled and
/// contributes nothing to entropy, gradients, or the divergence between rows of the same mask. Its
/// log-probability is −∞.
///
/// *Shapes*: `mask` and `logits` are `[rows, dist_len]`; for `MultiDiscrete`, one choice after the other.
///
/// *Errors*: [`PolicyError::Length`]; [`PolicyError::NothingToChoose`] for a choice without a possible
/// action; [`PolicyError::MaskOfNumbers`] for a `Box`. After an error the logits are unchanged.
///
/// ```
/// use pronk_policy::{Space, mask_logits};
///
/// let mut logits = [1.0, 2.0, 3.0];
/// mask_logits(&Space::discrete(3)?, &[true, false, true], &mut logits)?;
/// assert_eq!(logits, [1.0, f32::NEG_INFINITY, 3.0]);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub fn mask_logits(space: &Space, mask: &[bool], logits: &mut [f32]) -> Result<(), PolicyError> {
    space.check()?;
    let choices = match space {
        Space::Discrete { n } => std::slice::from_ref(n),
        Space::MultiDiscrete { nvec } => nvec,
        Space::Box { .. } => return Err(PolicyError::MaskOfNumbers { space: Box::new(space.clone()) }),
    };
    let rows = logits.len() / space.dist_len();
    check_len("logits", rows * space.dist_len(), logits.len())?;
    check_len("mask", logits.len(), mask.len())?;
    for (row, mut rest) in mask.chunks_exact(space.dist_len()).enumerate() {
        for (choice, &n) in choices.iter().enumerate() {
            let (possible, others) = rest.split_at(n);
            if !possible.contains(&true) {
                return Err(PolicyError::NothingToChoose { row, choice });
            }
            rest = others;
        }
    }
    for (logit, &possible) in logits.iter_mut().zip(mask) {
        if !possible {
            *logit = f32::NEG_INFINITY;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{ActionsMut, Rng, distribution_for};

    const FORBIDDEN: f32 = f32::NEG_INFINITY;

    #[test]
    fn only_what_is_forbidden_becomes_impossible() {
        let mut logits = [0.1, 0.2, 0.3, 0.4, 0.5, 1.1, f32::NAN, 1.3, 1.4, 1.5];
        let mask = [true, false, true, false, true, false, true, false, false, true];
        mask_logits(&Space::multi_discrete(vec![2, 3]).unwrap(), &mask, &mut logits).unwrap();
        assert!(logits[6].is_nan(), "a mask hides no NaN");
        logits[6] = 1.2;
        assert_eq!(logits, [0.1, FORBIDDEN, 0.3, FORBIDDEN, 0.5, FORBIDDEN, 1.2, FORBIDDEN, FORBIDDEN, 1.5]);
    }

    #[test]
    fn what_is_forbidden_is_never_chosen() {
        for space in [Space::discrete(4).unwrap(), Space::multi_discrete(vec![4, 2, 3]).unwrap()] {
            let (rows, width) = (2000, space.dist_len());
            let mut rng = Rng::seed_from(7);
            // The first of each choice stays possible: it is where the others end.
            let first = |i: usize| [0, 4, 6].contains(&(i % width));
            let mask: Vec<bool> = (0..rows * width).map(|i| first(i) || rng.below(2) == 0).collect();
            let mut logits: Vec<f32> = mask.iter().map(|&possible| if possible { -9.0 } else { 9.0 }).collect();
            mask_logits(&space, &mask, &mut logits).unwrap();

            let (mut actions, mut logp) = (vec![u32::MAX; rows * space.act_len()], vec![0.0; rows]);
            let distribution = distribution_for(&space).unwrap();
            distribution.sample(&logits, &mut rng, ActionsMut::Discrete(&mut actions), &mut logp).unwrap();
            for (row, action) in actions.chunks_exact(space.act_len()).enumerate() {
                for (&action, start) in action.iter().zip([0, 4, 6]) {
                    assert!(mask[row * width + start + action as usize], "row {row}: {action}");
                }
            }
            assert!(logp.iter().all(|logp| logp.is_finite()));
            distribution.mode(&logits, ActionsMut::Discrete(&mut actions)).unwrap();
            assert!((0..rows).all(|row| mask[row * width + actions[row * space.act_len()] as usize]));
        }
    }

    #[test]
    fn a_mask_that_leaves_nothing_to_choose_is_refused_with_row_and_choice() {
        let space = Space::multi_discrete(vec![2, 3]).unwrap();
        let mut mask = [true; 10];
        mask[7..].fill(false);
        let mut logits = [1.0; 10];
        mask[0] = false;
        let error = mask_logits(&space, &mask, &mut logits).unwrap_err();
        assert!(matches!(error, PolicyError::NothingToChoose { row: 1, choice: 1 }), "{error}");
        assert_eq!(logits, [1.0; 10], "untouched");
        let error = mask_logits(&Space::discrete(2).unwrap(), &[true, true, false, false], &mut [0.0; 4]).unwrap_err();
        assert!(error.to_string().starts_with("the mask of row 1 forbids every action of choice 0"), "{error}");
    }

    #[test]
    fn masks_of_a_wrong_length_or_over_numbers_are_refused() {
        let three = Space::discrete(3).unwrap();
        let refused = |space: &Space, mask: &[bool], logits: &mut [f32]| mask_logits(space, mask, logits).unwrap_err();
        let short = refused(&three, &[true; 5], &mut [0.0; 6]);
        assert!(matches!(short, PolicyError::Length { what: "mask", expected: 6, got: 5 }));
        let ragged = refused(&three, &[true; 4], &mut [0.0; 4]);
        assert!(matches!(ragged, PolicyError::Length { what: "logits", expected: 3, got: 4 }));
        let numbers = refused(&Space::boxed(vec![0.0], vec![1.0], vec![1]).unwrap(), &[true; 2], &mut [0.0; 2]);
        assert!(numbers.to_string().contains("Box(0..=1, [1], f32) are numbers"), "{numbers}");
        assert!(matches!(refused(&Space::Discrete { n: 0 }, &[], &mut []), PolicyError::BadSpace { .. }));
        mask_logits(&three, &[], &mut []).unwrap();
    }
}
