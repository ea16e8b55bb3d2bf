//! How is a fragment made?

mod account;
mod any_env_spec;
mod config;
mod error;
mod gathering;
mod lockstep;
mod multi_agent;
mod normalization;
mod restart;
mod rollout_worker;
mod seat_state;

pub use account::Collected;
pub(crate) use account::NOT_TRAINED;
pub use any_env_spec::AnyEnvSpec;
pub(crate) use config::SHUTDOWN;
pub use config::{WorkerConfig, WorkerLinks, WorkerSeat, WorkerState};
pub use error::{BuildError, SampleError};
pub use gathering::GatheringWorkerConfig;
pub use multi_agent::MultiAgentWorkerConfig;
pub use normalization::{NormalizerConfig, obs_normalizer};
pub use restart::RestartPolicy;
pub use rollout_worker::{MakeWorker, RolloutWorker};
pub use seat_state::SeatState;
