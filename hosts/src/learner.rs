//! The learner's side: hosts join, their fragments arrive, and weights are handed out.

mod account;
mod desk;
mod hosts;
mod inlet;
mod keeper;
mod members;
mod reported;
mod session;
mod store;
mod times;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;

pub use hosts::{HostEdges, HostStatus, Hosts, HostsConfig, HostsStatus, OpenError};
pub use inlet::InletState;
pub use keeper::KeeperState;
#[cfg(test)]
pub(crate) use store::Store;
