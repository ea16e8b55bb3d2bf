use std::sync::Arc;

use super::config::GatheringWorkerConfig;
use crate::env::VectorContext;
use crate::pool::{EnvFactory, EnvPool, PoolConfig, TaskPool, ThreadedPool};
use crate::worker::{BuildError, WorkerConfig, WorkerLinks};

/// Starts a thread for each group of environments, or one for all of them if they are tasks.
/// Errors: the environment that could not be built, or an impossible number of groups.
pub(super) fn start_groups(
    config: &GatheringWorkerConfig,
    factory: Arc<dyn EnvFactory>,
    links: &WorkerLinks,
) -> Result<Box<dyn EnvPool>, BuildError> {
    let GatheringWorkerConfig { worker: of_worker, num_env_groups, env_hang_timeout, .. } = *config;
    let WorkerConfig { worker, incarnation, seed, .. } = of_worker;
    let (n_envs, n_groups) = (of_worker.num_envs_per_worker.get(), num_env_groups.get());
    if !n_envs.is_multiple_of(n_groups) {
        return Err(BuildError::UnequalGroups { num_envs_per_worker: n_envs, num_env_groups: n_groups });
    }
    let config = PoolConfig {
        context: VectorContext { worker, incarnation, seed, ..VectorContext::default() },
        n_groups,
        group_size: n_envs / n_groups,
        env_hang_timeout,
        saves_envs: links.saves_envs,
    };
    match factory.tasks() {
        None => Ok(Box::new(ThreadedPool::new(config, factory, &links.token, &links.monitor)?)),
        Some(_) if n_groups > 1 => Err(BuildError::GroupsOfTasks { num_env_groups: n_groups }),
        Some(tasks) => {
            let config = PoolConfig { n_groups: n_envs, group_size: 1, ..config };
            Ok(Box::new(TaskPool::new(config, tasks, (&links.token, links.monitor.time()))?))
        }
    }
}
