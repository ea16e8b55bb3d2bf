//! [`HeldReports`]: reports of workers, until the learner has trained on their fragments.

use std::collections::BTreeMap;

use pronk_rollout::WorkerReport;

/// Under deterministic admission, holds the reports of workers back until the learner has trained on their
/// fragments, so that a result does not depend on how far the workers are ahead. Under free admission it
/// passes them on.
pub(super) struct HeldReports {
    is_deterministic: bool,
    reports: Vec<WorkerReport>,
    /// For each worker, how many fragments the learner has trained on.
    admitted: BTreeMap<u32, u64>,
}

impl HeldReports {
    pub(super) fn new(is_deterministic: bool) -> Self {
        Self { is_deterministic, reports: Vec::new(), admitted: BTreeMap::new() }
    }

    /// Takes a report, and returns what of it is not held back: failures that end a worker or abandon a
    /// thread depend on time anyway.
    pub(super) fn hold(&mut self, mut report: WorkerReport) -> WorkerReport {
        if !self.is_deterministic || report.slot.is_none() {
            return report;
        }
        let (ended, abandoned) = (std::mem::take(&mut report.ended), std::mem::take(&mut report.abandoned));
        self.reports.push(report);
        WorkerReport { ended, abandoned, ..WorkerReport::default() }
    }

    /// Counts the fragments that the learner has trained on, and returns their reports in the order of turns.
    pub(super) fn release(&mut self, admitted: &BTreeMap<u32, u64>) -> Vec<WorkerReport> {
        for (worker, fragments) in admitted {
            let own = self.admitted.entry(*worker).or_default();
            *own = (*own).max(*fragments);
        }
        let is_admitted = |(worker, slot): (u32, u64)| self.admitted.get(&worker).is_some_and(|all| slot < *all);
        let mut released: Vec<_> = self.reports.extract_if(.., |report| report.slot.is_some_and(is_admitted)).collect();
        // Stable, so that several reports of one fragment keep their order.
        released.sort_by_key(|report| report.slot.map(|(worker, slot)| (slot, worker)));
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(worker: u32, slot: u64, restarts: u64) -> WorkerReport {
        WorkerReport { slot: Some((worker, slot)), restarts, ..WorkerReport::default() }
    }

    fn slots(reports: &[WorkerReport]) -> Vec<(u32, u64, u64)> {
        let slot = |report: &WorkerReport| report.slot.map(|(worker, slot)| (worker, slot, report.restarts));
        reports.iter().filter_map(slot).collect()
    }

    #[test]
    fn reports_are_released_with_their_fragments_in_the_order_of_turns() {
        let mut held = HeldReports::new(true);
        for report in [report(2, 0, 0), report(2, 1, 0), report(1, 0, 1), report(1, 0, 2), report(1, 1, 0)] {
            assert_eq!(held.hold(report).slot, None);
        }
        assert_eq!(slots(&held.release(&BTreeMap::from([(1, 1)]))), [(1, 0, 1), (1, 0, 2)]);
        assert_eq!(slots(&held.release(&BTreeMap::from([(2, 2)]))), [(2, 0, 0), (2, 1, 0)]);
        assert_eq!(slots(&held.release(&BTreeMap::from([(1, 2)]))), [(1, 1, 0)]);
        assert!(held.release(&BTreeMap::new()).is_empty());
    }

    #[test]
    fn free_admission_holds_nothing_back() {
        let mut held = HeldReports::new(false);
        assert_eq!(held.hold(report(1, 7, 3)).restarts, 3);
        assert!(held.release(&BTreeMap::from([(1, 9)])).is_empty());
    }
}
