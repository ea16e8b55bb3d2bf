//! How environments that step together are made, at first and after a failure.

use crate::env::{EnvFailure, EnvSpec, VectorContext};
use crate::pool::{EnvFactory, build_vector};
use crate::vector::VectorEnv;
use crate::worker::account::Account;
use crate::worker::any_env_spec::AnyEnvSpec;
use crate::worker::config::{WorkerConfig, WorkerLinks};
use crate::worker::error::SampleError;

/// The environments of the next incarnation, in place of those that failed.
pub(super) fn rebuild(
    config: &WorkerConfig,
    factory: &dyn EnvFactory,
    spec: &EnvSpec,
    account: &mut Account,
) -> Result<Box<dyn VectorEnv>, SampleError> {
    let incarnation = account.begin_incarnation();
    let envs = build(config, incarnation, factory, &account.links)?;
    let (was, now) = (AnyEnvSpec::Single(spec.clone()), AnyEnvSpec::Single(envs.spec().clone()));
    was.check_rebuilt(&now, &context(config, incarnation))?;
    Ok(envs)
}

/// The environments of an incarnation.
pub(super) fn build(
    config: &WorkerConfig,
    incarnation: u32,
    factory: &dyn EnvFactory,
    links: &WorkerLinks,
) -> Result<Box<dyn VectorEnv>, EnvFailure> {
    let context = context(config, incarnation);
    let mut envs = build_vector(factory, &context, config.num_envs_per_worker.get(), &links.monitor)?;
    if links.saves_envs {
        envs.keep_for_save();
    }
    Ok(envs)
}

fn context(config: &WorkerConfig, incarnation: u32) -> VectorContext {
    VectorContext { worker: config.worker, incarnation, seed: config.seed, ..VectorContext::default() }
}
