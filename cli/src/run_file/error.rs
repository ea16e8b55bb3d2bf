use std::io;
use std::path::{Path, PathBuf};

use super::entry::Source;

/// Why the settings of a run cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unread { path: PathBuf, cause: io::Error },
    /// One setting is wrong.
    #[error("{place}: {reason}")]
    Setting { place: Source, reason: String },
    /// The settings do not go together.
    #[error("{}: {reason}", path.display())]
    Whole { path: PathBuf, reason: String },
}

impl FileError {
    pub(super) fn whole(path: &Path, reason: String) -> Self {
        Self::Whole { path: path.to_owned(), reason }
    }
}

/// Line and column, from 1, of the byte at `offset`.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
