//! The learner's side: hosts join, their fragments arrive, and weights are handed out.

mod account;
mod desk;
mod hosts;
mod inlet;
mod keeper;
mod reported;
mod session;
mod shelf;
mod times;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;

pub use hosts::{HostEdges, HostStatus, Hosts, HostsConfig, HostsStatus, OpenError};
pub use inlet::InletState;
pub use keeper::KeeperState;
