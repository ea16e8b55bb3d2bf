//! Atomic files: written under another name, synced, renamed, and validated when read.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::CheckpointError;

/// The file that lists all others.
pub(crate) const MANIFEST: &str = "manifest.json";
const EXTENSION: &str = "safetensors";

/// Prefix of files that are being written.
pub(super) const TEMPORARY: &str = ".pronk-tmp-";

/// The manifest's entry for a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileEntry {
    /// Name within the folder.
    pub(super) file: String,
    /// Size.
    bytes: u64,
    /// CRC-32C of the content, in hexadecimal.
    crc32c: String,
}

impl FileEntry {
    /// The entry of a file, named after its content, so that other content never replaces it.
    pub(super) fn of(stem: &str, content: &[u8]) -> Self {
        let crc32c = format!("{:08x}", crc32c::crc32c(content));
        Self { file: format!("{stem}-{crc32c}.{EXTENSION}"), bytes: content.len() as u64, crc32c }
    }

    /// Opens the file in `dir`. Its content stays readable even if the file is removed.
    pub(super) fn open(&self, dir: &Path) -> Result<OpenFile, CheckpointError> {
        let path = dir.join(&self.file);
        if Path::new(&self.file).components().count() != 1 || self.file.starts_with("..") {
            return Err(CheckpointError::unusable(&path, "the manifest names a file outside its folder"));
        }
        let file = File::open(&path).map_err(|error| CheckpointError::io("read", &path, error))?;
        Ok(OpenFile { path, file, bytes: self.bytes, crc32c: self.crc32c.clone() })
    }
}

/// A file of the manifest that is open.
pub(super) struct OpenFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    crc32c: String,
}

impl OpenFile {
    /// Reads it and checks it against its entry; returns its path and content.
    pub(super) fn read(mut self) -> Result<(PathBuf, Vec<u8>), CheckpointError> {
        let mut content = Vec::new();
        self.file.read_to_end(&mut content).map_err(|error| CheckpointError::io("read", &self.path, error))?;
        let damaged = |reason| CheckpointError::Damaged { path: self.path.clone(), reason };
        if content.len() as u64 != self.bytes {
            return Err(damaged(format!("it has {} bytes and the manifest says {}", content.len(), self.bytes)));
        }
        let crc32c = format!("{:08x}", crc32c::crc32c(&content));
        if crc32c != self.crc32c {
            return Err(damaged(format!("its CRC-32C is {crc32c} and the manifest says {}", self.crc32c)));
        }
        Ok((self.path, content))
    }
}

/// A save into a folder, exclusive until dropped.
///
/// It locks the folder itself, which leaves no lock file, and the system releases the lock of a killed
/// process. File systems without locks do not detect concurrent saves.
pub(super) struct Writer<'a> {
    dir: &'a Path,
    /// The folder as a file; other systems than Unix do not open folders.
    folder: Option<File>,
}

impl<'a> Writer<'a> {
    /// Makes `dir` if it is missing, and removes partial files of killed saves.
    pub(super) fn begin(dir: &'a Path) -> Result<Self, CheckpointError> {
        make_folder(dir, sync_folder).map_err(|error| CheckpointError::io("make the folder", dir, error))?;
        let folder = open_folder(dir).map_err(|error| CheckpointError::io("open the folder", dir, error))?;
        let writer = Self { dir, folder };
        if let Some(Err(TryLockError::WouldBlock)) = writer.folder.as_ref().map(File::try_lock) {
            return Err(CheckpointError::Busy { path: dir.to_owned() });
        }
        writer.remove(|name| name.starts_with(TEMPORARY));
        Ok(writer)
    }

    /// Writes `name` atomically: after a crash it holds its old content or the new one, after
    /// [`sync`](Self::sync) the new one.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<(), CheckpointError> {
        let path = self.dir.join(name);
        let failed = |error| CheckpointError::io("write", &path, error);
        let mut file = temporary_file(self.dir).map_err(failed)?;
        file.write_all(content).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// A rename is on disk only when its folder is.
    pub(super) fn sync(&self) -> Result<(), CheckpointError> {
        let synced = self.folder.as_ref().map_or(Ok(()), File::sync_all);
        synced.map_err(|error| CheckpointError::io("sync the folder", self.dir, error))
    }

    /// Removes files of earlier checkpoints and of incomplete saves.
    pub(super) fn remove_others(&self, keep: &BTreeSet<&str>) {
        let is_of_checkpoint = |name: &str| {
            ["policy-", "optimizer-", "target-"].iter().any(|stem| name.starts_with(stem)) && name.ends_with(EXTENSION)
        };
        self.remove(|name| is_of_checkpoint(name) && !keep.contains(name));
    }

    /// Removes files by name. A failure only wastes disk space, so it is ignored.
    fn remove(&self, is_waste: impl Fn(&str) -> bool) {
        let Ok(entries) = fs::read_dir(self.dir) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_str().is_some_and(&is_waste) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        // Closing alone is not enough: a process just forked holds the descriptor until it executes its
        // program.
        if let Some(folder) = &self.folder {
            let _ = folder.unlock();
        }
    }
}

/// Makes `dir` and the folders above it where they are missing, and calls `sync` for each folder that has to
/// be on disk for `dir` to be found after a crash.
///
/// Those are all above a folder without a manifest: it may have been made just now by the caller, or by a
/// save that was killed.
pub(super) fn make_folder(dir: &Path, sync: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let absolute = std::path::absolute(dir)?;
    let n_missing = absolute.ancestors().take_while(|folder| !folder.exists()).count();
    fs::create_dir_all(dir)?;
    if dir.join(MANIFEST).exists() {
        return Ok(());
    }
    // Resolved, because the folders to sync are those that the links lead to.
    for (n, parent) in dir.canonicalize()?.ancestors().skip(1).enumerate() {
        match sync(parent) {
            Err(error) if n < n_missing => return Err(error),
            // This process may lack permission to open ancestors.
            Err(_) | Ok(()) => {}
        }
    }
    Ok(())
}

fn sync_folder(dir: &Path) -> io::Result<()> {
    open_folder(dir)?.map_or(Ok(()), |folder| folder.sync_all())
}

/// The folder as a file. Other systems do not open folders as files, and order renames themselves.
fn open_folder(dir: &Path) -> io::Result<Option<File>> {
    if cfg!(unix) { File::open(dir).map(Some) } else { Ok(None) }
}

/// A temporary file with the default permissions of new files, not those of a private one.
pub(super) fn temporary_file(dir: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY);
    #[cfg(unix)]
    let permissions = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(permissions);
    builder.tempfile_in(dir)
}
