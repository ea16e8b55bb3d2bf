//! How environments are made: any closure is a factory.

use pronk_metrics::catch;

use crate::env::{CallMonitor, EnvContext, EnvFailure, EnvFailureCause, EnvSpec, IntoEnv, VectorContext};
use crate::pool::EnvTasks;
use crate::vector::{SerialVectorEnv, VectorEnv};

/// Makes the environments of every worker.
///
/// Any closure from [`&EnvContext`](EnvContext) to an [`Env`](crate::Env), or to a `Result` of one, is a factory: its
/// environments are stepped one after the other by [`SerialVectorEnv`]. Implement the trait itself for a vector
/// environment of another kind.
///
/// ```
/// use pronk_rollout::{CartPole, Env, EnvContext, EnvError, EnvFactory, VectorContext, CallMonitor};
///
/// fn n_envs(factory: impl EnvFactory) -> usize {
///     let context = VectorContext { worker: 1, incarnation: 0, first_env: 0, seed: 0 };
///     factory.make_vector(&context, 4, &CallMonitor::new()).map_or(0, |envs| envs.n_envs())
/// }
/// assert_eq!(n_envs(|_: &EnvContext| CartPole::new()), 4);
///
/// fn make(context: &EnvContext) -> Result<Box<dyn Env>, EnvError> {
///     match context.index {
///         0..8 => Ok(Box::new(CartPole::new())),
///         _ => Err(EnvError::new("only eight licences")),
///     }
/// }
/// assert_eq!(n_envs(make), 4);
/// ```
pub trait EnvFactory: Send + Sync {
    /// Makes the environments of one worker.
    ///
    /// `monitor` is where a vector environment says which of them it makes, or calls later, so that one that hangs can be named,
    /// and is not taken for hanging while others are made. One that says nothing is known only by its worker. It is also where the
    /// time is written down that they spend in other processes, and where they leave what takes its time to end.
    ///
    /// # Errors
    /// The environment that could not be made, and why.
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure>;

    /// The same environments as tasks, if each waits for something by itself: [`AsyncEnvs`](crate::AsyncEnvs) are such.
    fn tasks(&self) -> Option<EnvTasks> {
        None
    }
}

impl<F, M> EnvFactory for F
where
    F: Fn(&EnvContext) -> M + Send + Sync,
    M: IntoEnv,
    M::Env: 'static,
{
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        let envs = SerialVectorEnv::new(context, n_envs, monitor, |context| self(context).into_env())?;
        Ok(Box::new(envs))
    }
}

/// The spec of a factory's environments, found out by making one as worker 0 and dropping it again.
///
/// # Errors
/// When the environment cannot be made.
///
/// ```
/// use pronk_rollout::{CartPole, EnvContext, probe_spec};
///
/// let spec = probe_spec(&|_: &EnvContext| CartPole::new(), 0).expect("CartPole can be made");
/// assert_eq!(spec.name, "CartPole-v1");
/// ```
pub fn probe_spec(factory: &dyn EnvFactory, seed: u64) -> Result<EnvSpec, EnvFailure> {
    let context = VectorContext { worker: 0, incarnation: 0, first_env: 0, seed };
    let envs = catch(|| factory.make_vector(&context, 1, &CallMonitor::new()))
        .map_err(|text| context.failure_to_make(EnvFailureCause::Panic(text)))??;
    Ok(envs.spec().clone())
}
