//! How an example fails.

use std::fmt;

/// Why an example failed: the error with its causes in one line. anyhow's own text has a backtrace too where
/// `RUST_BACKTRACE` is set, of no use for a wrong flag.
pub(crate) struct Failure(anyhow::Error);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}
