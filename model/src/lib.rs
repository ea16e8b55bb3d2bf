//! Threads, locks, channels and clocks under a checker of interleavings.
//!
//! pronk's protocols run on [`shuttle`] when they are compiled with `--cfg pronk_model`: the file `sync.rs`
//! of each room then takes its primitives from here instead of from `std`, `crossbeam_channel` and
//! `arc_swap`. All threads of a model are coroutines of one thread, and a schedule says which of them goes on
//! at each of their operations on a lock, an atomic or a channel. [`check`] tries many schedules at random,
//! [`exhaust`] all of them. A deadlock is an error, and a panic names the schedule that led to it.
//!
//! # Time
//!
//! There is no time in a model but that of [`time::Instant`], which moves when a wait times out. Any wait
//! with a time limit may run into it whenever the scheduler likes, if it is shorter than [`time::FOREVER`];
//! one that is longer never does. So a test that waits [`time::FOREVER`] says that something must happen, and
//! any other limit that it may come too late.
//!
//! # Limits
//!
//! Atomics are sequentially consistent here, so what an ordering allows beyond that is not tried. loom tries
//! it, in `tests/orderings`.
#![forbid(unsafe_code)]

pub mod channel;
mod explore;
pub mod sync;
pub mod thread;
pub mod time;

pub use explore::{check, exhaust, replay, sometimes};
pub use shuttle::future::block_on;
pub use shuttle::rand;
