//! Factories whose observations and rewards are normalised.

use std::sync::Arc;

use super::factory::EnvFactory;
use crate::env::{CallMonitor, EnvFailure, EnvFailureCause, FailurePlace, VectorContext};
use crate::pool::EnvTasks;
use crate::vector::{NormalizedVectorEnv, Normalizer, VectorEnv};

impl Normalizer {
    /// The same environments with their observations and rewards normalised.
    pub fn wrap(&self, factory: Arc<dyn EnvFactory>) -> impl EnvFactory + 'static {
        NormalizedFactory { factory, normalizer: self.clone() }
    }
}

struct NormalizedFactory {
    factory: Arc<dyn EnvFactory>,
    normalizer: Normalizer,
}

impl EnvFactory for NormalizedFactory {
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        let envs = self.factory.make_vector(context, n_envs, monitor)?;
        let refused = |error| context.failure(Some(envs.spec()), 0, FailurePlace::Make, EnvFailureCause::Error(error));
        self.normalizer.check(envs.spec()).map_err(refused)?;
        Ok(Box::new(NormalizedVectorEnv::new(*context, envs, self.normalizer.clone())))
    }

    fn tasks(&self) -> Option<EnvTasks> {
        self.factory.tasks().map(|tasks| tasks.normalized(self.normalizer.clone()))
    }
}

#[cfg(test)]
mod tests;
