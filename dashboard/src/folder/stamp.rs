use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// By which a change of a file or folder is noticed; `None` of one that is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp(Option<Seen>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    bytes: u64,
    changed: Option<SystemTime>,
    /// The number of the file, which a file that takes its place does not share.
    number: u64,
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> Self {
        let Ok(metadata) = fs::metadata(path) else { return Self(None) };
        Self(Some(Seen { bytes: metadata.len(), changed: metadata.modified().ok(), number: number(&metadata) }))
    }

    /// Seconds since 1970 at the last change.
    pub(crate) fn changed_secs(self) -> Option<u64> {
        Some(self.0?.changed?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
    }

    /// Whether another file is in its place.
    pub(crate) fn is_other(self, before: Self) -> bool {
        match (self.0, before.0) {
            (Some(now), Some(before)) => now.number != before.number,
            (now, before) => now.is_some() != before.is_some(),
        }
    }
}

#[cfg(unix)]
fn number(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    metadata.ino() ^ metadata.dev().rotate_left(32)
}

#[cfg(not(unix))]
fn number(_metadata: &fs::Metadata) -> u64 {
    0
}
