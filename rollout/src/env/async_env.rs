use std::future::Future;

use super::error::EnvError;
use super::single_agent::Step;
use super::spec::EnvSpec;
use super::views::{ActionRef, ObsMut};

/// An [`Env`](crate::Env) whose steps are awaited, because a server, a device or another process makes them.
/// A call that hangs, or outlasts the run, is cancelled: its future and the environment are dropped. No call
/// may block its thread. [`AsyncEnvs`](crate::AsyncEnvs) makes a factory of them, and has an example.
pub trait AsyncEnv: Send {
    /// As [`Env::spec`](crate::Env::spec).
    fn spec(&self) -> EnvSpec;

    /// As [`Env::reset`](crate::Env::reset). After an error the environment is dropped, and rebuilt after a
    /// pause.
    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> impl Future<Output = Result<(), EnvError>> + Send;

    /// As [`Env::step`](crate::Env::step). Errors as [`reset`](Self::reset).
    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> impl Future<Output = Result<Step, EnvError>> + Send;

    /// As [`Env::action_mask`](crate::Env::action_mask), without waiting. Errors as [`reset`](Self::reset).
    fn action_mask(&self, _mask: &mut [bool]) -> Result<(), EnvError> {
        Ok(())
    }
}

/// What a closure of [`AsyncEnvs`](crate::AsyncEnvs) may return: an environment, or a `Result` of one.
pub trait IntoAsyncEnv: Send {
    /// The environment.
    type Env: AsyncEnv;

    /// The environment, or the closure's error.
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
