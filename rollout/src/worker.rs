//! How is a fragment made?

mod account;
mod config;
mod error;
mod fragment_worker;
mod gathering;
mod lockstep;
mod multi_agent;
mod restart;
mod sampler;

pub(crate) use config::SHUTDOWN;
pub use config::{WorkerConfig, WorkerLinks, WorkerState};
pub use error::{BuildError, SampleError};
pub use gathering::{GatheringWorker, GatheringWorkerConfig};
pub use lockstep::RolloutWorker;
pub use multi_agent::{MultiAgentWorker, MultiAgentWorkerConfig};
pub use restart::RestartPolicy;
pub use sampler::{AnyEnvSpec, MakeSampler, Sampler, WorkerSeat};
