use std::io;
use std::path::{Path, PathBuf};

use super::entry::Source;

/// Why the settings of a run cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// One setting is wrong.
    #[error("{place}: {reason}")]
    Setting {
        /// Where it was given.
        place: Source,
        /// What is wrong, and what to write instead.
        reason: String,
    },
    /// The settings do not go together.
    #[error("{}: {reason}", path.display())]
    Whole {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl FileError {
    /// What the reader of TOML found in the text of the file `path`.
    pub(crate) fn no_toml(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let place = Source::in_file(path, text, error.span().map_or(0, |span| span.start));
        Self::Setting { place, reason: error.message().to_owned() }
    }

    pub(super) fn whole(path: &Path, reason: String) -> Self {
        Self::Whole { path: path.to_owned(), reason }
    }
}
