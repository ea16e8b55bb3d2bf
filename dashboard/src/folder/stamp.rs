use rustix::fs::Stat;

/// By which a change of a file or folder is noticed; `None` of one that is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp(Option<Seen>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    bytes: u64,
    /// Seconds since 1970 at the last change, and nanoseconds after that.
    changed: (i64, u64),
    /// The file system, and the number of the file there, which a file that takes its place does not share.
    number: (u64, u64),
}

impl Stamp {
    // The types of the fields depend on the system.
    #[allow(clippy::unnecessary_cast)]
    pub(super) fn of(stat: &Stat) -> Self {
        Self(Some(Seen {
            bytes: stat.st_size as u64,
            changed: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            number: (stat.st_dev as u64, stat.st_ino as u64),
        }))
    }

    /// How long it is.
    pub(crate) fn bytes(self) -> Option<u64> {
        Some(self.0?.bytes)
    }

    /// Seconds since 1970 at the last change.
    pub(crate) fn changed_secs(self) -> Option<u64> {
        self.0?.changed.0.try_into().ok()
    }

    /// Whether another file is in its place.
    pub(crate) fn is_other(self, before: Self) -> bool {
        match (self.0, before.0) {
            (Some(now), Some(before)) => now.number != before.number,
            (now, before) => now.is_some() != before.is_some(),
        }
    }
}
