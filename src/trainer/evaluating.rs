//! Evaluations beside a running trainer.

use std::time::Duration;

use pronk_metrics::PolicyId;

use super::evaluations::Evaluations;
use super::evaluator::Order;
use super::handle::Trainer;
use super::remains::Counters;
use crate::checkpoint::{CheckpointError, SavedEvaluations};

impl Trainer {
    /// Begins an evaluation of the newest published weights, if one is due and none is in progress.
    pub(super) fn evaluate_if_due(&mut self) {
        let (Some(evaluations), Some(_)) = (&self.evaluations, &self.engine) else { return };
        // At its limit of env-steps a run is about to end, which would interrupt it.
        if self.steps.limit_reached() || !evaluations.is_due(|| self.steps.snapshot().sampled.env) {
            return;
        }
        if evaluations.version() == Some(self.weights.version()) {
            return;
        }
        let published = self.weights.load();
        let counters = published.weights.keys().map(|policy| (policy.clone(), self.counters(policy))).collect();
        let order = Order { published, counters, env_steps: self.steps.snapshot().sampled.env };
        if let Some(evaluations) = &mut self.evaluations {
            evaluations.begin(order);
        }
    }

    /// Takes in what the evaluator has reported.
    pub(super) fn collect_evaluations(&mut self) {
        let unsaved = self.evaluations.as_mut().and_then(|evaluations| evaluations.collect());
        self.note_unsaved(unsaved);
    }

    /// Waits for the evaluator, at most so long, or as long as for a checkpoint if it saves the best policy.
    /// Returns its name if it missed that.
    pub(super) fn join_evaluator(&mut self, deadline: Duration) -> Option<String> {
        let (late, unsaved) = self.evaluations.as_mut()?.join(deadline, self.finish_deadline);
        self.note_unsaved(unsaved);
        late
    }

    fn note_unsaved(&mut self, unsaved: Option<CheckpointError>) {
        match (unsaved, &mut self.saves) {
            (Some(error), Some(saves)) => saves.note(error),
            (Some(error), None) => tracing::warn!(%error, "the best policy could not be kept; the run goes on"),
            (None, _) => {}
        }
    }

    /// For a checkpoint: also those of a run that goes on without evaluations.
    pub(super) fn saved_evaluations(&self) -> Option<SavedEvaluations> {
        let before = || self.resumed.as_ref().and_then(|resumed| resumed.evaluations.clone());
        self.evaluations.as_ref().map(Evaluations::saved).or_else(before)
    }

    /// What the learner of a policy has come to, as far as it has reported.
    pub(super) fn counters(&self, policy: &PolicyId) -> Counters {
        let begun: Counters = self.begun.get(policy).copied().unwrap_or_default();
        Counters {
            updates: begun.updates + self.updates + self.iteration.learner.updates,
            env_steps: begun.env_steps + self.steps.snapshot().trained_once.env,
        }
    }
}
