//! What a beat may report: a host must not be able to spoil the figures of the run.

use std::collections::BTreeSet;
use std::ops::Range;

use pronk_metrics::PolicyId;
use pronk_rollout::WorkerReport;

use crate::wire::Beat;

/// More of anything that is counted than happens between two beats.
const MOST: u64 = 1 << 40;

/// The largest sum of so many rewards, which are finite 32-bit numbers.
const MOST_RETURN: f64 = f32::MAX as f64 * MOST as f64;

/// The longest lists: those that a [`WorkerReport`] is folded to.
const MAX_EPISODES: usize = 1024;
const MAX_FAILURES: usize = 32;
const MAX_ABANDONED: usize = 20;

/// Checks what a beat reports. `policies` are those of the run.
///
/// # Errors
/// What no host can have to report.
pub(super) fn check(beat: &Beat, workers: &Range<u32>, policies: &BTreeSet<PolicyId>) -> Result<(), String> {
    let report = &beat.report;
    let refuse = |what: &str| Err(format!("it reports {what}"));
    let counts = [
        report.fragments,
        report.steps.env,
        report.steps.agent,
        report.n_episodes,
        report.len_sum,
        report.restarts,
        report.n_failures,
        report.abandoned.count,
    ];
    if counts.into_iter().chain(report.policy_returns.values().map(|returns| returns.n)).any(|count| count > MOST) {
        return refuse("more than can happen between two beats");
    }
    if !returns(report).all(|value| value.abs() <= MOST_RETURN) {
        return refuse("a return that is no sum of rewards");
    }
    let is_short = report.episodes.len() <= MAX_EPISODES
        && report.failures.len() <= MAX_FAILURES
        && report.abandoned.newest.len() <= MAX_ABANDONED
        && beat.gave_up.len() <= workers.len();
    if !is_short {
        return refuse("lists that are longer than any report");
    }
    if report.episodes.iter().any(|episode| !workers.contains(&episode.worker)) {
        return refuse("episodes of other workers than its own");
    }
    if !report.policy_returns.keys().all(|policy| policies.contains(policy)) {
        return refuse("returns of a policy that the run does not have");
    }
    Ok(())
}

/// All returns in a report.
fn returns(report: &WorkerReport) -> impl Iterator<Item = f64> {
    let of_policies = report.policy_returns.values().flat_map(|returns| [returns.sum, returns.min, returns.max]);
    let of_episodes = report.episodes.iter().map(|episode| episode.episode_return);
    let of_all = report.return_min.into_iter().chain(report.return_max).chain([report.return_sum]);
    of_policies.chain(of_episodes).chain(of_all)
}
