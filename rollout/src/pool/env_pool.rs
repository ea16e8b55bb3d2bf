use std::time::Duration;

use pronk_buffer::{Closed, ObsColumn};
use pronk_metrics::thread_states;

use super::step::{Answer, GroupPosition, GroupStep};
use crate::env::{EnvSpec, Restarted, VectorContext};

/// How long to wait for threads to end.
pub(crate) const CLOSE_WITHIN: Duration = Duration::from_millis(200);

thread_states! {
    /// The state of a thread that steps environments for a worker, as a group or as tasks.
    pub enum EnvThreadState {
        /// Waiting for orders or, with tasks, for I/O and timers.
        Waiting = "waiting",
        /// Building or stepping environments.
        Stepping = "stepping",
    }
}

/// The settings of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolConfig {
    /// The context of all the worker's environments.
    pub(crate) context: VectorContext,
    pub(crate) n_groups: usize,
    /// 1 for tasks.
    pub(crate) group_size: usize,
    /// How long a call of an environment may take before its task is cancelled, or its thread abandoned.
    pub(crate) env_hang_timeout: Option<Duration>,
    /// Whether the run saves the positions of its environments.
    pub(crate) saves_envs: bool,
}

/// The environments of one worker, in groups of one size that step independently. A group answers every order
/// once, with a failure if it fails, and rebuilds its environments at the next reset.
pub(crate) trait EnvPool: Send {
    /// The spec of all environments.
    fn spec(&self) -> &EnvSpec;

    /// The number of groups.
    fn n_groups(&self) -> usize;

    /// Environments per group.
    fn group_size(&self) -> usize;

    /// Sends an order to a group, without blocking.
    fn send(&mut self, group: usize, order: Box<GroupStep>);

    /// The next answer; `None` after `timeout`. The pool answers for a group that hangs. An error if the run
    /// ends.
    fn recv(&mut self, timeout: Option<Duration>) -> Result<Option<Answer>, Closed>;

    /// Ends all groups and waits briefly for them. Returns the names of threads still running.
    fn close(&mut self) -> Vec<String>;

    /// Where the environments of a group that waits for an order are; `obs` are their newest raw
    /// observations. An error says why that cannot be saved.
    fn save(&mut self, group: usize, obs: ObsColumn) -> Result<GroupPosition, String>;

    /// Brings groups that were just made to where saved ones were, all at the same time. Returns for each
    /// group which environments did not get there: such a group has to begin with a reset.
    fn load(&mut self, saved: Vec<GroupPosition>) -> Vec<Vec<Restarted>>;
}
