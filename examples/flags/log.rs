//! Lines of what pronk logs about hosts: who joined, who was not let in, who was lost, and why.

use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

/// Prints them to the standard error.
pub(crate) fn lines<S: Subscriber + for<'span> LookupSpan<'span>>() -> impl Layer<S> {
    let of_pronk = Targets::new().with_target("pronk", LevelFilter::INFO);
    tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::io::stderr).with_filter(of_pronk)
}
