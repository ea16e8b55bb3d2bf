//! Action masks: which actions of each choice are possible.

use pronk_policy::Space;

use super::failure::EnvFailureCause;

/// The mask of each choice of an action. A box has no choices.
pub(crate) fn choices<'a>(mask: &'a [bool], action: &'a Space) -> impl Iterator<Item = &'a [bool]> {
    let lens = match action {
        Space::Discrete { n } => std::slice::from_ref(n),
        Space::MultiDiscrete { nvec } => nvec,
        Space::Box { .. } => &[],
    };
    let mut rest = mask;
    lens.iter().map_while(move |len| {
        let (choice, others) = rest.split_at_checked(*len)?;
        rest = others;
        Some(choice)
    })
}

/// The first choice without a possible action.
pub(crate) fn first_fully_masked(mask: &[bool], action: &Space) -> Option<usize> {
    choices(mask, action).position(|choice| !choice.contains(&true))
}

/// Whether every choice has a possible action.
pub(crate) fn check(mask: &[bool], action: &Space) -> Result<(), EnvFailureCause> {
    match first_fully_masked(mask, action) {
        None => Ok(()),
        Some(choice) => Err(EnvFailureCause::NothingPossible { choice }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_without_a_way_is_found_among_others() {
        let two = Space::MultiDiscrete { nvec: vec![2, 3] };
        assert_eq!(first_fully_masked(&[false, true, false, false, true], &two), None);
        assert_eq!(first_fully_masked(&[true, true, false, false, false], &two), Some(1));
        assert_eq!(first_fully_masked(&[false, false, true, true, true], &two), Some(0));
        assert_eq!(first_fully_masked(&[false; 4], &Space::Discrete { n: 4 }), Some(0));
    }
}
