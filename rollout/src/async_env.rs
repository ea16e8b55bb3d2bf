//! Environments that wait for something outside of the process, a network above all: thousands of them on one thread.

mod blocking;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pronk_buffer::Pool;
use pronk_metrics::StepLedger;

use crate::check_env::{EnvCheckError, EnvFault, check_env};
use crate::env::{ActionRef, EnvError, EnvSpec, ObsMut, Step};
use crate::factory::{EnvContext, EnvFactory, VectorContext};
use crate::failure::EnvFailure;
use crate::groups::{GroupsConfig, Seat, TaskGroups, play};
use crate::normalize::Normalizer;
use crate::vector::{JoinedVectorEnv, VectorEnv};
use crate::watch::Watch;
use crate::worker::WorkerLinks;

use blocking::Blocking;

/// An environment whose steps are waited for: what it does is asked of a server, a device, another process.
///
/// It keeps the rules of an [`Env`](crate::Env), and while it waits its thread does something else. A call that is no longer
/// wanted, because the environment was silent for too long or the run ends, is cancelled: its future is dropped where it waits,
/// and so is the environment. Nothing it does may block its thread, as a read from a blocking socket would.
///
/// [`AsyncEnvs`] makes a factory of them, and has an example.
pub trait AsyncEnv: Send {
    /// As [`Env::spec`](crate::Env::spec).
    fn spec(&self) -> EnvSpec;

    /// As [`Env::reset`](crate::Env::reset).
    ///
    /// # Errors
    /// Whatever the environment cannot recover from; it is dropped then, and made anew after a pause.
    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> impl Future<Output = Result<(), EnvError>> + Send;

    /// As [`Env::step`](crate::Env::step).
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> impl Future<Output = Result<Step, EnvError>> + Send;

    /// As [`Env::action_mask`](crate::Env::action_mask): what the last step or reset has said, for this is not waited for.
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    fn action_mask(&self, _mask: &mut [bool]) -> Result<(), EnvError> {
        Ok(())
    }
}

/// A factory of environments that are waited for, from any closure that makes one: `async` itself, as a connection has to be
/// waited for too. `E` or a `Result` of it is what the closure's future gives.
///
/// All environments of a worker are tasks of one thread, `rollout-1-tasks`, in a tokio runtime with its timers and whatever
/// drivers your build of tokio has. Each is a group by itself for [`Gather`](crate::Gather): set it to
/// [`AtLeast`](crate::Gather::AtLeast) or [`Within`](crate::Gather::Within), or the policy waits for the slowest of them in every
/// step. One that fails, or is silent for `env_hang_timeout`, is dropped and made anew after a pause, and nobody else waits; each
/// time counts towards `max_num_worker_restarts`, so set that higher than the number of environments that may lose their server at
/// once. One that blocks the thread takes the others of its worker down with it: they are all made anew on another thread.
///
/// As an [`EnvFactory`] elsewhere, in an evaluation say, it makes environments that all wait for each other.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_policy::Space;
/// use pronk_rollout::{ActionRef, AsyncEnv, AsyncEnvs, End, EnvContext, EnvError, EnvSpec, ObsMut, Step};
///
/// /// A lamp somewhere else, to be switched on.
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
    /// Makes a factory of a closure that makes one environment.
    pub fn new(make: F) -> Self {
        Self { make: Arc::new(make) }
    }

    /// Makes an environment and holds it against the rules, as [`check_env`] does with others.
    ///
    /// *Blocks* until the environment has played a few episodes; not to be called in asynchronous code.
    ///
    /// # Errors
    /// The rule that is broken, and where.
    pub fn check(&self, seed: u64) -> Result<(), EnvCheckError> {
        let context = VectorContext { worker: 0, incarnation: 0, first_env: 0, seed }.env(0);
        let make = async || (self.make)(context).await.into_async_env();
        let env = Blocking::new(make).map_err(|error| EnvCheckError::of_spec("", EnvFault::Error(error)))?;
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
        _watch: &Watch,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        let (lifeline, tether) = pronk_buffer::lifeline();
        let config = GroupsConfig { context: *context, n_groups: n_envs, group_size: 1, env_hang_timeout: None };
        let tasks = EnvTasks { make: Arc::new(self.clone()), normalizer: None };
        let links = WorkerLinks::new(Pool::new(0), StepLedger::new(), tether);
        let groups = TaskGroups::new(config, tasks, &links)?;
        Ok(Box::new(JoinedVectorEnv::new(*context, Box::new(groups), lifeline)))
    }

    fn tasks(&self) -> Option<EnvTasks> {
        Some(EnvTasks { make: Arc::new(self.clone()), normalizer: None })
    }
}

/// What a closure of [`AsyncEnvs`] may give: an environment, or a `Result` of one.
pub trait IntoAsyncEnv: Send {
    /// The environment.
    type Env: AsyncEnv;

    /// The environment, or why there is none.
    ///
    /// # Errors
    /// What the closure gave.
    fn into_async_env(self) -> Result<Self::Env, EnvError>;
}

impl<E: AsyncEnv> IntoAsyncEnv for E {
    type Env = E;

    fn into_async_env(self) -> Result<E, EnvError> {
        Ok(self)
    }
}

impl<E: AsyncEnv> IntoAsyncEnv for Result<E, EnvError> {
    type Env = E;

    fn into_async_env(self) -> Result<E, EnvError> {
        self
    }
}

/// Environments that are tasks, of whatever type: what [`EnvFactory::tasks`] gives.
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

impl<F, M, W> MakeTask for AsyncEnvs<F>
where
    F: Fn(EnvContext) -> W + Send + Sync + 'static,
    W: Future<Output = M> + Send + 'static,
    M: IntoAsyncEnv,
    M::Env: 'static,
{
    fn task(&self, seat: Seat) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let make = Arc::clone(&self.make);
        Box::pin(play(seat, move |context| {
            let make = Arc::clone(&make);
            async move { make(context).await.into_async_env() }
        }))
    }
}
