use pronk_buffer::{InqueueSender, MultiAgentBatch, Notifier, WeightCell};
use pronk_metrics::{ByPolicy, StepLedger, TimeLedger};
use pronk_policy::Params;

/// The edges between the workers and the rest of the run.
#[derive(Clone, Debug)]
pub struct WorkerEdges {
    /// Forward: where fragments go.
    pub fragments: InqueueSender<MultiAgentBatch>,
    /// Backward: where weights come from.
    pub weights: WeightCell<ByPolicy<Params>>,
    /// Sideways: notified of every report.
    pub notifier: Notifier,
    /// Where each thread's time is booked.
    pub time: TimeLedger,
    /// Where steps are counted. The workers end at its limit; the supervisor books the steps of a worker that
    /// hangs.
    pub steps: StepLedger,
}
