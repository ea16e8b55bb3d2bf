//! What the library says while a run goes on: on the terminal, and in `log.txt`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

/// The file in the folder of a run.
pub(crate) const LOG: &str = "log.txt";

/// The least severe messages that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// Adds them to the file at `path`, with the time and the part of the library that says them.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn to_file<S: Subscriber + for<'span> LookupSpan<'span>>(
    path: &Path,
    least: Severity,
) -> io::Result<impl Layer<S> + use<S>> {
    let file = File::options().create(true).append(true).open(path)?;
    Ok(messages(fmt::layer().with_ansi(false).with_writer(Mutex::new(file)), least.filter()))
}

/// Prints warnings and errors to the standard error.
pub(crate) fn to_terminal<S: Subscriber + for<'span> LookupSpan<'span>>() -> impl Layer<S> {
    let lines = fmt::layer().with_ansi(false).without_time().with_target(false).with_writer(io::stderr);
    messages(lines, LevelFilter::WARN)
}

/// Spans are for the timers and the timeline: what they hold is formatted for nothing here.
fn messages<S: Subscriber + for<'span> LookupSpan<'span>>(layer: impl Layer<S>, least: LevelFilter) -> impl Layer<S> {
    layer.with_filter(filter_fn(move |metadata| metadata.is_event() && *metadata.level() <= least))
}

impl Severity {
    fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}
