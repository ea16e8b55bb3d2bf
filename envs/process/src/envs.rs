//! The factory: which program, how many environments it holds, and how long it may take.

use pronk_rollout::{
    EnvContext, EnvError, EnvFactory, EnvFailure, MultiAgentEnv, MultiAgentFactory, VectorContext, VectorEnv, Watch,
};

use crate::error::ProcessError;
use crate::settings::ProcessEnvs;
use crate::single::{ProcessEnv, ProcessMultiAgentEnv};
use crate::vector::ProcessVectorEnv;

impl ProcessEnvs {
    /// One environment, for [`check_env`](pronk_rollout::check_env) or to be stepped by hand.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn env(&self) -> Result<ProcessEnv, ProcessError> {
        ProcessEnv::start(self)
    }
}

impl EnvFactory for ProcessEnvs {
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        watch: &Watch,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        Ok(Box::new(ProcessVectorEnv::start(self, context, n_envs, watch)?))
    }
}

impl MultiAgentFactory for ProcessEnvs {
    fn make(&self, context: &EnvContext, watch: &Watch) -> Result<Box<dyn MultiAgentEnv>, EnvError> {
        Ok(Box::new(ProcessMultiAgentEnv::start(self, context, watch).map_err(EnvError::new)?))
    }
}
