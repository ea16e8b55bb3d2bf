//! A forged checkpoint: a real one with changes and the checksums that belong to them.

use std::sync::LazyLock;

use super::checkpoint::{load, sealed};
use super::damage::damaged;
use crate::Target;
use crate::folder::Folder;
use crate::seeds::Kind;

pub(crate) const TARGET: Target = Target {
    name: "forged",
    promise: "The first byte chooses a real checkpoint by the kind of its run. Each five bytes after it change that, \
              and its manifest gets the right sizes and checksums. The promise is that of `checkpoint`.",
    run,
};

/// Of each kind of run a checkpoint from which it goes on exactly.
static FOLDERS: LazyLock<[Folder; Kind::ALL.len()]> = LazyLock::new(|| {
    [
        Folder::parse(include_bytes!("../../corpus/checkpoint/exact")),
        Folder::parse(include_bytes!("../../corpus/checkpoint/exact-groups")),
        Folder::parse(include_bytes!("../../corpus/checkpoint/exact-agents")),
    ]
});

fn run(bytes: &[u8]) -> bool {
    let Some((first, bytes)) = bytes.split_first() else { return false };
    let kind = usize::from(*first) % Kind::ALL.len();
    load(&sealed(damaged(FOLDERS[kind].clone(), bytes)), &Kind::ALL[kind..=kind])
}
