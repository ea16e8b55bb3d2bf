use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::request::TaskSlot;

/// A type-erased factory of environments that are tasks: see [`EnvFactory::tasks`](crate::EnvFactory::tasks).
#[derive(Clone)]
pub struct EnvTasks {
    pub(crate) make: Arc<dyn MakeTask>,
}

impl fmt::Debug for EnvTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvTasks").finish_non_exhaustive()
    }
}

/// Makes the task of one environment; the task builds the environment.
pub(crate) trait MakeTask: Send + Sync {
    /// The task of a slot. It runs until it is dropped or the pool is.
    fn task(&self, slot: TaskSlot) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
