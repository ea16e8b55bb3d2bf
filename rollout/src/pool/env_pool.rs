use std::time::Duration;

use pronk_buffer::Closed;
use pronk_metrics::thread_states;

use super::step::{Answer, GroupStep};
use crate::env::{EnvSpec, VectorContext};

/// How long the threads are waited for when they are to end.
pub(crate) const CLOSE_WITHIN: Duration = Duration::from_millis(200);

thread_states! {
    /// What a thread does that steps environments for a worker, or the tasks of its environments.
    pub enum EnvThreadState {
        /// Waiting for orders, or with tasks for what they wait for.
        Waiting = "waiting",
        /// Making environments and stepping them.
        Stepping = "stepping",
    }
}

/// What the groups of one worker are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolConfig {
    /// Of all the worker's environments.
    pub(crate) context: VectorContext,
    pub(crate) n_groups: usize,
    /// 1, where they are tasks.
    pub(crate) group_size: usize,
    /// How long a call of an environment may take before it is cancelled, or its thread abandoned.
    pub(crate) env_hang_timeout: Option<Duration>,
}

/// The environments of one worker in groups of one size, each of which takes its steps by itself.
///
/// A group is sent orders and answers each of them once, in any order among the groups. One that fails says so in its answer,
/// and makes its environments anew when it is next told to reset them.
pub(crate) trait EnvPool: Send {
    /// The spec that all the environments share.
    fn spec(&self) -> &EnvSpec;

    /// How many groups there are.
    fn n_groups(&self) -> usize;

    /// How many environments there are in each.
    fn group_size(&self) -> usize;

    /// Has a group step, or reset, its environments. It does not wait.
    fn send(&mut self, group: usize, order: Box<GroupStep>);

    /// The next answer; `None` if there was none within `timeout`. A group that has been silent for too long answers with that
    /// failure.
    ///
    /// # Errors
    /// The run is ending.
    fn recv(&mut self, timeout: Option<Duration>) -> Result<Option<Answer>, Closed>;

    /// Ends all groups, and waits for them a short while. The names of the threads that have not ended.
    fn close(&mut self) -> Vec<String>;
}
