//! Asynchronous successive halving: which trial is trained further.
//!
//! Li et al., *A System for Massively Parallel Hyperparameter Tuning*, 2020, algorithm 2.

/// The env-steps that each rung ends at: `min · reduction^k`, up to `max`.
pub(super) fn rungs(min: u64, max: u64, reduction: u64) -> Vec<u64> {
    std::iter::successors(Some(min), |budget| budget.checked_mul(reduction))
        .take_while(|&budget| budget <= max)
        .collect()
}

/// How far a trial has come.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    /// The rung that it has been promoted to, from 0.
    pub(super) rung: usize,
    /// For each rung that it has completed its score there, the higher the better. Without one it is not
    /// among those that are compared.
    pub(super) scores: Vec<Option<f64>>,
}

/// The trial to promote to the next rung: from the top rung down, the best that is among the first
/// `1 / reduction` of those that have completed its rung, and has not been promoted yet. Of equal ones the
/// first.
pub(super) fn promotable(trials: &[Standing], n_rungs: usize, reduction: usize) -> Option<usize> {
    let in_rung = |rung: usize| {
        let mut completed: Vec<(usize, f64)> = Vec::new();
        for (at, trial) in trials.iter().enumerate() {
            completed.extend(trial.scores.get(rung).copied().flatten().map(|score| (at, score)));
        }
        completed.sort_by(|a, b| b.1.total_cmp(&a.1));
        completed.truncate(completed.len() / reduction);
        completed.into_iter().map(|(at, _)| at).find(|&at| trials[at].rung == rung)
    };
    (0..n_rungs.saturating_sub(1)).rev().find_map(in_rung)
}

#[cfg(test)]
mod tests;
