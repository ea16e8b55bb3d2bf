//! Files of reporters: atomic appends and replacements, and errors that name reporter and path.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{FileMark, ReportError};
use crate::whole_file::{beside, write_whole};

/// A file of one reporter, without a buffer.
#[derive(Debug)]
pub(super) struct ReportFile {
    reporter: &'static str,
    path: PathBuf,
    file: File,
    len: u64,
}

impl ReportFile {
    /// Creates the file and missing parent folders, or empties the file.
    pub(super) fn create(reporter: &'static str, path: impl Into<PathBuf>) -> Result<ReportFile, ReportError> {
        let path = path.into();
        make_folder_above(reporter, &path)?;
        let file = File::create(&path).map_err(|error| ReportError::of_file(reporter, "create", &path, error))?;
        Ok(ReportFile { reporter, path, file, len: 0 })
    }

    /// Opens the file to continue after its first `bytes`; what follows them is moved to `tail`.
    ///
    /// The tail is on disk before it is cut off, so that a kill in between loses nothing.
    pub(super) fn resume(
        reporter: &'static str,
        path: impl Into<PathBuf>,
        bytes: u64,
        tail: impl FnOnce() -> PathBuf,
    ) -> Result<ReportFile, ReportError> {
        let path = path.into();
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let mut file = opened.map_err(|error| ReportError::of_file(reporter, "continue", &path, error))?;
        let cut = || -> io::Result<()> {
            let len = file.seek(SeekFrom::End(0))?;
            if len < bytes {
                let text = format!(
                    "it has {len} bytes and had {bytes} when the checkpoint was taken; log to another folder, or resume \
                     from a checkpoint that is older than its loss"
                );
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            if len > bytes {
                file.seek(SeekFrom::Start(bytes))?;
                let mut kept = File::create(tail())?;
                io::copy(&mut file, &mut kept)?;
                kept.sync_all()?;
                file.set_len(bytes)?;
            }
            file.seek(SeekFrom::Start(bytes)).map(drop)
        };
        cut().map_err(|error| ReportError::of_file(reporter, "continue", &path, error))?;
        Ok(ReportFile { reporter, path, file, len: bytes })
    }

    /// Moves the file to `path`. What is there is kept at the path that `tail` names, unless it is a part
    /// of this file.
    pub(super) fn take_place_of(&mut self, path: &Path, tail: impl FnOnce() -> PathBuf) -> Result<(), ReportError> {
        let replace = || -> io::Result<()> {
            self.file.sync_all()?;
            let (own, old) = (fs::read(&self.path)?, fs::read(path).unwrap_or_default());
            if !own.starts_with(&old) {
                fs::rename(path, tail())?;
            }
            fs::rename(&self.path, path)
        };
        replace().map_err(|error| ReportError::of_file(self.reporter, "replace", path, error))?;
        self.path = path.to_owned();
        Ok(())
    }

    /// How much of it was written; `None` of a pipe or a device.
    pub(super) fn mark(&self) -> Option<FileMark> {
        let file = self.path.file_name()?.to_str()?.to_owned();
        self.is_regular().then(|| FileMark { file, bytes: self.len, path: self.path.clone() })
    }

    fn is_regular(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.is_file())
    }

    /// Appends `piece`; a failed one is truncated away, so that it does not spoil what follows.
    pub(super) fn append(&mut self, piece: &[u8]) -> Result<(), ReportError> {
        match self.file.write_all(piece) {
            Ok(()) => {
                self.len += piece.len() as u64;
                Ok(())
            }
            Err(error) => {
                // A pipe or a device cannot be truncated. The first failure is the one to return.
                let _ = self.file.set_len(self.len).and_then(|()| self.file.seek(SeekFrom::Start(self.len)));
                Err(ReportError::of_file(self.reporter, "write to", &self.path, error))
            }
        }
    }

    /// Replaces this file atomically: `rewrite` reads the old contents and writes the new. A failure leaves
    /// the old file.
    pub(super) fn replace(
        &mut self,
        rewrite: impl FnOnce(&mut dyn ReadSeek, &mut dyn Write) -> io::Result<()>,
    ) -> Result<(), ReportError> {
        // Resolve a link first: a rename onto it would replace the link.
        let target = fs::canonicalize(&self.path)
            .map_err(|error| ReportError::of_file(self.reporter, "find", &self.path, error))?;
        if !self.is_regular() {
            let error = io::Error::new(io::ErrorKind::Unsupported, "only a regular file can be rewritten");
            return Err(ReportError::of_file(self.reporter, "replace", &self.path, error));
        }
        let beside = beside(&target);
        match self.write_beside(&target, &beside, rewrite) {
            Ok((file, len)) => {
                (self.file, self.len) = (file, len);
                Ok(())
            }
            Err(error) => {
                // It may not exist; the first failure is the one to return.
                let _ = fs::remove_file(&beside);
                Err(ReportError::of_file(self.reporter, "replace", &self.path, error))
            }
        }
    }

    fn write_beside(
        &self,
        target: &Path,
        beside: &Path,
        rewrite: impl FnOnce(&mut dyn ReadSeek, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<(File, u64)> {
        let mut old = BufReader::new(File::open(target)?);
        let mut new = BufWriter::new(File::create(beside)?);
        rewrite(&mut old, &mut new)?;
        let mut file = new.into_inner().map_err(io::IntoInnerError::into_error)?;
        // Synced before the rename, or a power failure could leave an empty file.
        file.sync_all()?;
        let len = file.stream_position()?;
        fs::rename(beside, target)?;
        Ok((file, len))
    }
}

/// The old contents in [`ReportFile::replace`].
pub(super) trait ReadSeek: Read + Seek {}

impl<T: Read + Seek> ReadSeek for T {}

/// Creates missing parent folders of `path`.
pub(crate) fn make_folder_above(reporter: &str, path: &Path) -> Result<(), ReportError> {
    match path.parent() {
        Some(folder) => {
            fs::create_dir_all(folder).map_err(|error| ReportError::of_file(reporter, "create folder", folder, error))
        }
        None => Ok(()),
    }
}

/// [`write_whole`](crate::write_whole), in a folder that is made if it is missing.
pub(crate) fn write_report(reporter: &str, path: &Path, contents: &[u8]) -> Result<(), ReportError> {
    make_folder_above(reporter, path)?;
    write_whole(path, contents).map_err(|error| ReportError::of_file(reporter, "write", path, error))
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

    /// Set in the process that may not write large files: where to write.
    const LIMITED: &str = "PRONK_TEST_LIMITED_FILE";

    #[test]
    fn half_a_piece_is_cut_off_and_the_next_one_follows_the_last_whole_one() {
        if let Some(path) = env::var_os(LIMITED) {
            let mut file = ReportFile::create("limited", path).unwrap();
            while file.append(&[b'x'; 400]).is_ok() {}
            file.append(b"end").unwrap();
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // This very test again, where a file may be one block long and what is beyond is an error and no
        // signal.
        let status = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"])
            .arg(env::current_exe().unwrap())
            .args([
                "--exact",
                "reporter::file::tests::half_a_piece_is_cut_off_and_the_next_one_follows_the_last_whole_one",
            ])
            .env(LIMITED, &path)
            .output()
            .unwrap();
        assert!(status.status.success(), "{status:?}");
        let written = fs::read_to_string(&path).unwrap();
        let pieces = written.strip_suffix("end").unwrap();
        // A block is 512 bytes in some shells and 1024 in others.
        assert!(pieces == "x".repeat(400) || pieces == "x".repeat(800), "{}", written.len());
    }
}
