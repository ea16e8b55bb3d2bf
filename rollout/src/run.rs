//! What keeps workers going?

mod budget;
mod evaluate;
mod failure;
mod inline;
mod report;
mod supervise;
mod worker_set;

pub(crate) use budget::RestartBudget;
pub use evaluate::{EvaluateError, Evaluation, evaluate};
pub use failure::{WorkerFailure, WorkerFailureCause};
pub use inline::InlineSource;
pub use report::{AbandonedThreads, WorkerReport};
pub(crate) use supervise::{NoFragment, SupervisedWorker, Supervision, thread_name};
pub use worker_set::{JoinOutcome, StartError, SupervisorState, WorkerEdges, WorkerSet, WorkerSetConfig, WorkerStatus};
