//! Atomic files: written under another name, synced, renamed, and validated when read.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::CheckpointError;
use super::count::MOST;
use super::disk::{Disk, read};

/// The newest manifest.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Prefix of files that are being written.
pub(super) const TEMPORARY: &str = ".pronk-tmp-";

/// What names of data files begin and end with.
const DATA: [(&str, &str); 5] = [
    ("policy-", ".safetensors"),
    ("optimizer-", ".safetensors"),
    ("target-", ".safetensors"),
    ("run-", ".bin"),
    ("fragments-", ".bin"),
];

/// The manifest's entry for a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileEntry {
    /// Name within the folder.
    pub(super) file: String,
    /// Size.
    pub(super) bytes: u64,
    /// CRC-32C of the content, in hexadecimal.
    crc32c: String,
}

impl FileEntry {
    /// The entry of a file, named after its content, so that other content never replaces it.
    pub(super) fn of(stem: &str, content: &[u8]) -> Self {
        let extension = if matches!(stem, "run" | "fragments") { "bin" } else { "safetensors" };
        let file = format!("{stem}-{:032x}.{extension}", xxh3_128(content));
        Self { file, bytes: content.len() as u64, crc32c: format!("{:08x}", crc32c::crc32c(content)) }
    }

    /// Opens the file in `dir`. Its content stays readable even if the file is removed.
    pub(super) fn open(&self, disk: &dyn Disk, dir: &Path) -> Result<OpenFile, CheckpointError> {
        let path = dir.join(&self.file);
        if Path::new(&self.file).components().count() != 1 || self.file.starts_with("..") {
            return Err(CheckpointError::unusable(&path, "the manifest names a file outside its folder"));
        }
        let file = disk.open(&path).map_err(|error| CheckpointError::io("read", &path, error))?;
        Ok(OpenFile { path, file, bytes: self.bytes, crc32c: self.crc32c.clone() })
    }
}

/// A file of the manifest that is open.
pub(super) struct OpenFile {
    path: PathBuf,
    file: Box<dyn Read>,
    bytes: u64,
    crc32c: String,
}

impl OpenFile {
    /// Reads it and checks it against its entry; returns its path and content.
    pub(super) fn read(self) -> Result<(PathBuf, Vec<u8>), CheckpointError> {
        let Self { path, file, bytes, crc32c: expected } = self;
        let mut content = Vec::new();
        // One byte more than it should have is enough to know that it is too long.
        let read = file.take(bytes.saturating_add(1)).read_to_end(&mut content);
        let n_read = read.map_err(|error| CheckpointError::io("read", &path, error))? as u64;
        let damaged = |reason| CheckpointError::Damaged { path: path.clone(), reason };
        if n_read > bytes {
            return Err(damaged(format!("it has more bytes than the {bytes} that the manifest says")));
        }
        if n_read < bytes {
            return Err(damaged(format!("it has {n_read} bytes and the manifest says {bytes}")));
        }
        let crc32c = format!("{:08x}", crc32c::crc32c(&content));
        if crc32c != expected {
            return Err(damaged(format!("its CRC-32C is {crc32c} and the manifest says {expected}")));
        }
        Ok((path, content))
    }
}

/// A save into a folder, exclusive until dropped.
pub(super) struct Writer<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    _lock: Box<dyn Send>,
}

impl<'a> Writer<'a> {
    /// Makes `dir` if it is missing, and removes partial files of killed saves.
    pub(super) fn begin(disk: &'a dyn Disk, dir: &'a Path) -> Result<Self, CheckpointError> {
        make_folder(disk, dir, |above| disk.sync_folder(above))
            .map_err(|error| CheckpointError::io("make the folder", dir, error))?;
        let lock = disk.lock(dir).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => CheckpointError::Busy { path: dir.to_owned() },
            _ => CheckpointError::io("open the folder", dir, error),
        })?;
        let writer = Self { disk, dir, _lock: lock };
        writer.remove(|name| name.starts_with(TEMPORARY));
        Ok(writer)
    }

    /// Writes `name` atomically: after a crash it holds its old content or the new one, after
    /// [`sync`](Self::sync) the new one.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<(), CheckpointError> {
        let (path, temporary) = (self.dir.join(name), self.dir.join(format!("{TEMPORARY}{name}")));
        let written = self.disk.write(&temporary, content).and_then(|()| self.disk.sync(&temporary));
        let renamed = written.and_then(|()| self.disk.rename(&temporary, &path));
        renamed.map_err(|error| {
            // It only wastes space, until the next save.
            let _ = self.disk.remove(&temporary);
            CheckpointError::io("write", &path, error)
        })
    }

    /// A rename is on disk only when its folder is.
    pub(super) fn sync(&self) -> Result<(), CheckpointError> {
        self.disk.sync_folder(self.dir).map_err(|error| CheckpointError::io("sync the folder", self.dir, error))
    }

    /// Reads a file back and checks it: what a disk says it has written it may not have.
    pub(super) fn check(&self, entry: &FileEntry) -> Result<(), CheckpointError> {
        entry.open(self.disk, self.dir)?.read().map(drop)
    }

    /// Removes data files that no manifest names, and manifests of generations that are not kept.
    pub(super) fn remove_others(&self, is_kept: impl Fn(&str) -> bool, keeps_manifest: impl Fn(u64) -> bool) {
        self.remove(|name| match generation_of(name) {
            Some(generation) => !keeps_manifest(generation),
            None => is_data(name) && !is_kept(name),
        });
    }

    /// Removes files by name. A failure only wastes disk space, so it is ignored.
    fn remove(&self, is_waste: impl Fn(&str) -> bool) {
        for name in self.disk.list(self.dir).unwrap_or_default() {
            if is_waste(&name) {
                let _ = self.disk.remove(&self.dir.join(name));
            }
        }
    }
}

/// Whether a save writes a file of this name.
pub(crate) fn is_checkpoint_file(name: &str) -> bool {
    name == MANIFEST || name.starts_with(TEMPORARY) || generation_of(name).is_some() || is_data(name)
}

fn is_data(name: &str) -> bool {
    DATA.iter().any(|(stem, end)| {
        let hash = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(end)).unwrap_or_default();
        is_hash(hash) || (*end == ".safetensors" && is_old_hash(hash))
    })
}

/// Whether it is what [`FileEntry::of`] writes between stem and end.
fn is_hash(text: &str) -> bool {
    text.len() == 32 && is_hex(text)
}

/// Whether it is the CRC-32C by which older versions named weights, and not a date: eight decimal digits may
/// be of a file of the user's, and a checkpoint that is left costs less than one that is lost.
fn is_old_hash(text: &str) -> bool {
    text.len() == 8 && is_hex(text) && text.bytes().any(|digit| digit.is_ascii_lowercase())
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// The name of a manifest that is kept beside the newest.
pub(super) fn manifest_name(generation: u64) -> String {
    format!("manifest-{generation:06}.json")
}

/// The generation of such a name.
pub(super) fn generation_of(name: &str) -> Option<u64> {
    let generation: u64 = name.strip_prefix("manifest-")?.strip_suffix(".json")?.parse().ok()?;
    // A save never writes a name such as `manifest-7.json`, nor a generation that has no next one.
    (manifest_name(generation) == name && generation < MOST).then_some(generation)
}

/// The generations of the manifests kept in a folder, newest first.
pub(super) fn generations(disk: &dyn Disk, dir: &Path) -> Vec<u64> {
    let mut kept: Vec<u64> = disk.list(dir).unwrap_or_default().iter().filter_map(|name| generation_of(name)).collect();
    kept.sort_unstable_by(|one, other| other.cmp(one));
    kept
}

/// The newest manifest of a folder, as it is on disk.
pub(super) fn newest_manifest(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<u8>> {
    read(disk, &dir.join(MANIFEST))
}

/// Makes `dir` and the folders above it where they are missing, and calls `sync` for each folder that has to
/// be on disk for `dir` to be found after a crash.
///
/// Those are all above a folder without a manifest: it may have been made just now by the caller, or by a
/// save that was killed.
pub(super) fn make_folder(disk: &dyn Disk, dir: &Path, sync: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let absolute = std::path::absolute(dir)?;
    let missing: Vec<&Path> = absolute.ancestors().take_while(|folder| !disk.exists(folder)).collect();
    missing.iter().rev().try_for_each(|folder| disk.make_folder(folder))?;
    // An error if it is no folder.
    disk.make_folder(&absolute)?;
    if disk.exists(&dir.join(MANIFEST)) {
        return Ok(());
    }
    // Resolved, because the folders to sync are those that the links lead to.
    for (n, parent) in disk.resolve(&absolute)?.ancestors().skip(1).enumerate() {
        match sync(parent) {
            Err(error) if n < missing.len() => return Err(error),
            // This process may lack permission to open ancestors.
            Err(_) | Ok(()) => {}
        }
    }
    Ok(())
}
