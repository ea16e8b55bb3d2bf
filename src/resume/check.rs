//! What no run can be at: a damaged or forged file may hold any number.

use std::time::Duration;

use pronk_buffer::{SavedReplay, SavedRing};
use pronk_learner::SavedLoop;
use pronk_metrics::{StepTotals, Steps};

use super::run_state::{RunState, SavedTrainer};
use crate::checkpoint::check_count;

/// Random numbers that a resuming run skips at most: it takes months to draw so many, and a minute or two to
/// skip them.
const MOST_DRAWS: u64 = 1 << 36;

/// Failures and quarantined batches in a row, far beyond any tolerance.
const MOST_IN_A_ROW: u32 = 1 << 30;

/// A thousand years.
const LONGEST: Duration = Duration::from_secs(1000 * 365 * 86_400);

/// Refuses positions and counts that no run can be at.
pub(super) fn check(state: &RunState, replay: Option<&SavedReplay>) -> Result<(), String> {
    check_trainer(&state.trainer)?;
    check_loop(&state.learner_loop)?;
    check_ring(&state.learner_loop.ring)?;
    check_count("version", state.version)?;
    for &(version, trained) in state.publications.values().flatten() {
        check_count("publications", version.max(trained))?;
    }
    if let Some(turns) = &state.turns {
        check_count("turns", turns.granted)?;
    }
    state.seats.iter().try_for_each(|seat| seat.check())?;
    replay.map_or(Ok(()), check_replay)
}

fn check_trainer(trainer: &SavedTrainer) -> Result<(), String> {
    let SavedTrainer { iterations, updates, worker_restarts, resumes, outside_turns, fragments_added, .. } = *trainer;
    let returns = trainer.policy_returns.values().flatten().map(|returns| returns.n);
    for (name, count) in [
        ("iterations", iterations),
        ("updates", updates),
        ("worker_restarts", worker_restarts),
        ("resumes", resumes),
        ("outside_turns", outside_turns),
        ("abandoned threads", trainer.abandoned.0),
        ("returns", returns.max().unwrap_or_default()),
    ] {
        check_count(name, count)?;
    }
    check_steps("fragments_added", fragments_added)?;
    check_ledger(&trainer.steps)?;
    if trainer.time_total > LONGEST {
        return Err(format!("it has run for {} seconds", trainer.time_total.as_secs()));
    }
    Ok(())
}

/// A ledger that does not close would not close at the end of the run either.
fn check_ledger(steps: &StepTotals) -> Result<(), String> {
    check_steps("steps sampled", steps.sampled)?;
    check_steps("steps trained in all passes", steps.trained_passes)?;
    if steps.is_closed() { Ok(()) } else { Err(format!("its ledger of steps does not close: {steps:?}")) }
}

fn check_steps(name: &str, steps: Steps) -> Result<(), String> {
    check_count(name, steps.env.max(steps.agent))
}

fn check_loop(learner_loop: &SavedLoop) -> Result<(), String> {
    let SavedLoop { passes, updates, updates_unpublished, num_quarantined, quarantined_in_a_row, .. } = learner_loop;
    for (name, count) in [
        ("passes", passes),
        ("updates of the loop", updates),
        ("updates_unpublished", updates_unpublished),
        ("num_quarantined", num_quarantined),
    ] {
        check_count(name, *count)?;
    }
    match *quarantined_in_a_row {
        n if n > MOST_IN_A_ROW => Err(format!("{n} batches were quarantined in a row")),
        _ => Ok(()),
    }
}

fn check_ring(ring: &SavedRing) -> Result<(), String> {
    for &(left, shown) in ring.slots.iter().flatten() {
        if left < 0 || left.saturating_add(shown.into()) >= i64::from(u32::MAX) {
            return Err(format!("a batch of the minibatch buffer has {left} passes left after {shown}"));
        }
    }
    Ok(())
}

fn check_replay(SavedReplay { stored, oldest, draws, .. }: &SavedReplay) -> Result<(), String> {
    if *oldest > 0 && *oldest >= stored.len() {
        return Err(format!("the oldest replayed fragment is in place {oldest}, and {} are stored", stored.len()));
    }
    if *draws > MOST_DRAWS {
        return Err(format!("the replay buffer has drawn {draws} random numbers, more than the {MOST_DRAWS} to skip"));
    }
    Ok(())
}
