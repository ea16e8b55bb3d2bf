//! Whether actions are in their space.

use std::slice;

use pronk_buffer::ActionView;
use pronk_policy::Space;

use super::super::error::FrameError;
use super::plan::PolicyPlan;

/// Checks that every index is below the number of values of its choice. Continuous actions need only be
/// finite: they are what the distribution drew, before they are clipped into the space.
pub(super) fn check_actions(plan: &PolicyPlan<'_>, actions: ActionView<'_>) -> Result<(), FrameError> {
    let ActionView::U32(actions) = actions else { return Ok(()) };
    match plan.action {
        Space::Discrete { n } => check_choices(plan, actions, slice::from_ref(n)),
        Space::MultiDiscrete { nvec } => check_choices(plan, actions, nvec),
        Space::Box { .. } => Ok(()),
    }
}

fn check_choices(plan: &PolicyPlan<'_>, actions: &[u32], nvec: &[usize]) -> Result<(), FrameError> {
    let is_inside = |(action, n): (&u32, &usize)| (*action as usize) < *n;
    // Nearly always all are inside, and a pass without an early exit is faster.
    let all_inside = match nvec {
        [n] => actions.iter().fold(true, |all, action| all & is_inside((action, n))),
        _ => {
            let rows = actions.chunks_exact(nvec.len());
            rows.fold(true, |all, row| all & row.iter().zip(nvec).all(is_inside))
        }
    };
    if all_inside {
        return Ok(());
    }
    let mut all = actions.iter().zip(nvec.iter().cycle()).enumerate();
    match all.find(|(_, pair)| !is_inside(*pair)) {
        None => Ok(()),
        Some((i, (action, n))) => {
            let (t, b) = plan.place(i / nvec.len());
            Err(FrameError::Action { policy: plan.id.clone(), t, b, choice: i % nvec.len(), n: *n, got: *action })
        }
    }
}
