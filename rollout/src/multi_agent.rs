//! Environments with several agents, each of which plays a policy.

mod agents;
mod check;
mod env;
mod envs;
mod factory;
mod mapping;
mod worker;

pub use agents::Agents;
pub use check::check_multi_agent_env;
pub use env::{AgentSpec, MultiAgentEnv, MultiAgentSpec};
pub use factory::{IntoMultiAgentEnv, MultiAgentFactory, probe_multi_agent_spec};
pub use mapping::{MappingError, PolicyMapping};
pub use worker::{MultiAgentWorker, MultiAgentWorkerConfig, WorkerPolicy};

#[cfg(test)]
pub(crate) use envs::Slot;
