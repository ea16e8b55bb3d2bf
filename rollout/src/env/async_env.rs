use std::future::Future;

use super::error::EnvError;
use super::single_agent::Step;
use super::spec::EnvSpec;
use super::views::{ActionRef, ObsMut};

/// An environment whose steps are awaited, because a server, a device or another process makes them.
///
/// It keeps the rules of an [`Env`](crate::Env), and its thread does other work while it waits. A call that
/// is no longer wanted, because it hangs or the run ends, is cancelled: its future is dropped at an await
/// point, and so is the environment. No call may block its thread.
///
/// [`AsyncEnvs`](crate::AsyncEnvs) makes a factory of them, and has an example.
pub trait AsyncEnv: Send {
    /// As [`Env::spec`](crate::Env::spec).
    fn spec(&self) -> EnvSpec;

    /// As [`Env::reset`](crate::Env::reset).
    ///
    /// # Errors
    /// Anything the environment cannot recover from; it is then dropped, and rebuilt after a pause.
    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> impl Future<Output = Result<(), EnvError>> + Send;

    /// As [`Env::step`](crate::Env::step).
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> impl Future<Output = Result<Step, EnvError>> + Send;

    /// As [`Env::action_mask`](crate::Env::action_mask), without waiting: from the last step or reset.
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    fn action_mask(&self, _mask: &mut [bool]) -> Result<(), EnvError> {
        Ok(())
    }
}

/// What a closure of [`AsyncEnvs`](crate::AsyncEnvs) may return: an environment, or a `Result` of one.
pub trait IntoAsyncEnv: Send {
    /// The environment.
    type Env: AsyncEnv;

    /// The environment.
    ///
    /// # Errors
    /// The error that the closure returned.
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
