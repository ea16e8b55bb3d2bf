//! Environments that wrap another one and change one thing about it.

mod chaos;
mod observations;
mod rewards;
#[cfg(test)]
mod tests;
mod time_limit;

pub use chaos::{Chaos, ChaosConfig};
pub use observations::TransformObservation;
pub use rewards::{ClipReward, TransformReward};
pub use time_limit::TimeLimit;
