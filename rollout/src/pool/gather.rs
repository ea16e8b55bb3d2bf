//! How many groups does a policy wait for?

mod adaptive;
mod rule;

pub(crate) use adaptive::AdaptiveGather;

pub use rule::{Arrivals, Gather};
