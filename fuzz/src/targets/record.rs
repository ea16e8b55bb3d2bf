//! Records of runs.

use pronk::Replay;

use crate::folder::Folder;
use crate::seeds::{SOON, repeat};
use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "record",
    promise: "A record whose frames get the right checksums is opened or refused, and a replay of it ends. One that \
              had others is refused.",
    run,
};

/// The length, half of its checksum, and the checksum of what follows.
const HEAD: usize = 4 + 2 + 4;

fn run(bytes: &[u8]) -> bool {
    let given = Folder::parse(bytes);
    let mut folder = given.clone();
    folder.0.values_mut().for_each(|file| set_checksums(file));
    let is_given = Replay::open(given.write().path().join("run.rec")).is_ok();
    assert!(!is_given || given.0["run.rec"] == folder.0["run.rec"], "a record with wrong checksums is opened");
    let folder = folder.write();
    let path = folder.path().join("run.rec");
    let replay = match Replay::open(&path) {
        Ok(replay) => replay,
        Err(error) => return refused(error),
    };
    let whole = replay.clone().until(u64::MAX);
    assert_eq!((whole.updates(), whole.fragments()), (replay.updates(), replay.fragments()));
    let first = replay.clone().until(1);
    assert!(first.fragments() <= replay.fragments());
    [replay.clone(), replay.from_fragments()].map(|replay| repeat(replay, SOON).is_ok()) == [true; 2]
}

/// Gives every frame of a file the checksums that belong to it.
fn set_checksums(mut file: &mut [u8]) {
    while let Some((head, rest)) = file.split_first_chunk_mut::<HEAD>() {
        let len = [head[0], head[1], head[2], head[3]];
        let end = (u32::from_le_bytes(len) as usize).min(rest.len());
        let (frame, next) = rest.split_at_mut(end);
        head[4..6].copy_from_slice(&crc32c::crc32c(&len).to_le_bytes()[..2]);
        // A frame that a killed run has torn has another.
        if frame.len() == u32::from_le_bytes(len) as usize {
            head[6..].copy_from_slice(&crc32c::crc32c(frame).to_le_bytes());
        }
        file = next;
    }
}
