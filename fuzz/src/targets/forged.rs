//! A real checkpoint that someone has changed, with the checksums that belong to the changes.

use std::sync::LazyLock;

use super::checkpoint::{load, sealed};
use super::damage::damaged;
use crate::Target;
use crate::folder::Folder;

pub(crate) const TARGET: Target = Target {
    name: "forged",
    promise: "Each five bytes change a real checkpoint, whose manifest gets the right sizes and checksums. The promise \
              is that of `checkpoint`.",
    run,
};

/// A checkpoint from which its run goes on exactly.
static FOLDER: LazyLock<Folder> = LazyLock::new(|| Folder::parse(include_bytes!("../../corpus/checkpoint/exact")));

fn run(bytes: &[u8]) {
    load(&sealed(damaged(FOLDER.clone(), bytes)));
}
