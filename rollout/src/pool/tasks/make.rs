use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::request::Seat;
use crate::vector::Normalizer;

/// Environments that are tasks, of whatever type: what [`EnvFactory::tasks`](crate::EnvFactory::tasks) gives.
#[derive(Clone)]
pub struct EnvTasks {
    pub(crate) make: Arc<dyn MakeTask>,
    /// What brings their observations and rewards to one scale.
    pub(crate) normalizer: Option<Normalizer>,
}

impl EnvTasks {
    /// The same environments, normalised.
    pub(crate) fn normalized(self, normalizer: Normalizer) -> Self {
        Self { normalizer: Some(normalizer), ..self }
    }
}

impl fmt::Debug for EnvTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvTasks").finish_non_exhaustive()
    }
}

/// Makes the task of one environment, which makes the environment.
pub(crate) trait MakeTask: Send + Sync {
    /// The task of a seat; it goes on until it is dropped, or nobody listens.
    fn task(&self, seat: Seat) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
