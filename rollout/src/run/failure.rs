use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::BatchError;

use super::start_error::StartError;
use crate::act::PolicyFault;
use crate::env::EnvFailure;
use crate::worker::BuildError;

/// A worker that gave up; its text names the thread and the whole cause.
#[derive(Clone, Debug)]
pub struct WorkerFailure {
    /// The thread that ended.
    pub thread: String,
    /// Failures of its environments in a row, without a complete fragment between them.
    pub consecutive_failures: u32,
    /// Why it ended.
    pub cause: WorkerFailureCause,
}

/// Why a worker gave up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WorkerFailureCause {
    /// Its environments failed more often in a row than tolerated; this is the last failure.
    Environment(Arc<EnvFailure>),
    /// All workers together needed more restarts than allowed, which ends the run.
    BudgetSpent {
        /// How many are allowed.
        restarts: u32,
        /// Within this time.
        window: Duration,
        /// The failure after which no restart was left.
        last: Arc<EnvFailure>,
    },
    /// It was to replace a worker that hangs, and could not be made.
    Build(Arc<BuildError>),
    /// It hung, and the system gave no thread to replace it.
    NoThread(Arc<StartError>),
    /// The policy could not act.
    Policy(Arc<PolicyFault>),
    /// The vector environment wrote an invalid batch.
    Batch(BatchError),
    /// Code outside the environments panicked, with this message.
    Panic(String),
}

impl WorkerFailure {
    /// Whether it ends the run although other workers are left.
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
        // The text of the cause is part of ours, so the chain continues with the source of the cause.
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
