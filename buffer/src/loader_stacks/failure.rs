use std::any::Any;
use std::error::Error;
use std::io;
use std::time::Duration;

/// A loader thread that failed: its name, what it was doing, and why.
#[derive(Debug, thiserror::Error)]
#[error("thread `{thread}` {cause} (it was in state `{state}`); the other loaders end with it")]
pub struct LoaderFailure {
    /// Name of the thread.
    pub thread: String,
    /// The state it was in, as the time ledger names it.
    pub state: &'static str,
    /// What happened.
    pub cause: LoaderCause,
}

/// What happened to a loader thread.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoaderCause {
    /// The loader could not be made.
    #[error("could not make its loader: {0}")]
    NotMade(#[source] Box<dyn Error + Send + Sync>),
    /// The loader could not load a batch.
    #[error("could not load a batch: {0}")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// The loader, or the source of batches, panicked.
    #[error("panicked: {0}")]
    Panicked(String),
}

/// Why loader threads could not start or end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoaderError {
    /// There are no stacks.
    #[error("there are no stacks to load into: `num_multi_gpu_tower_stacks` must be at least 1")]
    NoStacks,
    /// The operating system refused a thread.
    #[error(
        "thread `{thread}` could not be started: {source}; lower `num_data_load_threads` or raise the limit of the \
             process"
    )]
    NotStarted {
        /// Name of the thread.
        thread: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Threads that missed the deadline; they are abandoned.
    #[error("loader threads did not end within {waited:?}: {}", threads.join(", "))]
    NotJoined {
        /// Their names.
        threads: Vec<String>,
        /// The deadline.
        waited: Duration,
    },
}

/// The text of a caught panic.
pub(super) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
