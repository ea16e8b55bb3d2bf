//! [`TurnReports`]: reports of workers, put into the order of turns.

use pronk_rollout::WorkerReport;

/// Under deterministic admission, keeps the reports of workers until the end of an iteration and then returns
/// them in the order of turns: folding is not exact to the last bit in every order, and workers report in the
/// order in which they happen to finish.
#[derive(Default)]
pub(super) struct TurnReports {
    reports: Vec<WorkerReport>,
    /// Fragments of the run that were reported.
    fragments: u64,
}

impl TurnReports {
    /// Of a resumed run, of which so many fragments were reported.
    pub(super) fn resumed(fragments: u64) -> Self {
        Self { fragments, ..Self::default() }
    }

    /// Takes a report, and returns what of it is not held back: that a worker ends or a thread is abandoned
    /// depends on time anyway, and the trainer needs to know at once.
    pub(super) fn hold(&mut self, mut report: WorkerReport) -> WorkerReport {
        if report.slot.is_none() {
            return report;
        }
        self.fragments += report.fragments;
        let (ended, abandoned) = (std::mem::take(&mut report.ended), std::mem::take(&mut report.abandoned));
        let restarted = std::mem::take(&mut report.restarted);
        self.reports.push(report);
        WorkerReport { ended, abandoned, restarted, ..WorkerReport::default() }
    }

    /// How many fragments of the run were reported.
    pub(super) fn fragments(&self) -> u64 {
        self.fragments
    }

    /// Takes the reports out, in the order of turns.
    pub(super) fn take(&mut self) -> Vec<WorkerReport> {
        // Stable, so that several reports of one fragment keep their order.
        self.reports.sort_by_key(|report| report.slot.map(|(worker, slot)| (slot, worker)));
        std::mem::take(&mut self.reports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(worker: u32, slot: u64, restarts: u64) -> WorkerReport {
        WorkerReport { slot: Some((worker, slot)), restarts, fragments: 1, ..WorkerReport::default() }
    }

    #[test]
    fn reports_come_in_the_order_of_turns_whoever_was_faster() {
        let mut turns = TurnReports::default();
        for report in [report(2, 0, 0), report(2, 1, 0), report(1, 0, 1), report(1, 0, 2), report(1, 1, 0)] {
            assert_eq!(turns.hold(report).slot, None);
        }
        let order: Vec<_> = turns.take().iter().filter_map(|it| Some((it.slot?, it.restarts))).collect();
        assert_eq!(order, [((1, 0), 1), ((1, 0), 2), ((2, 0), 0), ((1, 1), 0), ((2, 1), 0)]);
        assert!(turns.take().is_empty());
        assert_eq!(turns.fragments(), 5);
    }

    #[test]
    fn reports_of_the_supervisor_are_passed_on() {
        let supervisor = WorkerReport { restarts: 3, ..WorkerReport::default() };
        assert_eq!(TurnReports::default().hold(supervisor).restarts, 3);
    }
}
