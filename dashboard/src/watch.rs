//! [`Watch`]: the page of runs in folders.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::board::Board;
use crate::error::DashboardError;
use crate::reader::Reader;
use crate::server::Server;

/// Serves the runs and sweeps in folders, until it is dropped.
///
/// Runs are found wherever they lie below the folders, and new ones within seconds; a folder need not exist
/// yet. Another user may have written what lies below: links that lead out of the folders are not followed,
/// and the page names them.
///
/// Results are read as they come, in bounded memory: the list needs the last line of each run, and all is
/// kept of the runs that were asked for last. A large file is sampled first, and read whole in the
/// background.
///
/// # Example
/// ```
/// use pronk_dashboard::Dashboard;
///
/// let runs = tempfile::tempdir()?;
/// let watch = Dashboard::watch("127.0.0.1:0", [runs.path()])?;
/// println!("the runs are at {}", watch.url());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping it ends the page"]
pub struct Watch {
    // Before the reader, which ends once the server does not need it.
    server: Server,
    _reader: Reader,
}

impl Watch {
    pub(crate) fn start(address: &str, folders: Vec<PathBuf>) -> Result<Self, DashboardError> {
        let watched = folders.iter().map(|folder| folder.display().to_string()).collect();
        let board = Arc::new(Board::new(watched));
        let reader = Reader::of_folders(folders, Arc::clone(&board))?;
        let server = Server::start(address, board, reader.wake())?;
        Ok(Self { server, _reader: reader })
    }

    /// Asks for this token, also at a loopback address: 8 to 200 letters, digits, `-`, `_`, `.` or `~`.
    ///
    /// # Errors
    /// [`DashboardError::Token`].
    pub fn with_token(self, token: impl AsRef<str>) -> Result<Self, DashboardError> {
        self.server.access().set_token(token.as_ref())?;
        Ok(self)
    }

    /// The address served, with the actual port if 0 was requested.
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// What to open in a browser: the address with the token, if it asks for one.
    pub fn url(&self) -> String {
        self.server.access().url()
    }
}
