//! [`Restored`]: what a run begins with, out of a checkpoint or new.

use std::path::PathBuf;
use std::sync::Arc;

use pronk_buffer::{MultiAgentBatch, SavedBatch, SavedReplay, TurnPosition, Versioned};
use pronk_learner::{Learner, SavedLoop};
use pronk_metrics::{ByPolicy, NormalizerMoments, StepLedger, StepTicket};
use pronk_policy::Params;
use pronk_rollout::ResumedSeats;

use super::run_spec::RunSpec;
use crate::checkpoint::SavedEvaluations;
use crate::record::SavedLog;
use crate::resume::{Resumed, RunState, SavedTrainer};

/// The cause under which steps are lost that were in flight when a checkpoint was taken and are not in it.
const RESUME: &str = "resume";

/// What a run begins with.
pub(super) struct Restored {
    pub(super) steps: StepLedger,
    /// The published weights.
    pub(super) first: Versioned<ByPolicy<Params>>,
    /// The moments of the next publication.
    pub(super) moments: Arc<NormalizerMoments>,
    pub(super) held: Held,
    pub(super) learner_loop: Option<SavedLoop>,
    pub(super) turns: Option<TurnPosition>,
    pub(super) seats: ResumedSeats,
    pub(super) log: Option<SavedLog>,
    pub(super) trainer: Option<SavedTrainer>,
    /// The folder of the checkpoint, and what that says of evaluations.
    pub(super) evaluated: Option<(PathBuf, SavedEvaluations)>,
}

/// Batches on their way to the learner.
#[derive(Default)]
pub(super) struct Held {
    /// Train batches: those of the minibatch buffer, and those behind it.
    pub(super) batches: Vec<MultiAgentBatch>,
    /// Fragments of an incomplete train batch.
    pub(super) partial: Vec<MultiAgentBatch>,
    /// Fragments that the learner has not taken yet, in order.
    pub(super) queued: Vec<MultiAgentBatch>,
    pub(super) replay: Option<SavedReplay>,
}

impl Restored {
    /// A new run.
    pub(super) fn nothing(learner: &dyn Learner, spec: &RunSpec) -> Self {
        let weights = learner.weights().into_iter().map(|(policy, params)| (policy, params.clone())).collect();
        let moments = spec.first_moments();
        Self {
            steps: StepLedger::new(),
            first: Versioned { version: 0, weights, moments: Arc::clone(&moments) },
            moments,
            held: Held::default(),
            learner_loop: None,
            turns: None,
            seats: ResumedSeats::default(),
            log: None,
            trainer: None,
            evaluated: None,
        }
    }
}

impl From<Resumed> for Restored {
    fn from(resumed: Resumed) -> Self {
        let kept = resumed.in_flight();
        let Resumed { state, batches, source, published, is_exact, folder, evaluations } = resumed;
        let RunState {
            trainer, learner_loop, version, published_moments, moments, turns, seats, restarts, log, ..
        } = state;
        let (steps, mut ticket) = StepLedger::resume(trainer.steps.clone(), kept, RESUME);
        let restore = |saved: Vec<SavedBatch>, ticket: &mut StepTicket| -> Vec<MultiAgentBatch> {
            saved.into_iter().map(|saved| saved.restore(ticket)).collect()
        };
        let mut in_order = restore(batches, &mut ticket);
        in_order.extend(restore(source.batches, &mut ticket));
        let held = Held {
            batches: in_order,
            partial: restore(source.partial, &mut ticket),
            queued: restore(source.queued, &mut ticket),
            // Another life draws other numbers from their beginning.
            replay: source.replay.map(|replay| if is_exact { replay } else { SavedReplay { draws: 0, ..replay } }),
        };
        Self {
            steps,
            first: Versioned { version, weights: published, moments: Arc::new(published_moments.into()) },
            moments: Arc::new(moments.into()),
            held,
            learner_loop: Some(learner_loop),
            turns: turns.filter(|_| is_exact),
            seats: ResumedSeats { seats, restarts },
            log,
            trainer: Some(trainer),
            evaluated: evaluations.map(|evaluations| (folder, evaluations)),
        }
    }
}
