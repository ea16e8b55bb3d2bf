//! [`Iteration`]: reports between two results.

use std::time::{Duration, Instant};

use pronk_buffer::{Fold, Mailbox};
use pronk_learner::{LearnerMetrics, LearnerReport};
use pronk_metrics::{ByPolicy, LearnerInfo, StepLedger, StepTotals, ThreadTime};
use pronk_rollout::WorkerReport;

use super::processors::ProcessorTime;
use super::turn_reports::TurnReports;
use crate::config::TrainerConfig;
use crate::result::TrainResult;

/// Learner infos kept before they are merged.
const INFOS_KEPT: usize = 256;

/// Shortest iteration while the learner is starved.
const STARVED: Duration = Duration::from_secs(1);

/// Reports between two results, and the ledgers at its start.
pub(super) struct Iteration {
    pub(super) started: Instant,
    pub(super) steps_before: StepTotals,
    pub(super) time_before: Vec<ThreadTime>,
    pub(super) processors_before: ProcessorTime,
    /// All reports of the learner folded together, without their infos.
    pub(super) learner: LearnerReport,
    pub(super) workers: WorkerReport,
    infos: Vec<(LearnerInfo, ByPolicy<u64>)>,
    /// Infos not merged because their trees differ.
    pub(super) infos_replaced: u64,
}

impl Iteration {
    /// The first iteration.
    pub(super) fn first(started: Instant, processors_before: ProcessorTime) -> Self {
        Self {
            started,
            steps_before: StepTotals::default(),
            time_before: Vec::new(),
            processors_before,
            learner: LearnerReport::default(),
            workers: WorkerReport::default(),
            infos: Vec::new(),
            infos_replaced: 0,
        }
    }

    /// The iteration that starts where `result` ended.
    pub(super) fn after(result: &TrainResult, started: Instant, processors_before: ProcessorTime) -> Self {
        let first = Self::first(started, processors_before);
        Self { steps_before: result.steps.clone(), time_before: result.time.clone(), ..first }
    }

    /// Takes everything out of both mailboxes.
    pub(super) fn collect(
        &mut self,
        outqueue: &Mailbox<LearnerReport>,
        workers: &Mailbox<WorkerReport>,
        turns: Option<&mut TurnReports>,
    ) {
        while let Some(mut report) = outqueue.try_take() {
            let info = std::mem::take(&mut report.info);
            if !info.is_empty() {
                self.infos.push((info, std::mem::take(&mut report.rows)));
            }
            if self.infos.len() >= INFOS_KEPT {
                self.merge_infos();
            }
            self.infos_replaced += report.infos_replaced;
            self.learner.fold(report);
        }
        let reports = std::iter::from_fn(|| workers.try_take());
        match turns {
            None => reports.for_each(|report| self.workers.fold(report)),
            Some(turns) => reports.for_each(|report| self.workers.fold(turns.hold(report))),
        }
    }

    /// Whether it covers the minimal time, env-steps and one pass.
    ///
    /// With a starved learner, or while no host has joined that could feed it, it ends after [`STARVED`], so
    /// that the result says so.
    pub(super) fn is_complete(
        &self,
        config: &TrainerConfig,
        steps: &StepLedger,
        learner: &LearnerMetrics,
        waits_for_hosts: bool,
    ) -> bool {
        if self.time_left(config).is_some() {
            return false;
        }
        let sampled = || steps.snapshot().sampled.env - self.steps_before.sampled.env;
        (self.learner.passes > 0 && sampled() >= config.results.min_sample_timesteps_per_iteration)
            || (self.started.elapsed() >= STARVED && (waits_for_hosts || learner.read().starved.is_some()))
    }

    /// What is left of the shortest iteration time.
    pub(super) fn time_left(&self, config: &TrainerConfig) -> Option<Duration> {
        let least = Duration::try_from_secs_f64(config.results.min_time_s_per_iteration).unwrap_or(Duration::MAX);
        least.checked_sub(self.started.elapsed()).filter(|left| !left.is_zero())
    }

    /// The infos of all passes, merged by each leaf's rule, weighted by rows.
    pub(super) fn take_info(&mut self) -> LearnerInfo {
        self.merge_infos();
        self.infos.pop().map(|(info, _)| info).unwrap_or_default()
    }

    fn merge_infos(&mut self) {
        let Some(newest) = self.infos.last().cloned() else {
            return;
        };
        let mut all_rows = ByPolicy::new();
        for (policy, rows) in self.infos.iter().flat_map(|(_, rows)| rows) {
            *all_rows.entry(policy.clone()).or_default() += rows;
        }
        let others = self.infos.len() as u64 - 1;
        let merged = LearnerInfo::merge_by_rows(self.infos.drain(..)).map(|merged| (merged, all_rows));
        self.infos.push(merged.unwrap_or_else(|_| {
            self.infos_replaced += others;
            newest
        }));
    }
}
