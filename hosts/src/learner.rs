//! The learner's side: hosts join, their fragments arrive, and weights are handed out.

mod account;
mod desk;
mod hosts;
mod inlet;
mod keeper;
mod session;
mod shelf;
mod times;

pub use hosts::{HostEdges, HostStatus, Hosts, HostsConfig, HostsStatus, OpenError};
pub use inlet::InletState;
pub use keeper::KeeperState;
