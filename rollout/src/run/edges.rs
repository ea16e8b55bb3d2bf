use pronk_buffer::{Notifier, WorkerEnds};
use pronk_metrics::{ByPolicy, StepLedger, TimeLedger};
use pronk_policy::Params;

/// The edges between the workers and the rest of the run.
#[derive(Debug)]
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
}
