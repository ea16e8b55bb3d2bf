//! What the two ends promise, over the loopback of this machine.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod calls;
mod certificates;
mod fixtures;
mod limits;
mod refusals;
mod stalled;
