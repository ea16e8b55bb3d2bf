//! Opens what lies in a folder that anyone may have written.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use pronk::{RunInfo, RunState};
use serde_json::Value;

/// The maximal length of a file that is not read line by line: `run.json`, `config.toml` and those of sweeps.
const MAX_BYTES: u64 = 1 << 20;

/// 9999-12-31 23:59:59.
pub(super) const LAST_SECOND: u64 = 253_402_300_799;

/// Opens a regular file, or what a link to one leads to.
///
/// # Errors
/// It cannot be opened, or is no regular file: to open a pipe or device may block forever.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Before it is opened.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    File::open(path)
}

/// The text of a regular file of at most 1 MiB.
///
/// # Errors
/// As of [`open`]; it is longer, or not UTF-8.
pub(crate) fn read_small(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// What `run.json` in the folder of a run says, and the run's state by it; null and unknown without one.
///
/// # Errors
/// Why it cannot be read, in words.
pub(crate) fn run_info(folder: &Path) -> Result<(Value, RunState), String> {
    match read_small(&folder.join("run.json")) {
        // Only now, because these open whatever has that name.
        Ok(_) => match RunInfo::read(folder) {
            Some(info) => Ok((info, RunState::of(folder))),
            None => Err("run.json cannot be read: it is not JSON".to_owned()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((Value::Null, RunState::Unknown)),
        Err(error) => Err(format!("run.json cannot be read: {error}")),
    }
}

/// When the run began, in seconds since 1970, as its `run.json` says; `None` also after the year 9999, which
/// a browser may fail to show.
pub(crate) fn began(info: &Value) -> Option<u64> {
    info["began"].as_u64().filter(|began| *began <= LAST_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_that_are_small_and_text_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let kind = || read_small(&path).unwrap_err().kind();
        assert_eq!(kind(), io::ErrorKind::NotFound);
        fs::write(&path, "x".repeat(MAX_BYTES as usize)).unwrap();
        assert_eq!(read_small(&path).unwrap().len() as u64, MAX_BYTES);
        fs::write(&path, "x".repeat(MAX_BYTES as usize + 1)).unwrap();
        assert_eq!(kind(), io::ErrorKind::FileTooLarge);
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(kind(), io::ErrorKind::InvalidData);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_run_begins_before_the_year_10000() {
        let of = |began: Value| super::began(&serde_json::json!({"began": began}));
        assert_eq!(of(LAST_SECOND.into()), Some(LAST_SECOND));
        for began in [(LAST_SECOND + 1).into(), u64::MAX.into(), (-1).into(), 1.5.into(), "2026".into(), Value::Null] {
            assert_eq!(of(began), None);
        }
    }
}
