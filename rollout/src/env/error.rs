use std::error::Error;
use std::fmt;

/// The error of an environment that could not be made, reset or stepped.
///
/// ```
/// use pronk_rollout::EnvError;
///
/// let from_words = EnvError::new("the simulator did not answer");
/// let from_error = EnvError::new(std::io::Error::other("connection reset"));
/// assert_eq!(from_words.to_string(), "the simulator did not answer");
/// assert_eq!(from_error.to_string(), "connection reset");
/// ```
pub struct EnvError(Box<dyn Error + Send + Sync>);

impl EnvError {
    /// Wraps a message or any error.
    #[cold]
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

impl fmt::Display for EnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for EnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for EnvError {
    // Transparent: the message is the wrapped error's, so the chain continues below it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
