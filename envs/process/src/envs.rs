//! [`ProcessEnvs`] as a factory.

use pronk_rollout::{
    CallMonitor, EnvContext, EnvError, EnvFactory, EnvFailure, MultiAgentEnv, MultiAgentFactory, VectorContext,
    VectorEnv,
};

use crate::error::ProcessError;
use crate::settings::ProcessEnvs;
use crate::single::{ProcessEnv, ProcessMultiAgentEnv};
use crate::vector::ProcessVectorEnv;

impl ProcessEnvs {
    /// One environment, for [`check_env`](pronk_rollout::check_env) or to step by hand.
    ///
    /// Each call starts a process, so [`check_env_twice`](pronk_rollout::check_env_twice) compares a fresh one
    /// with one that has played other episodes:
    ///
    /// ```no_run
    /// use pronk_env_process::{Gymnasium, ProcessEnvs};
    /// use pronk_rollout::{EnvContext, EnvError, check_env_twice};
    ///
    /// let envs = ProcessEnvs::new(Gymnasium::new("my_envs:Gripper-v0"));
    /// check_env_twice(|_: &EnvContext| envs.env().map_err(EnvError::new), 0)?;
    /// # Ok::<(), pronk_rollout::EnvCheckError>(())
    /// ```
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn env(&self) -> Result<ProcessEnv, ProcessError> {
        ProcessEnv::start(self, false)
    }

    /// As [`env`](Self::env), of an environment that [`Env::render`](pronk_rollout::Env::render) draws.
    pub fn env_to_render(&self) -> Result<ProcessEnv, ProcessError> {
        ProcessEnv::start(self, true)
    }
}

impl EnvFactory for ProcessEnvs {
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        Ok(Box::new(ProcessVectorEnv::start(self, context, n_envs, false, monitor)?))
    }

    fn make_vector_to_render(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        Ok(Box::new(ProcessVectorEnv::start(self, context, n_envs, true, monitor)?))
    }
}

impl MultiAgentFactory for ProcessEnvs {
    fn make(&self, context: &EnvContext, monitor: &CallMonitor) -> Result<Box<dyn MultiAgentEnv>, EnvError> {
        Ok(Box::new(ProcessMultiAgentEnv::start(self, context, monitor).map_err(EnvError::new)?))
    }
}
