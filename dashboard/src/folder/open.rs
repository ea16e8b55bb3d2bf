//! [`Folder`] and [`Place`]: open what lies in folders that anyone may have written, without following links.
//!
//! Another user who may write into a watched folder could put links into it that lead to files of the user
//! who watches, and put them in the place of other files at any time. So files and folders are opened by one
//! name each, relative to the open folder above, and what is open then is checked: nothing can be exchanged
//! between a check and its use.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, open, openat, readlinkat, statat};
use rustix::io::Errno;

use super::stamp::Stamp;

/// The maximal length of a file that is not read line by line: `run.json`, `config.toml` and those of sweeps.
const MAX_BYTES: u64 = 1 << 20;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opening waits neither for the writer of a pipe nor for a program that holds a lease on the file, and makes
/// no terminal that of this process.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Where a folder is: one that the user has named, or below one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    path: PathBuf,
    /// The folder that the user has named, by its path without links.
    named: Arc<Path>,
}

impl Place {
    /// A folder that the user has named, by its path without links.
    pub(crate) fn named(path: &Path) -> Self {
        Self { path: path.to_owned(), named: path.into() }
    }

    /// What is at this path below the folder.
    pub(crate) fn below(&self, path: impl AsRef<Path>) -> Self {
        Self { path: self.path.join(path), named: Arc::clone(&self.named) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// # Errors
    /// It is no folder, or one of the folders between the one that the user has named and it is a link.
    pub(crate) fn open(&self) -> io::Result<Folder> {
        let below = self.path.strip_prefix(&self.named).map_err(|_| io::ErrorKind::InvalidInput)?;
        below.iter().try_fold(Folder::named(&self.named)?, |folder, name| folder.folder(name))
    }

    /// As [`Folder::stamp`] of the folder; that of a missing file if the folder cannot be opened.
    pub(crate) fn stamp(&self, name: &str) -> Stamp {
        self.open().map_or(Stamp::default(), |folder| folder.stamp(name))
    }

    /// As [`Folder::file`] of the folder.
    pub(crate) fn file(&self, name: &str) -> io::Result<File> {
        self.open()?.file(name.as_ref())
    }

    /// The text of a file in the folder of at most 1 MiB.
    ///
    /// # Errors
    /// As of [`Folder::file`]; it is longer, or not UTF-8.
    pub(crate) fn text(&self, name: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.file(name)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MAX_BYTES} bytes")));
        }
        String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
    }
}

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// Opens a folder that the user has named, by its path without links. Who may write into the folder above
    /// it could still put a link in its place.
    pub(crate) fn named(path: &Path) -> io::Result<Self> {
        Ok(Self(open(path, FOLDER, Mode::empty()).map_err(in_words)?))
    }

    /// Opens a folder in this one.
    ///
    /// # Errors
    /// It is no folder, or a link.
    pub(crate) fn folder(&self, name: &OsStr) -> io::Result<Self> {
        let opened = openat(&self.0, single(name)?, FOLDER, Mode::empty());
        Ok(Self(opened.map_err(in_words)?))
    }

    /// Opens a regular file in this folder.
    ///
    /// # Errors
    /// It cannot be opened, is a link, or is no regular file. Or it is a hard link, which another user might
    /// have made, to a file that not everyone may read.
    pub(crate) fn file(&self, name: &OsStr) -> io::Result<File> {
        let file = File::from(openat(&self.0, single(name)?, FILE, Mode::empty()).map_err(in_words)?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(irregular());
        }
        if metadata.nlink() > 1 && !self.may_link(&metadata)? {
            let reason = "it is a hard link to a file that not everyone may read, in a folder that another user may \
                          change: put a copy in its place";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok(file)
    }

    /// Whether the file is no secret to those who can put a link to it into this folder: everyone may read
    /// it, or its owner alone can put one there.
    fn may_link(&self, file: &Metadata) -> io::Result<bool> {
        let folder = fstat(&self.0)?;
        let is_private = folder.st_mode & 0o022 == 0 && folder.st_uid == file.uid();
        Ok(is_private || file.mode() & 0o004 != 0)
    }

    /// What is called so, as it is now; a link is itself and not what it leads to.
    pub(crate) fn stamp(&self, name: &str) -> Stamp {
        statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).map_or(Stamp::default(), |stat| Stamp::of(&stat))
    }

    /// The names in the folder, and what they are of.
    pub(crate) fn entries(&self) -> io::Result<impl Iterator<Item = (OsString, FileType)>> {
        let dots = |name: &OsString| name == "." || name == "..";
        let entries = Dir::read_from(&self.0)?.filter_map(Result::ok).map(|entry| {
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            (name, entry.file_type())
        });
        // Some file systems do not say what a name is of.
        let known = |(name, kind): (OsString, FileType)| match kind {
            FileType::Unknown => {
                let stat = statat(&self.0, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                Some((name, FileType::from_raw_mode(stat.st_mode)))
            }
            kind => Some((name, kind)),
        };
        Ok(entries.filter(move |(name, _)| !dots(name)).filter_map(known))
    }

    /// Where a link in the folder leads to, as it says.
    pub(crate) fn link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = readlinkat(&self.0, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }
}

/// A name that leads to nothing but what is called so in a folder: it is no path, and not `..`.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn in_words(error: Errno) -> io::Error {
    match error {
        // The second one is FreeBSD's.
        Errno::LOOP | Errno::MLINK => {
            io::Error::new(io::ErrorKind::InvalidInput, "it is a link, and links in watched folders are not followed")
        }
        // A socket, or a device without a driver.
        Errno::NXIO | Errno::NODEV => irregular(),
        error => error.into(),
    }
}

fn irregular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

#[cfg(test)]
mod tests;
