//! For how many environments that step elsewhere does a policy wait?

mod adaptive;
mod rule;

pub(crate) use adaptive::AdaptiveGather;

pub use rule::{Arrivals, Gather};
