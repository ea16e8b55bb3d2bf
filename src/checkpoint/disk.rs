//! [`Disk`]: the file operations of checkpoints, so that tests can lose some of them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The file operations of checkpoints. A file or a rename lasts only once it is synced: after a power loss,
/// operations since the last sync may be there or not, in any order.
pub(super) trait Disk: Send {
    /// Locks a folder until the guard is dropped. An error of kind `WouldBlock` while another save holds it.
    fn lock(&self, dir: &Path) -> io::Result<Box<dyn Send>>;
    /// The path without links.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;
    /// Makes the last folder of a path, whose parent exists.
    fn make_folder(&self, dir: &Path) -> io::Result<()>;
    /// Whether there is a file or folder.
    fn exists(&self, path: &Path) -> bool;
    /// The names in a folder.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Opens a regular file, whose content stays readable even if it is removed.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>>;
    /// Writes a file that does not exist.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()>;
    /// Makes the content of a file last.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Replaces `to` by `from`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes renames and removals in a folder last.
    fn sync_folder(&self, dir: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The maximal length of a manifest. It has a few hundred bytes for each file of a checkpoint.
pub(super) const MAX_MANIFEST_BYTES: u64 = 1 << 26;

/// The whole content of a manifest; an error if it is too long to be one.
pub(super) fn read(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    disk.open(path)?.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_MANIFEST_BYTES {
        let reason = format!("it has more than {MAX_MANIFEST_BYTES} bytes: not a manifest?");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(content)
}

/// The file system.
#[derive(Clone, Copy, Debug)]
pub(super) struct OsDisk;

/// A locked folder; other systems than Unix do not open folders as files.
struct Locked(Option<File>);

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing alone is not enough: a process just forked holds the descriptor until it executes its
        // program.
        if let Some(folder) = &self.0 {
            let _ = folder.unlock();
        }
    }
}

impl Disk for OsDisk {
    /// Locks the folder itself, which leaves no lock file, and the system releases the lock of a killed
    /// process. File systems without locks do not detect concurrent saves.
    fn lock(&self, dir: &Path) -> io::Result<Box<dyn Send>> {
        let folder = open_folder(dir)?;
        if let Some(Err(TryLockError::WouldBlock)) = folder.as_ref().map(File::try_lock) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Locked(folder)))
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    fn make_folder(&self, dir: &Path) -> io::Result<()> {
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            made => made,
        }
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        let mut options = OpenOptions::new();
        options.read(true);
        // To open a pipe may block forever.
        #[cfg(unix)]
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let file = options.open(path)?;
        // What is open, since another thing may take its place at any time.
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(Box::new(file))
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        File::create(path)?.write_all(content)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        // Some systems sync only what is open for writing.
        OpenOptions::new().write(true).open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_folder(&self, dir: &Path) -> io::Result<()> {
        open_folder(dir)?.map_or(Ok(()), |folder| folder.sync_all())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// The folder as a file. Other systems do not open folders as files, and order renames themselves.
fn open_folder(dir: &Path) -> io::Result<Option<File>> {
    if cfg!(unix) { File::open(dir).map(Some) } else { Ok(None) }
}
