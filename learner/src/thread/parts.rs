use pronk_buffer::{LoaderMetrics, Notifier, ShutdownToken, WeightPublisher};
use pronk_metrics::{ByPolicy, StepLedger, TimeLedger, thread_states};
use pronk_policy::Params;

use super::journal::Journal;
use crate::Learner;

thread_states! {
    /// States of the learner's thread.
    pub enum LearnerThreadState {
        /// Before its loop.
        Starting = "starting",
        /// Waiting for a train batch: the workers are the bottleneck.
        Starved = "starved",
        /// Checking a batch and learning from it.
        Learning = "learning",
        /// Copying the weights for the workers.
        Publishing = "publishing",
        /// Counting, posting the report, and copying the state for a checkpoint.
        Reporting = "reporting",
    }
}

/// The learner loop's handles on the rest of the run.
pub struct LearnerParts<S> {
    /// The source of train batches.
    pub source: S,
    /// Learns from them.
    pub learner: Box<dyn Learner>,
    /// Publishes weights to the workers.
    pub publisher: WeightPublisher<ByPolicy<Params>>,
    /// Metrics of the loader threads, if the source is [`LoaderStacks`](pronk_buffer::LoaderStacks).
    pub loaders: Option<LoaderMetrics>,
    /// Counts trained, dropped and lost steps.
    pub steps: StepLedger,
    /// Accounts for the thread's time; a starved learner reads the other threads' states from it.
    pub time: TimeLedger,
    /// Ends the loop.
    pub token: ShutdownToken,
    /// Notified of every report.
    pub notifier: Notifier,
    /// Follows the loop, if there is one.
    pub journal: Option<Box<dyn Journal>>,
}
