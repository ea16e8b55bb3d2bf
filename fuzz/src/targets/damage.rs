//! A real checkpoint that was damaged: bits flipped, ends cut off, files swapped or missing.

use std::sync::LazyLock;

use pronk::Checkpoint;

use super::checkpoint::saved;
use crate::folder::Folder;
use crate::seeds::{Kind, SOON, go_on};
use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "damage",
    promise: "Each five bytes damage a real checkpoint. It loads as it was saved, or an error says what is wrong.",
    run,
};

/// The folder of a run, with its newest two checkpoints.
static FOLDER: LazyLock<Folder> = LazyLock::new(|| Folder::parse(include_bytes!("../../corpus/checkpoint/whole")));

/// What it loads as.
static SAVED: LazyLock<Folder> = LazyLock::new(|| {
    let loaded = Checkpoint::load_all(FOLDER.write().path());
    saved(
        &loaded.unwrap_or_else(|error| panic!("{error}: write a new one by `cargo run -p pronk-fuzz --example seeds`")),
    )
});

fn run(bytes: &[u8]) -> bool {
    let folder = damaged(FOLDER.clone(), bytes).write();
    match Checkpoint::load_all(folder.path()) {
        Ok(loaded) => assert!(saved(&loaded) == *SAVED, "a damaged checkpoint was loaded: {loaded:?}"),
        Err(error) => {
            refused(error);
        }
    }
    go_on(Kind::Together, folder.path(), SOON).is_ok()
}

/// The folder, with the damage that these bytes say.
pub(super) fn damaged(mut folder: Folder, bytes: &[u8]) -> Folder {
    for damage in bytes.as_chunks::<5>().0 {
        damage_by(&mut folder, *damage);
    }
    folder
}

/// Does to a file what the second byte says.
fn damage_by(folder: &mut Folder, [file, what, at, further, value]: [u8; 5]) {
    let names: Vec<String> = folder.0.keys().cloned().collect();
    let Some(name) = names.get(usize::from(file) % names.len().max(1)) else { return };
    let Some(content) = folder.0.get_mut(name) else { return };
    let at = usize::from(u16::from_le_bytes([at, further])) % content.len().max(1);
    match what % 7 {
        0 => content.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (value % 8)),
        1 => content.iter_mut().skip(at).take(1).for_each(|byte| *byte = value),
        2 => content.truncate(at),
        3 => content.insert(at, value),
        4 => drop(folder.0.remove(name)),
        5 => put_a_large_number(content, at, name.ends_with(".json")),
        _ => {
            let other = names.get(usize::from(value) % names.len()).and_then(|other| folder.0.get(other).cloned());
            folder.0.insert(name.clone(), other.unwrap_or_default());
        }
    }
}

/// Replaces a number by the largest, in JSON or in the encoding of run files.
fn put_a_large_number(content: &mut Vec<u8>, at: usize, is_text: bool) {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if is_text {
        let end = at + digits(&content[at..]);
        content.splice(at..end, u64::MAX.to_string().into_bytes());
    } else {
        let varint = postcard::to_stdvec(&u64::MAX).unwrap_or_default();
        content.splice(at..content.len().min(at + 1), varint);
    }
}
