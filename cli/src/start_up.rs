//! [`StartUp`]: what a run has made before it begins.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use pronk::signals::{CtrlC, on_signal};
use pronk::{RunFolder, StopReason};

use crate::run_lock::RunLock;

/// Where the first files of a run are until it begins, so that the folder stays as it was if it does not.
const STAGED: &str = ".starting";

/// The shortest time that a run has to begin.
const SHORTEST: Duration = Duration::from_secs(1);

/// What a run begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    /// A folder without a run.
    New,
    /// A folder with another run, which is removed.
    Overwriting,
    /// The files of the run that goes on.
    Resuming,
}

/// The folder of a run that has not begun. It is removed, or left as it was, if the run cannot begin, and at
/// signals, which end the process until it has begun. The trainer listens for them as soon as it is built.
pub(crate) struct StartUp {
    folder: RunFolder,
    lock: RunLock,
    begins: Begins,
    /// Where its first files are.
    files: PathBuf,
    /// `None` once it is kept or removed.
    made: Arc<Mutex<Option<Made>>>,
    listening: CtrlC,
    /// Closes when the run begins, or cannot.
    _starting: Option<Sender<()>>,
}

/// What is removed if the run does not begin.
struct Made {
    folder: RunFolder,
    /// The folder of its first files, unless it continues those of a run.
    staged: Option<PathBuf>,
}

impl StartUp {
    /// Makes the folder of a run with `make`, and locks it.
    ///
    /// # Errors
    /// That of `make`, a folder in which another process is at work, or a folder or signal handler that the
    /// system refuses.
    pub(crate) fn begin(begins: Begins, make: impl FnOnce() -> Result<RunFolder>) -> Result<Self> {
        let made = Arc::new(Mutex::new(None));
        let mut slot = lock(&made);
        let to_discard = Arc::clone(&made);
        let listening = on_signal(move |reason| end(&to_discard, reason)).context("cannot wait for Ctrl-C")?;
        let folder = make()?;
        // Before it is changed, or could be removed: it may be the folder of another process.
        let held = RunLock::take(folder.path())?;
        let staged = (begins != Begins::Resuming).then(|| folder.path().join(STAGED));
        let files = staged.clone().unwrap_or_else(|| folder.path().to_owned());
        *slot = Some(Made { folder: folder.clone(), staged });
        drop(slot);
        let start_up = Self { folder, lock: held, begins, files, made, listening, _starting: None };
        match start_up.make_files_folder() {
            Ok(()) => Ok(start_up),
            Err(error) => Err(start_up.failed(error)),
        }
    }

    fn make_files_folder(&self) -> Result<()> {
        let path = &self.files;
        if self.begins != Begins::Resuming && path.exists() {
            // Of a process that was killed.
            fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))
    }

    /// Ends the process with an error if the run has not begun within its limit of time: what waits for an
    /// environment that does not start cannot look at the clock.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn limit(&mut self, limit: Option<Duration>) -> Result<()> {
        let Some(limit) = limit.map(|limit| limit.max(SHORTEST)) else { return Ok(()) };
        let (starts, start) = channel::<()>();
        let made = Arc::clone(&self.made);
        let wait = move || {
            if start.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let mut made = lock(&made);
                if made.is_some() {
                    let secs = limit.as_secs_f64();
                    note!(
                        "error: the run has not begun within {secs} s, its `stop.time`: making its environments takes longer"
                    );
                    exit(&mut made, 1);
                }
            }
        };
        let spawned = thread::Builder::new().name("start-up".to_owned()).spawn(wait);
        spawned.context("cannot start the thread that waits for the limit of time")?;
        self._starting = Some(starts);
        Ok(())
    }

    /// The folder of the run.
    pub(crate) fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// The folder for files that are written before the run [takes over](Self::take_over).
    pub(crate) fn files(&self) -> &Path {
        &self.files
    }

    /// Removes the run that this one overwrites, if any, and gives the first files their place.
    ///
    /// # Errors
    /// A file that cannot be removed or moved.
    pub(crate) fn take_over(&self) -> Result<()> {
        let mut made = lock(&self.made);
        let Some(Made { folder, staged }) = &mut *made else { return Ok(()) };
        let Some(from) = staged.as_deref() else { return Ok(()) };
        if self.begins == Begins::Overwriting {
            RunFolder::overwrite(folder.path())?;
        }
        move_files(from, folder.path()).with_context(|| format!("cannot move {}", from.display()))?;
        *staged = None;
        Ok(())
    }

    /// Keeps the folder, which it returns with its lock: from here on, signals end the run.
    pub(crate) fn has_begun(self) -> (RunFolder, RunLock) {
        // Waits for a signal that has come before, which ends the process. One that comes now finds nothing,
        // and the trainer hears it too.
        lock(&self.made).take();
        drop(self.listening);
        (self.folder, self.lock)
    }

    /// Removes what was made, and returns the error of a run that cannot begin.
    pub(crate) fn failed(self, error: anyhow::Error) -> anyhow::Error {
        match lock(&self.made).take().map(Made::discard) {
            Some(Err(left)) => error.context(format!("{left:#}")),
            _ => error,
        }
    }
}

impl Made {
    fn discard(self) -> Result<()> {
        if let Some(staged) = self.staged.filter(|staged| staged.exists()) {
            fs::remove_dir_all(&staged).with_context(|| format!("cannot remove {}", staged.display()))?;
        }
        Ok(self.folder.discard()?)
    }
}

/// Ends the process after a signal, unless the run has begun.
fn end(made: &Mutex<Option<Made>>, reason: StopReason) {
    // Locked until the process has ended, so that the run does not begin meanwhile.
    let mut made = lock(made);
    if made.is_some() {
        exit(&mut made, reason.signal_status().unwrap_or(1));
    }
}

/// Removes what was made and ends the process. It is locked until then, so that the run does not begin.
fn exit(made: &mut Option<Made>, status: u8) -> ! {
    if let Some(Err(error)) = made.take().map(Made::discard) {
        note!("error: {error:#}");
    }
    // The main thread may be waiting for an environment that does not start.
    #[allow(clippy::disallowed_methods)]
    std::process::exit(status.into())
}

fn move_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::rename(entry.path(), to.join(entry.file_name()))?;
    }
    fs::remove_dir(from)
}

fn lock(made: &Mutex<Option<Made>>) -> MutexGuard<'_, Option<Made>> {
    made.lock().unwrap_or_else(PoisonError::into_inner)
}
