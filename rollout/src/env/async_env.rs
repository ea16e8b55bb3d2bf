use std::future::Future;

use super::error::EnvError;
use super::single_agent::Step;
use super::spec::EnvSpec;
use super::views::{ActionRef, ObsMut};

/// An environment whose steps are waited for: what it does is asked of a server, a device, another process.
///
/// It keeps the rules of an [`Env`](crate::Env), and while it waits its thread does something else. A call that is no longer
/// wanted, because the environment was silent for too long or the run ends, is cancelled: its future is dropped where it waits,
/// and so is the environment. Nothing it does may block its thread, as a read from a blocking socket would.
///
/// [`AsyncEnvs`](crate::AsyncEnvs) makes a factory of them, and has an example.
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

/// What a closure of [`AsyncEnvs`](crate::AsyncEnvs) may give: an environment, or a `Result` of one.
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
