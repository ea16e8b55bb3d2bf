//! How are environments built, and how do they step elsewhere: on threads, or as tasks?

mod async_envs;
mod blocking;
mod env_pool;
mod factory;
mod gather;
mod hang;
mod multi_agent;
mod pool_vector_env;
mod step;
mod tasks;
mod threaded_pool;
mod vectorised;

pub use async_envs::AsyncEnvs;
pub use env_pool::EnvThreadState;
pub(crate) use env_pool::{CLOSE_WITHIN, EnvPool, PoolConfig};
pub(crate) use factory::build_vector;
pub use factory::{EnvFactory, probe_spec};
pub(crate) use gather::AdaptiveGather;
pub use gather::{Arrivals, Gather};
pub(crate) use hang::{HangChecks, Waited};
pub(crate) use multi_agent::make_envs;
pub use multi_agent::{MultiAgentFactory, probe_multi_agent_spec};
pub(crate) use step::{Answer, GroupFailure, GroupPosition, GroupStep, Order};
pub use tasks::EnvTasks;
pub(crate) use tasks::{MakeTask, TaskPool, TaskSlot};
pub(crate) use threaded_pool::ThreadedPool;
pub use vectorised::Vectorised;
