//! How do threads beside a run repeat a function until they are stopped?
//!
//! A [`WorkerGroup`] is a function with settings; [`WorkerGroups`] run several of them on threads, by name.
//! Nothing here knows reinforcement learning.

mod error;
mod group;
mod group_run;
mod worker;
mod worker_groups;

pub use error::{GroupError, GroupErrorCause, GroupPlace, GroupsStartError, StopOutcome};
pub use group::{CallResult, OnWorkerError, Restarts, WorkerGroup, WorkerGroupConfig, WorkerTime};
pub use worker::{GroupWorker, WorkerId};
pub use worker_groups::{Stopper, WorkerGroups};
