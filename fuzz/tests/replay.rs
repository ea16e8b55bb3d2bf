//! The corpus, through its targets: what fuzzing has found stays mended.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use pronk::Replay;
use pronk_fuzz::{Folder, MEMORY_BYTES, TARGETS, Target, go_on, repeat};

/// For one input.
const PATIENCE: Duration = Duration::from_secs(60);

/// Of longer files there would be too many neighbours.
const SHORT: usize = 200;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn paths_in(folder: &Path) -> BTreeSet<PathBuf> {
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).and_then(Iterator::collect);
    let entries = entries.unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    entries.iter().map(|entry| entry.path()).collect()
}

#[test]
fn promises_hold_for_the_corpus_and_for_short_files_with_a_bit_flipped_or_the_end_cut_off() {
    for target in TARGETS {
        for path in paths_in(&corpus().join(target.name)) {
            let bytes = fs::read(&path).unwrap();
            let mut inputs = if bytes.len() <= SHORT { neighbours(&bytes) } else { Vec::new() };
            inputs.push(bytes);
            holds(*target, &path, inputs);
        }
    }
}

#[test]
fn each_target_has_a_corpus_and_each_corpus_a_target() {
    let targets: BTreeSet<PathBuf> = TARGETS.iter().map(|target| corpus().join(target.name)).collect();
    assert_eq!(paths_in(&corpus()), targets);
    for folder in targets {
        assert!(!paths_in(&folder).is_empty(), "{} is empty", folder.display());
    }
}

#[test]
fn memory_beyond_the_limit_is_refused() {
    assert!(Vec::<u8>::new().try_reserve_exact(MEMORY_BYTES).is_err());
}

#[test]
fn runs_go_on_from_the_checkpoints_of_the_corpus_and_repeat_its_record() {
    let folder = |name: &str| Folder::parse(&fs::read(corpus().join(name)).unwrap()).write();
    for name in ["checkpoint/whole", "checkpoint/exact"] {
        assert_eq!(go_on(folder(name).path()), Ok(()), "{name}: write new ones, as fuzz/README.md says");
    }
    let record = folder("record/whole");
    let replay = Replay::open(record.path().join("run.rec")).unwrap();
    assert_eq!(repeat(replay.clone()), Ok(()));
    assert_eq!(repeat(replay.from_fragments()), Ok(()));
}

/// All beginnings of the bytes, and the bytes with each bit flipped.
fn neighbours(bytes: &[u8]) -> Vec<Vec<u8>> {
    let cut = (0..bytes.len()).map(|len| bytes[..len].to_owned());
    let flipped = (0..8 * bytes.len()).map(|bit| {
        let mut bytes = bytes.to_owned();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    });
    cut.chain(flipped).collect()
}

/// Runs them on a thread of their own, so that one which hangs is named.
fn holds(target: Target, path: &Path, inputs: Vec<Vec<u8>>) {
    let (begins, begun) = sync_channel(0);
    let thread = thread::spawn(move || {
        for input in inputs {
            let _ = begins.send(input.clone());
            (target.run)(&input);
        }
    });
    let mut last = Vec::new();
    loop {
        match begun.recv_timeout(PATIENCE) {
            Ok(input) => last = input,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{} or a neighbour hangs: {}", path.display(), last.escape_ascii())
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let broken = thread.join().is_err();
    assert!(!broken, "{} or a neighbour breaks the promise: {}", path.display(), last.escape_ascii());
}
