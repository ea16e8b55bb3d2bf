//! Prints what pronk logs about hosts: who joined, who was not let in, who was lost, and why.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Prints to the standard error, from now on.
pub(crate) fn log() {
    let of_pronk = Targets::new().with_target("pronk", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::io::stderr);
    // Only once in a process.
    let _ = tracing_subscriber::registry().with(lines.with_filter(of_pronk)).try_init();
}
