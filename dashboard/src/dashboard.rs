//! [`Dashboard`]: the page of the run of this process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use pronk::metrics::ClockReader;
use pronk::{ReportError, Reporter, ResultDict, RunState};
use serde_json::Value;

use crate::board::{Board, Details};
use crate::error::DashboardError;
use crate::folder::{self, Place};
use crate::reader::Reader;
use crate::server::{Server, THREAD};
use crate::settings::Settings;
use crate::summary::Summary;
use crate::watch::Watch;

/// The id of a run without a folder.
const LIVE: &str = "live";

/// A reporter that serves the run of its process as a live page.
///
/// The run is held in memory, within some hundred kilobytes, so that it needs no folder. A thread named
/// `dashboard` serves; no browser, however slow, holds up the trainer. It ends when the reporter is finished
/// or dropped. [`pronk watch`](Dashboard::watch) shows the run then, if it has a folder.
///
/// Everyone on this machine can read a page at a loopback address, such as `127.0.0.1:8080`. At any other
/// address the page asks for a token, which [`url`](Self::url) has. Nothing is encrypted.
///
/// # Example
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
/// use pronk_dashboard::Dashboard;
///
/// let mut config = TrainerConfig::default();
/// config.results.min_time_s_per_iteration = 0.01;
/// let settings = serde_json::to_value(&config)?;
/// let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
/// let dashboard = Dashboard::bind("127.0.0.1:0")?.with_settings(settings); // port 0 is any free one
/// println!("the run is at {}", dashboard.url());
/// trainer.add_reporter(dashboard);
/// trainer.run(StopWhen { iterations: Some(2), ..StopWhen::default() })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Dashboard {
    server: Server,
    board: Arc<Board>,
    /// The id of the run.
    id: String,
    /// Reads what the folder says besides the results.
    reader: Option<Reader>,
}

impl Dashboard {
    /// The usual address: this machine only.
    pub const DEFAULT_ADDRESS: &'static str = "127.0.0.1:8080";

    /// Serves at `address`, such as [`DEFAULT_ADDRESS`](Self::DEFAULT_ADDRESS); port 0 is any free one.
    ///
    /// # Errors
    /// The address is invalid, its port is in use, or the system refuses the socket, the thread or a random
    /// token.
    pub fn bind(address: &str) -> Result<Self, DashboardError> {
        let board = Arc::new(Board::new(Vec::new()));
        let summary = Summary { began: now_secs(), ..Summary::new(LIVE, "This run", RunState::Running) };
        board.edit(|edit| {
            edit.put(summary, None, Some(Details::default()));
            edit.complete();
        });
        let server = Server::start(address, Arc::clone(&board), None)?;
        Ok(Self { server, board, id: LIVE.to_owned(), reader: None })
    }

    /// Serves the runs and sweeps in folders and below them, while they train and after, without a run in
    /// this process.
    ///
    /// # Errors
    /// As of [`bind`](Self::bind). What cannot be read in the folders is on the page.
    pub fn watch(
        address: &str,
        folders: impl IntoIterator<Item = impl Into<PathBuf>>,
    ) -> Result<Watch, DashboardError> {
        Watch::start(address, folders.into_iter().map(Into::into).collect())
    }

    /// Shows the settings of the run, as a table and where runs are compared. `env` and `algorithm` make its
    /// name.
    pub fn with_settings(self, settings: Value) -> Self {
        let names = Settings::of(&settings);
        let name = [&names.env, &names.algorithm].into_iter().flatten().cloned().collect::<Vec<_>>().join(" · ");
        self.board.edit(|edit| {
            edit.change(&self.id, |summary, details| {
                if summary.folder.is_none() && names.env.is_some() {
                    summary.name = name;
                }
                summary.settings = names;
                details.settings = Arc::new(settings);
            });
        });
        self
    }

    /// Shows what the folder of the run has besides its results: `run.json`, `config.toml` and videos. The
    /// run has the same address as when the folder is [watched](Self::watch).
    ///
    /// # Errors
    /// The folder cannot be found, or the system refuses the thread that reads it.
    pub fn with_folder(mut self, folder: impl AsRef<Path>) -> Result<Self, DashboardError> {
        let folder = folder.as_ref();
        let no_folder = |source| DashboardError::Folder { path: folder.to_owned(), source };
        let path = folder.canonicalize().map_err(no_folder)?;
        let id = folder::id(&path);
        let place = Place::named(&path);
        self.board.edit(|edit| edit.rename(&self.id, &id, &folder::name(&path), place.clone()));
        self.id = id.clone();
        self.reader = None;
        self.reader = Some(Reader::of_live_run(place, id, Arc::clone(&self.board))?);
        Ok(self)
    }

    /// Asks for this token, also at a loopback address: 8 to 200 letters, digits, `-`, `_`, `.` or `~`.
    ///
    /// # Errors
    /// [`DashboardError::Token`].
    pub fn with_token(self, token: impl AsRef<str>) -> Result<Self, DashboardError> {
        self.server.access().set_token(token.as_ref())?;
        Ok(self)
    }

    /// What answers requests, for a server of your own, such as one with TLS. It asks for the same token as
    /// this page, and goes on after it with what was last known of the run.
    pub fn router(&self) -> Router {
        self.server.router()
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

impl Reporter for Dashboard {
    fn name(&self) -> &str {
        THREAD
    }

    /// The clock of the serving thread, with states `waiting` and `serving`.
    fn clock(&self) -> Option<ClockReader> {
        Some(self.server.clock())
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        if !self.server.is_serving() {
            return Err(ReportError::new(THREAD, "its thread has ended, so nothing is served any more"));
        }
        self.board.report(&self.id, result);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ReportError> {
        self.reader = None;
        if self.server.close() { Ok(()) } else { Err(ReportError::new(THREAD, "its thread panicked")) }
    }
}

// A time of day is what is shown.
#[allow(clippy::disallowed_methods)]
fn now_secs() -> Option<u64> {
    Some(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}
