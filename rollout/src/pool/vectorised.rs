//! Native environments stepped by SIMD, with their states in arrays.

use std::fmt;
use std::marker::PhantomData;

use super::factory::EnvFactory;
use crate::env::{CallMonitor, EnvFailure, VectorContext};
use crate::vector::{Kernel, NativeVectorEnv, VectorEnv};

/// A factory of native environments that step together by SIMD, with their states in arrays.
///
/// Episodes equal those of a factory closure, but for the last bits of a sine, and are faster the more
/// environments a worker has.
///
/// ```
/// use pronk_rollout::{CartPole, EnvFactory, VectorContext, Vectorised, CallMonitor};
///
/// // `Trainer::new(config, Vectorised::<CartPole>::new())` in place of `|_: &EnvContext| CartPole::new()`.
/// let factory = Vectorised::<CartPole>::new();
/// let context = VectorContext { worker: 1, ..VectorContext::default() };
/// let envs = factory.make_vector(&context, 256, &CallMonitor::new())?;
/// assert_eq!((envs.n_envs(), envs.spec().name.as_str()), (256, "CartPole-v1"));
///
/// // With a time limit other than the environment's own.
/// let shorter = factory.with_time_limit(Some(100)).make_vector(&context, 1, &CallMonitor::new())?;
/// assert_eq!(shorter.spec().max_episode_steps, Some(100));
/// # Ok::<(), pronk_rollout::EnvFailure>(())
/// ```
pub struct Vectorised<K> {
    /// `None`: the environment's own limit.
    time_limit: Option<Option<u32>>,
    kernel: PhantomData<fn() -> K>,
}

impl<K: Kernel> Vectorised<K> {
    /// A factory of environments with their own time limits.
    pub fn new() -> Self {
        Self { time_limit: None, kernel: PhantomData }
    }

    /// Replaces the environment's own time limit; `None` never truncates.
    pub fn with_time_limit(self, max_episode_steps: Option<u32>) -> Self {
        Self { time_limit: Some(max_episode_steps), ..self }
    }
}

impl<K: Kernel> Default for Vectorised<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Clone for Vectorised<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Vectorised<K> {}

impl<K: Kernel> fmt::Debug for Vectorised<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vectorised").field("env", &K::env_spec().name).field("time_limit", &self.time_limit).finish()
    }
}

impl<K: Kernel> EnvFactory for Vectorised<K> {
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        _watch: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        let max_episode_steps = self.time_limit.unwrap_or(K::env_spec().max_episode_steps);
        let envs = NativeVectorEnv::<K>::with_time_limit(context, n_envs, max_episode_steps)?;
        Ok(Box::new(envs))
    }
}

#[cfg(test)]
mod tests;
