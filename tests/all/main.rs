//! Whole runs: every room together, on real environments.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod async_envs;
mod axes;
mod bad_input;
mod bottleneck;
mod bytes;
mod candle_models;
mod checkpoints;
mod crash;
mod deterministic;
mod deterministic_normalized;
mod devices;
mod evaluation;
mod failures;
mod fixtures;
mod gates;
#[cfg(feature = "env-process")]
mod gymnasium;
mod hangs;
mod hosts;
#[cfg(feature = "hosts-zenoh")]
mod hosts_zenoh;
mod learning;
mod ledgers;
mod limits;
mod lives;
mod multi_agent;
mod normalized;
mod own_algorithm;
mod own_network;
mod precision;
#[cfg(feature = "env-process")]
mod processes;
mod replays;
mod reproducible;
mod result_dict;
mod resume;
mod resume_exact;
#[cfg(unix)]
mod signals;
mod sinks;
mod what_is_left;

#[path = "../../examples/cartpole/config.rs"]
mod cartpole;
#[path = "../../examples/cartpole/measure.rs"]
mod measure;
#[path = "../../examples/async_env/remote.rs"]
mod remote;
