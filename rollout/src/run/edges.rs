use std::time::Duration;

use pronk_buffer::{Notifier, WorkerEnds};
use pronk_metrics::{ByPolicy, StepLedger, TimeLedger};
use pronk_policy::{Helper, Params};

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
