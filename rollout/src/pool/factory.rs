//! How environments are built: any closure is a factory.

use pronk_metrics::catch;

use crate::env::{
    CallMonitor, EnvContext, EnvError, EnvFailure, EnvFailureCause, EnvPurpose, EnvSpec, FailurePlace, IntoEnv,
    VectorContext,
};
use crate::pool::EnvTasks;
use crate::vector::{SerialVectorEnv, VectorEnv};

/// Builds the environments of every worker. Any closure from [`&EnvContext`](EnvContext) to an
/// [`Env`](crate::Env), or to a `Result` of one, is a factory, whose environments a [`SerialVectorEnv`]
/// steps. Implement the trait for other vector environments. Several workers may call it at the same time.
///
/// ```
/// use pronk_rollout::{CartPole, Env, EnvContext, EnvError, EnvFactory, VectorContext, CallMonitor};
///
/// fn n_envs(factory: impl EnvFactory) -> usize {
///     let context = VectorContext { worker: 1, ..VectorContext::default() };
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
    /// Builds the environments of one worker.
    ///
    /// A vector environment reports its calls to `monitor`, so that a hang can be attributed to an
    /// environment. The monitor also gives access to the time ledger, for time in other processes, and to the
    /// reaper, for slow cleanup.
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure>;

    /// The same environments, of which [`VectorEnv::render`] is asked for frames; by default those of
    /// [`make_vector`](Self::make_vector). For simulators that need to know it before they start.
    fn make_vector_to_render(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        self.make_vector(context, n_envs, monitor)
    }

    /// The same environments as tasks, if they are asynchronous: see [`AsyncEnvs`](crate::AsyncEnvs).
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

/// The spec of a factory's environments, from one that is built as worker 0 and dropped again.
///
/// ```
/// use pronk_rollout::{CartPole, EnvContext, probe_spec};
///
/// let spec = probe_spec(&|_: &EnvContext| CartPole::new(), 0).expect("CartPole can be built");
/// assert_eq!(spec.name, "CartPole-v1");
/// ```
pub fn probe_spec(factory: &dyn EnvFactory, seed: u64) -> Result<EnvSpec, EnvFailure> {
    let context = VectorContext { seed, purpose: EnvPurpose::Probe, ..VectorContext::default() };
    Ok(build_vector(factory, &context, 1, &CallMonitor::new())?.spec().clone())
}

/// Builds `n_envs` environments; a panic of the factory is reported as a failure to build.
pub(crate) fn build_vector(
    factory: &dyn EnvFactory,
    context: &VectorContext,
    n_envs: usize,
    monitor: &CallMonitor,
) -> Result<Box<dyn VectorEnv>, EnvFailure> {
    monitor.at(0, FailurePlace::Make);
    let _inside = monitor.enter(context.incarnation);
    // User code, down to the methods that say what was built.
    let built = catch(|| {
        let envs = factory.make_vector(context, n_envs, monitor)?;
        let (_spec, n_built) = (envs.spec(), envs.n_envs());
        Ok((envs, n_built))
    });
    let (envs, n_built) = built.unwrap_or_else(|text| Err(context.failure_to_make(EnvFailureCause::Panic(text))))?;
    if n_built == n_envs {
        return Ok(envs);
    }
    let text = format!("the factory was asked for {n_envs} environments and built {n_built}");
    Err(context.failure_to_make(EnvFailureCause::Error(EnvError::new(text))))
}
