use std::future::Future;

use tokio::runtime::Runtime;

use crate::env::{ActionRef, AsyncEnv, Env, EnvError, EnvSpec, ObsMut, Step};

/// An asynchronous environment whose calls block the caller's thread.
pub(crate) struct Blocking<E> {
    env: E,
    runtime: Runtime,
}

impl<E: AsyncEnv> Blocking<E> {
    pub(super) fn new<M: Future<Output = Result<E, EnvError>>>(make: impl FnOnce() -> M) -> Result<Self, EnvError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(EnvError::new)?;
        // Connections belong to the runtime that they are opened in.
        let env = runtime.block_on(async { make().await })?;
        Ok(Self { env, runtime })
    }
}

impl<E: AsyncEnv> Env for Blocking<E> {
    fn spec(&self) -> EnvSpec {
        self.env.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.runtime.block_on(self.env.reset(seed, obs))
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.runtime.block_on(self.env.step(action, obs))
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        self.env.action_mask(mask)
    }
}
