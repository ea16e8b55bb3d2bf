//! How is a fragment made?

mod actor;
mod config;
mod error;
mod gathering;
mod multi_agent;
mod restart;
mod rollout;
mod sampler;

pub(crate) use config::SHUTDOWN;
pub use config::{WorkerConfig, WorkerLinks, WorkerState};
pub use error::{BuildError, SampleError};
pub use gathering::{GatheringWorker, GatheringWorkerConfig};
pub use multi_agent::{MultiAgentWorker, MultiAgentWorkerConfig};
pub use restart::RestartPolicy;
pub use rollout::RolloutWorker;
pub use sampler::{AnyEnvSpec, MakeSampler, Sampler, WorkerSeat};
