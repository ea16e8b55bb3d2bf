use std::time::Duration;

use pronk_buffer::{FragmentSender, Notifier, WeightSource, WorkerEnds};
use pronk_metrics::{ByPolicy, StepLedger, TimeLedger};
use pronk_policy::{Helper, Params};

use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use crate::worker::SeatState;

/// The edges between the workers and the rest of the run.
pub struct WorkerEdges {
    /// For each worker: forward, where its fragments go, and backward, where its weights come from.
    pub ends: Vec<WorkerEnds<ByPolicy<Params>>>,
    /// Sideways: notified of every report.
    pub notifier: Notifier,
    /// Where each thread's time is booked.
    pub time: TimeLedger,
    /// Where steps are counted. Under free admission the workers end at its limit; the supervisor books the
    /// steps of a worker that hangs.
    pub steps: StepLedger,
    /// Lets workers that wait for the learner help it; `None` if no thread is to help.
    pub helper: Option<Helper>,
    /// Where the workers continue.
    pub resumed: ResumedSeats,
}

/// Where the workers of a resumed run continue; nothing for a run that begins.
#[derive(Debug, Default)]
pub struct ResumedSeats {
    /// Of every worker, in the order of their numbers, or of none.
    pub seats: Vec<SeatState>,
    /// How long before it was saved the run had restarted workers.
    pub restarts: Vec<Duration>,
}

/// The ends of a worker, which its thread does not hold while it is in its environments: the supervisor takes
/// them from a thread that it abandons, for a replacement, or so that the forward edge closes.
#[derive(Clone)]
pub(super) struct CurrentEnds(Arc<Mutex<Option<WorkerEnds<ByPolicy<Params>>>>>);

impl CurrentEnds {
    pub(super) fn new(ends: WorkerEnds<ByPolicy<Params>>) -> Self {
        Self(Arc::new(Mutex::new(Some(ends))))
    }

    /// Takes the ends from their thread.
    pub(super) fn take(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock().take())))
    }

    pub(super) fn are_taken(&self) -> bool {
        self.lock().is_none()
    }

    /// A clone of the backward end. It may be kept: only a forward end holds an edge open.
    pub(super) fn weights(&self) -> Option<WeightSource<ByPolicy<Params>>> {
        self.lock().as_ref().map(|ends| ends.weights.clone())
    }

    /// A clone of the forward end, to push one fragment.
    pub(super) fn fragments(&self) -> Option<FragmentSender> {
        self.lock().as_ref().map(|ends| ends.fragments.clone())
    }

    /// Fragments that wait for the learner.
    pub(super) fn backlog(&self) -> usize {
        self.lock().as_ref().map_or(0, |ends| ends.fragments.backlog())
    }

    fn lock(&self) -> MutexGuard<'_, Option<WorkerEnds<ByPolicy<Params>>>> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
