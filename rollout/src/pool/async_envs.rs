//! Asynchronous environments, which wait for a network for instance: thousands of them on one thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pronk_metrics::TimeLedger;

use super::blocking::Blocking;
use super::env_pool::PoolConfig;
use super::factory::EnvFactory;
use super::pool_vector_env::PoolVectorEnv;
use crate::check::{EnvCheckError, check_env};
use crate::env::{CallMonitor, EnvContext, EnvFailure, EnvFailureCause, EnvPurpose, IntoAsyncEnv, VectorContext};
use crate::pool::tasks::play;
use crate::pool::{EnvTasks, MakeTask, TaskPool, TaskSlot};
use crate::vector::VectorEnv;

/// A factory of asynchronous environments from an `async` closure, whose future resolves to an
/// [`AsyncEnv`](crate::AsyncEnv) or a `Result` of one.
///
/// All environments of a worker are tasks of one thread, `rollout-1-tasks`, in a tokio runtime. Each is a
/// group for [`Gather`](crate::Gather): set that to [`AtLeast`](crate::Gather::AtLeast) or
/// [`Within`](crate::Gather::Within), or every step waits for the slowest, as in an evaluation. An
/// environment that fails, or whose call exceeds `env_hang_timeout`, is rebuilt after a pause while the
/// others continue; each rebuild counts towards `max_num_worker_restarts`. One that blocks the thread costs
/// all environments of its worker, which are rebuilt on a new thread.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_policy::Space;
/// use pronk_rollout::{ActionRef, AsyncEnv, AsyncEnvs, End, EnvContext, EnvError, EnvSpec, ObsMut, Step};
///
/// /// A lamp on the network, to be switched on.
/// struct Lamp {
///     address: String,
/// }
///
/// impl Lamp {
///     async fn connect(address: String) -> Result<Self, EnvError> {
///         tokio::time::sleep(Duration::from_millis(1)).await;
///         Ok(Self { address })
///     }
/// }
///
/// impl AsyncEnv for Lamp {
///     fn spec(&self) -> EnvSpec {
///         EnvSpec {
///             name: "Lamp".into(),
///             observation: Space::boxed(vec![0.0], vec![1.0], vec![1]).expect("low <= high"),
///             action: Space::discrete(2).expect("two actions"),
///             max_episode_steps: Some(10),
///             action_mask: false,
///         }
///     }
///
///     async fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
///         obs.write(&[0.0])
///     }
///
///     async fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
///         let switch = action.discrete()?;
///         tokio::time::sleep(Duration::from_millis(1)).await;
///         obs.write(&[switch as f32])?;
///         Ok(Step { reward: switch as f32, end: if switch == 1 { End::Terminated } else { End::No } })
///     }
/// }
///
/// let lamps = AsyncEnvs::new(|context: EnvContext| Lamp::connect(format!("10.0.0.{}", context.index)));
/// lamps.check(0)?;
/// # Ok::<(), pronk_rollout::EnvCheckError>(())
/// ```
pub struct AsyncEnvs<F> {
    make: Arc<F>,
}

impl<F, M, W> AsyncEnvs<F>
where
    F: Fn(EnvContext) -> W + Send + Sync + 'static,
    W: Future<Output = M> + Send + 'static,
    M: IntoAsyncEnv,
    M::Env: 'static,
{
    /// A factory from a closure that builds one environment.
    pub fn new(make: F) -> Self {
        Self { make: Arc::new(make) }
    }

    /// Builds an environment and checks it as [`check_env`] does. *Blocks* for a few episodes; do not call it
    /// from async code.
    pub fn check(&self, seed: u64) -> Result<(), EnvCheckError> {
        let context = VectorContext { seed, purpose: EnvPurpose::Probe, ..VectorContext::default() }.env(0);
        let make = async || (self.make)(context).await.into_async_env();
        let env =
            Blocking::new(make).map_err(|error| EnvCheckError::of_spec("", EnvFailureCause::Error(error).into()))?;
        check_env(env, seed)
    }
}

impl<F> fmt::Debug for AsyncEnvs<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncEnvs").finish_non_exhaustive()
    }
}

impl<F> Clone for AsyncEnvs<F> {
    fn clone(&self) -> Self {
        Self { make: Arc::clone(&self.make) }
    }
}

impl<F, M, W> EnvFactory for AsyncEnvs<F>
where
    F: Fn(EnvContext) -> W + Send + Sync + 'static,
    W: Future<Output = M> + Send + 'static,
    M: IntoAsyncEnv,
    M::Env: 'static,
{
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        _monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        let (shutdown, token) = pronk_buffer::shutdown();
        let context = *context;
        let config = PoolConfig { context, n_groups: n_envs, group_size: 1, env_hang_timeout: None, saves_envs: false };
        let tasks = EnvTasks { make: Arc::new(self.clone()) };
        let groups = TaskPool::new(config, tasks, (&token, &TimeLedger::new()))?;
        Ok(Box::new(PoolVectorEnv::new(context, Box::new(groups), shutdown)))
    }

    fn tasks(&self) -> Option<EnvTasks> {
        Some(EnvTasks { make: Arc::new(self.clone()) })
    }
}

impl<F, M, W> MakeTask for AsyncEnvs<F>
where
    F: Fn(EnvContext) -> W + Send + Sync + 'static,
    W: Future<Output = M> + Send + 'static,
    M: IntoAsyncEnv,
    M::Env: 'static,
{
    fn task(&self, slot: TaskSlot) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let make = Arc::clone(&self.make);
        Box::pin(play(slot, move |context| {
            let make = Arc::clone(&make);
            async move { make(context).await.into_async_env() }
        }))
    }
}
