//! [`Folder`]: files in one text, so that an input can be a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// What a file begins with: this and its name, in a line of their own.
const HEAD: &[u8] = b"\n=== ";

/// Files by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder(pub BTreeMap<String, Vec<u8>>);

impl Folder {
    /// The files in these bytes. What stands before the first of them is no file.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut files = BTreeMap::new();
        let mut rest = bytes;
        let mut begins = find(rest, HEAD);
        while let Some(at) = begins {
            rest = &rest[at + HEAD.len()..];
            begins = find(rest, HEAD);
            let file = &rest[..begins.unwrap_or(rest.len())];
            let (name, content) = file.split_at(find(file, b"\n").unwrap_or(file.len()));
            let name = String::from_utf8_lossy(name).into_owned();
            files.insert(name, content.get(1..).unwrap_or_default().to_owned());
        }
        Self(files)
    }

    /// The bytes that these files are parsed from.
    pub fn to_bytes(&self) -> Vec<u8> {
        let files = self.0.iter().flat_map(|(name, content)| [HEAD, name.as_bytes(), b"\n", content].concat());
        files.collect()
    }

    /// The files of a folder, without those of folders in it.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                files.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
            }
        }
        Ok(Self(files))
    }

    /// Writes them into a new folder, which is removed when it is dropped. Invalid file names are skipped.
    pub fn write(&self) -> TempDir {
        let folder = scratch();
        for (name, content) in &self.0 {
            if !name.contains(['/', '\0']) {
                let _ = fs::write(folder.path().join(name), content);
            }
        }
        folder
    }
}

/// A new folder in memory, if there is such a place.
pub(crate) fn scratch() -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    let place = if memory.is_dir() { memory } else { std::env::temp_dir() };
    tempfile::tempdir_in(&place).unwrap_or_else(|error| panic!("no folder can be made in {}: {error}", place.display()))
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}
