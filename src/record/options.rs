//! [`Recording`]: where a run is recorded.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where a run is recorded: see [`TrainerBuilder::record`](crate::TrainerBuilder::record).
///
/// ```
/// use pronk::Recording;
///
/// let recording = Recording::to("night.rec").with_fragments();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    pub(super) path: PathBuf,
    pub(super) has_fragments: bool,
}

impl Recording {
    /// Into this file, which must not exist yet.
    pub fn to(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), has_fragments: false }
    }

    /// Stores the fragments too, in a file beside it with `.fragments` appended to its name: the learner's
    /// side of the run can then be replayed without environments.
    #[must_use]
    pub fn with_fragments(self) -> Self {
        Self { has_fragments: true, ..self }
    }
}

/// The file of a record's fragments.
pub(super) fn fragments_of(record: &Path) -> PathBuf {
    let mut name = OsString::from(record);
    name.push(".fragments");
    name.into()
}
