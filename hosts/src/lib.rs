//! How does experience come from other machines?
//!
//! An actor is a host with workers of its own; its threads carry fragments to the learner and fetch weights
//! from it, over any engine that implements [`Link`].

mod frame;
mod link;

pub use bytes::Bytes;
pub use link::{CallError, Desk, Dial, Link, LinkError, Listen, Listening, Op, Reply, Request};
