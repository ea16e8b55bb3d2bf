//! What keeps workers going?

mod edges;
mod evaluate;
mod evaluator;
mod failure;
mod failure_log;
mod inline;
mod report;
mod restarts;
mod start_error;
mod supervised;
mod worker_loop;
mod worker_set;

pub use edges::{ResumedSeats, WorkerEdges};
pub use evaluate::{
    AgentStat, Audience, EvaluateError, Evaluation, EvaluationPlan, OnFrame, OnProgress, Players, Progress, evaluate,
    evaluate_agents, evaluate_and_render, evaluate_beside,
};
pub use evaluator::{Evaluator, EvaluatorState};
pub use failure::{WorkerFailure, WorkerFailureCause};
pub use failure_log::FailureLog;
pub use inline::InlineSource;
pub use report::{AbandonedThreads, PostedSeat, WorkerReport};
pub use restarts::SpentRestarts;
pub use start_error::StartError;
pub use worker_set::{JoinOutcome, SupervisorState, WorkerSet, WorkerSetConfig, WorkerStatus};
