//! [`RunLock`]: one process at a time in the folder of a run.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};

use crate::unusable;

/// The file that is locked, which is empty. It stays when the run is overwritten and when it has ended, since
/// another process may be about to lock it. Not the folder itself: saving a checkpoint locks that.
const LOCK: &str = ".lock";

/// The folder of a run, which no other process may train in until this is dropped.
pub(crate) struct RunLock {
    _file: File,
}

impl RunLock {
    /// Locks the folder. The system releases the lock of a process that is killed. On a file system without
    /// locks only `run.json` tells of another process, once that has written it.
    ///
    /// # Errors
    /// Another process has the lock or has just removed the folder, or the file cannot be opened.
    pub(crate) fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(LOCK);
        // Some file systems lock only what is open for writing.
        let file = File::options().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(unusable(anyhow!(
                "another process trains the run in {}, or is about to: end it first, or name another folder",
                folder.display()
            )));
        }
        // A process whose run did not begin may have removed the folder after this one had opened the file.
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let (own, there) = (file.metadata().map(identity), fs::metadata(&path).map(identity));
        ensure!(own.ok() == there.ok(), "another process has removed {}: start again", folder.display());
        Ok(Self { _file: file })
    }
}
