//! Files that are whole or not there: written beside their place, synced, renamed, and checked when read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::CheckpointError;

const EXTENSION: &str = "safetensors";

/// What the manifest says about one of its files.
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
    /// The entry of a file with this content, named after it: another content never takes its place.
    pub(super) fn of(stem: &str, content: &[u8]) -> Self {
        let crc32c = format!("{:08x}", crc32c::crc32c(content));
        Self { file: format!("{stem}-{crc32c}.{EXTENSION}"), bytes: content.len() as u64, crc32c }
    }
}

/// Writes `name` in `dir` so that after a crash it holds either its old content or all of the new one.
pub(super) fn write_atomically(dir: &Path, name: &str, content: &[u8]) -> Result<(), CheckpointError> {
    let path = dir.join(name);
    let failed = |error| CheckpointError::io("write", &path, error);
    let mut file = temporary_file(dir).map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(&path).map_err(|error| failed(error.error))?;
    sync_folder(dir).map_err(failed)
}

/// A rename is on disk only when its folder is.
fn sync_folder(dir: &Path) -> io::Result<()> {
    // Other systems do not open folders as files, and order renames themselves.
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}

/// A file beside the ones to come, with the permissions that any new file gets and not those of a secret.
fn temporary_file(dir: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    let permissions = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(permissions);
    builder.tempfile_in(dir)
}

/// Reads a file of the manifest and holds it against its entry.
pub(super) fn read_checked(dir: &Path, entry: &FileEntry) -> Result<Vec<u8>, CheckpointError> {
    let path = dir.join(&entry.file);
    if Path::new(&entry.file).components().count() != 1 || entry.file.starts_with("..") {
        return Err(CheckpointError::unusable(&path, "the manifest names a file outside its folder"));
    }
    let content = fs::read(&path).map_err(|error| CheckpointError::io("read", &path, error))?;
    let damaged = |reason| CheckpointError::Damaged { path: path.clone(), reason };
    if content.len() as u64 != entry.bytes {
        return Err(damaged(format!("it has {} bytes and the manifest says {}", content.len(), entry.bytes)));
    }
    let crc32c = format!("{:08x}", crc32c::crc32c(&content));
    if crc32c != entry.crc32c {
        return Err(damaged(format!("its CRC-32C is {crc32c} and the manifest says {}", entry.crc32c)));
    }
    Ok(content)
}

/// Removes files of earlier checkpoints. A file that stays behind costs room and nothing else.
pub(super) fn remove_others(dir: &Path, keep: &[&str]) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let ours =
            ["policy-", "optimizer-", "target-"].iter().any(|stem| name.starts_with(stem)) && name.ends_with(EXTENSION);
        if ours && !keep.contains(&name) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
