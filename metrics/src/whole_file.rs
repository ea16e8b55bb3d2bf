use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file whole: a reader finds the new contents or those before, also after a power failure.
///
/// They are written to `PATH.new` and renamed, so only one thread at a time may write a file. Devices and
/// pipes are written directly, since a rename would replace them. *Blocks* on the disk.
///
/// # Errors
/// That of the file system; the contents are those before then, and `PATH.new` is gone.
///
/// # Example
/// ```
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("best.txt");
/// pronk_metrics::write_whole(&path, b"412.5")?;
/// pronk_metrics::write_whole(&path, b"475.0")?;
/// assert_eq!(std::fs::read(&path)?, b"475.0");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_whole(path: impl AsRef<Path>, contents: &[u8]) -> io::Result<()> {
    let path = path.as_ref();
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return File::options().write(true).open(path)?.write_all(contents);
    }
    let beside = beside(path);
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(contents)?;
        // Synced before the rename, or a power failure could leave an empty file.
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().inspect_err(|_| {
        // Removes the partial file; a failure to do so must not hide the first.
        let _ = fs::remove_file(&beside);
    })
}

/// Where the new contents of a file are until they are complete.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        for contents in [&b"first, longer"[..], b"second", b""] {
            write_whole(&path, contents).unwrap();
            assert_eq!(fs::read(&path).unwrap(), contents);
            assert!(!beside(&path).exists());
        }
    }

    #[test]
    fn a_failure_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("a"), "a").unwrap();
        // A folder cannot be replaced by a file.
        assert!(write_whole(&kept, b"b").is_err());
        assert_eq!(fs::read(kept.join("a")).unwrap(), b"a");
        assert!(!beside(&kept).exists());
        assert!(write_whole(folder.path().join("missing/file"), b"b").is_err());
    }

    #[test]
    #[cfg(unix)]
    fn a_device_stays_a_device() {
        write_whole("/dev/null", b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
