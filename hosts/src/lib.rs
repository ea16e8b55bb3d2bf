//! How does experience come from other machines?
//!
//! An actor is a host with workers of its own; its threads carry fragments to the learner and fetch weights
//! from it, over any engine that implements [`Link`].

mod actor;
mod actor_states;
mod ask;
mod frame;
mod learner;
mod link;
mod memory;
#[cfg(all(test, pronk_model))]
#[allow(clippy::unwrap_used)]
mod models;
mod pull;
mod relay;
mod shelf;
mod sync;
mod terms;
mod weights;
mod wire;

pub use bytes::Bytes;

pub use actor::{Act, Actor, ActorEdges, Entered, JoinError, Layouts, Left, Member, Stay};
pub use actor_states::{BeatState, CourierState, FetchState};
#[doc(hidden)] // for benches
pub use frame::{Decoder, Encoder, FrameError, Sender};
pub use frame::{Expected, ExpectedError, ExpectedPolicy, Pixels};
pub use learner::{HostEdges, HostStatus, Hosts, HostsConfig, HostsStatus, InletState, KeeperState, OpenError};
pub use link::{CallError, Desk, Dial, Limits, Link, LinkError, Listen, Listening, Op, Reply, Request};
pub use memory::{MemoryNetwork, Toll};
pub use relay::{Relay, RelayError, RelayStatus};
pub use terms::{Terms, TermsError};
pub use wire::{Facts, Over, PROTOCOL, Refusal, Welcome, WireError};
