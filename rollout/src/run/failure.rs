use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::BatchError;

use crate::act::PolicyFault;
use crate::env::EnvFailure;
use crate::run::StartError;
use crate::worker::BuildError;

/// A worker that gave up.
///
/// Its text names the thread and the whole cause:
///
/// ```
/// use pronk_rollout::{WorkerFailure, WorkerFailureCause};
///
/// let failure = WorkerFailure {
///     thread: "rollout-2".into(),
///     consecutive_failures: 0,
///     cause: WorkerFailureCause::Panic("index out of bounds".into()),
/// };
/// assert_eq!(failure.to_string(), "rollout-2 panicked outside its environments: index out of bounds");
/// ```
#[derive(Clone, Debug)]
pub struct WorkerFailure {
    /// The thread that ended.
    pub thread: String,
    /// How many failures of its environments came in a row, without a completed fragment between them.
    pub consecutive_failures: u32,
    /// Why it ended.
    pub cause: WorkerFailureCause,
}

/// Why a worker gave up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WorkerFailureCause {
    /// Its environments failed more often in a row than is tolerated; this is the last failure.
    Environment(Arc<EnvFailure>),
    /// All workers together needed more restarts than they may; the run is over.
    BudgetSpent {
        /// How many they may need.
        restarts: u32,
        /// Within which time.
        window: Duration,
        /// The failure that needed one more.
        last: Arc<EnvFailure>,
    },
    /// It was to replace one whose environment hung, and could not be made.
    Build(Arc<BuildError>),
    /// It hung, and the system gave no thread to replace it.
    NoThread(Arc<StartError>),
    /// The policy could not act.
    Policy(Arc<PolicyFault>),
    /// The vector environment wrote something that cannot be.
    Batch(BatchError),
    /// Code outside the environments panicked, with this message.
    Panic(String),
}

impl WorkerFailure {
    /// Whether it ends the run though other workers may be left.
    pub fn ends_the_run(&self) -> bool {
        matches!(self.cause, WorkerFailureCause::BudgetSpent { .. })
    }
}

impl fmt::Display for WorkerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, consecutive_failures, cause } = self;
        match cause {
            WorkerFailureCause::Environment(failure) => write!(
                f,
                "{thread} gave up after {consecutive_failures} failures in a row without a complete fragment, more than \
                 num_consecutive_worker_failures_tolerance allows; the last: {failure}"
            ),
            WorkerFailureCause::BudgetSpent { restarts, window, last } => write!(
                f,
                "{thread} needs a restart, but all workers together have had {restarts} within {:.0} s, which is all that \
                 max_num_worker_restarts allows; the last failure: {last}",
                window.as_secs_f64()
            ),
            WorkerFailureCause::Build(error) => write!(f, "{thread} could not be made to replace another: {error}"),
            WorkerFailureCause::NoThread(error) => write!(f, "{thread} hangs and was not replaced: {error}"),
            WorkerFailureCause::Policy(fault) => write!(f, "{thread} cannot act: {fault}"),
            WorkerFailureCause::Batch(error) => {
                write!(f, "the vector environment of {thread} broke its rules: {error}")
            }
            WorkerFailureCause::Panic(text) => write!(f, "{thread} panicked outside its environments: {text}"),
        }
    }
}

impl std::error::Error for WorkerFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The cause's own text is part of ours; the chain goes on below it.
        match &self.cause {
            WorkerFailureCause::Environment(failure) | WorkerFailureCause::BudgetSpent { last: failure, .. } => {
                failure.source()
            }
            WorkerFailureCause::Build(error) => error.source(),
            WorkerFailureCause::NoThread(error) => error.source(),
            WorkerFailureCause::Policy(fault) => fault.source(),
            WorkerFailureCause::Batch(_) | WorkerFailureCause::Panic(_) => None,
        }
    }
}
