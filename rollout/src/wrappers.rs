//! Wrappers: an environment around another one, that changes one thing about it.

mod chaos;
mod observations;
mod rewards;
mod time_limit;

pub use chaos::{Chaos, ChaosConfig};
pub use observations::TransformObservation;
pub use rewards::{ClipReward, TransformReward};
pub use time_limit::TimeLimit;

#[cfg(test)]
mod tests;
