//! What gathers between two results.

use std::time::{Duration, Instant};

use pronk_buffer::{Fold, Mailbox};
use pronk_learner::LearnerReport;
use pronk_metrics::{LearnerInfo, StepLedger, StepTotals, ThreadTime, TimeLedger};
use pronk_rollout::{WorkerFailure, WorkerReport};

use crate::config::TrainerConfig;

/// Learner infos that are kept before they are merged into one.
const INFOS_KEPT: usize = 256;

/// What gathers between two results: reports, and where the ledgers stood at the beginning.
pub(super) struct Iteration {
    pub(super) started: Instant,
    pub(super) steps_before: StepTotals,
    pub(super) time_before: Vec<ThreadTime>,
    /// All reports of the learner folded together, without their infos.
    pub(super) learner: LearnerReport,
    pub(super) workers: WorkerReport,
    infos: Vec<(LearnerInfo, f64)>,
}

impl Iteration {
    pub(super) fn begin(steps: &StepLedger, time: &TimeLedger) -> Self {
        Self {
            started: Instant::now(),
            steps_before: steps.snapshot(),
            time_before: time.read(),
            learner: LearnerReport::default(),
            workers: WorkerReport::default(),
            infos: Vec::new(),
        }
    }

    /// Takes everything out of both mailboxes.
    pub(super) fn collect(&mut self, outqueue: &Mailbox<LearnerReport>, workers: &Mailbox<WorkerReport>) {
        while let Some(mut report) = outqueue.try_take() {
            let info = std::mem::take(&mut report.info);
            if !info.is_empty() {
                self.infos.push((info, report.agent_steps as f64));
            }
            if self.infos.len() >= INFOS_KEPT {
                self.merge_infos();
            }
            self.learner.fold(report);
        }
        while let Some(report) = workers.try_take() {
            self.workers.fold(report);
        }
    }

    /// The first failure that a worker ended with.
    pub(super) fn worker_failure(&self) -> Option<WorkerFailure> {
        self.workers.ended.first().cloned()
    }

    /// Whether it covers the time, the env-steps and the one update that an iteration has to.
    pub(super) fn is_complete(&self, config: &TrainerConfig, steps: &StepLedger) -> bool {
        self.learner.passes > 0 && self.time_left(config).is_none() && {
            let sampled = steps.snapshot().sampled.env - self.steps_before.sampled.env;
            sampled >= config.min_sample_timesteps_per_iteration
        }
    }

    /// What is left of the shortest time an iteration may take.
    pub(super) fn time_left(&self, config: &TrainerConfig) -> Option<Duration> {
        let least = Duration::try_from_secs_f64(config.min_time_s_per_iteration).unwrap_or(Duration::MAX);
        least.checked_sub(self.started.elapsed()).filter(|left| !left.is_zero())
    }

    /// The infos of all passes, merged by each leaf's rule and weighted by agent-steps.
    pub(super) fn take_info(&mut self) -> LearnerInfo {
        self.merge_infos();
        self.infos.pop().map(|(info, _)| info).unwrap_or_default()
    }

    fn merge_infos(&mut self) {
        let weight = self.infos.iter().map(|(_, weight)| weight).sum();
        let newest = self.infos.last().map(|(info, _)| info.clone());
        // Infos whose trees differ cannot be merged: the newest then stands for all.
        let merged = LearnerInfo::merge_all(self.infos.drain(..))
            .ok()
            .or(newest)
            .unwrap_or_default();
        self.infos.push((merged, weight));
    }
}
