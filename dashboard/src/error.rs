use std::io;
use std::path::PathBuf;

/// Why a page cannot be served.
///
/// ```
/// use pronk_dashboard::{Dashboard, DashboardError};
///
/// let first = Dashboard::bind("127.0.0.1:0")?;
/// let taken = first.addr().to_string();
/// assert!(matches!(Dashboard::bind(&taken), Err(DashboardError::Taken { address, .. }) if address == taken));
/// # Ok::<(), DashboardError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DashboardError {
    /// Another program listens there.
    #[error(
        "cannot serve the page at {address}: the port is taken, perhaps by the page of another run; end that one, choose \
         another port, or ask for port 0, which is any free one"
    )]
    Taken {
        /// The requested address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system refuses this address.
    #[error(
        "cannot serve the page at {address}: {source}; give an address of this machine and a port, as 127.0.0.1:8080"
    )]
    Refused {
        /// The requested address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system refuses a thread, its resources or random numbers.
    #[error("cannot start the page's {what}: {source}; the process may be at a limit of threads or open files")]
    Thread {
        /// What was refused.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The folder of a run cannot be found.
    #[error("cannot show the run in {}: {source}; make its folder first", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A token that cannot be part of an address, or that is easily guessed.
    #[error("a token has 8 to 200 letters, digits, `-`, `_`, `.` or `~`: choose another one, or none for a random one")]
    Token,
}

impl DashboardError {
    pub(crate) fn of_address(address: &str, source: io::Error) -> Self {
        let address = address.to_owned();
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::Taken { address, source },
            _ => Self::Refused { address, source },
        }
    }
}
