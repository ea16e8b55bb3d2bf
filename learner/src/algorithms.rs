//! The algorithms, and what they share.

pub(crate) mod appo;
pub(crate) mod impala;
pub(crate) mod ppo;

mod choice;
mod kl;
mod off_policy;
mod on_batch;
mod settings;
pub(crate) mod surrogate;
pub(crate) mod targets;

pub use choice::AlgorithmConfig;
pub use kl::KlCoeff;
pub use off_policy::OffPolicyStats;
