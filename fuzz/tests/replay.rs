//! The corpus, through its targets: what fuzzing has found stays fixed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;
use std::{panic, thread};

use pronk::policy::instructions;
use pronk::{Replay, StopReason};
use pronk_fuzz::{ENV_STEPS, Folder, Kind, MEMORY_BYTES, TARGETS, Target, go_on, record, repeat};

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
fn each_target_accepts_a_file_of_its_corpus() {
    for target in TARGETS {
        let read = |path: PathBuf| fs::read(path).unwrap();
        let mut files: Vec<_> = paths_in(&corpus().join(target.name)).into_iter().map(read).collect();
        if target.name == "record" {
            files.push(record().unwrap().to_bytes());
        }
        let is_accepted = |file: &Vec<u8>| (target.run)(file);
        assert!(files.iter().any(is_accepted), "{} refuses all of its corpus: it tests nothing", target.name);
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
    for (name, kind, is_exact) in [
        ("checkpoint/whole", Kind::Together, None),
        ("checkpoint/exact", Kind::Together, Some(true)),
        ("checkpoint/exact-groups", Kind::Groups, Some(true)),
        ("checkpoint/exact-agents", Kind::Agents, Some(true)),
    ] {
        let run = go_on(kind, folder(name).path(), None);
        let run = run.unwrap_or_else(|why| panic!("{name}: {why}; write new ones, as fuzz/README.md says"));
        assert_eq!(run.reason, Some(StopReason::EnvSteps), "{name}");
        assert!(run.steps.sampled.env >= ENV_STEPS, "{name}: {:?}", run.steps);
        let exact = run.result.dict.get("resume.exact").and_then(|exact| exact.as_bool());
        assert!(is_exact.is_none() || exact == is_exact, "{name}: {exact:?}");
    }
    // A record is repeated only with the instructions that it was made with: those of the corpus are AVX-512.
    let corpus = (instructions() == "V4").then(|| folder("record/whole"));
    for record in [record().unwrap().write()].into_iter().chain(corpus) {
        let replay = Replay::open(record.path().join("run.rec")).unwrap();
        for replay in [replay.clone(), replay.from_fragments()] {
            let run = repeat(replay, None).unwrap();
            assert_eq!((run.reason, run.steps.sampled.env), (Some(StopReason::Replayed), ENV_STEPS / 2));
        }
    }
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

/// What panicked, also on threads of runs, which make an error of it.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn panics() -> MutexGuard<'static, Vec<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps what panics from now on.
fn keep_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            panics().push(info.to_string());
            print(info);
        }));
    });
}

/// Runs them on a thread of their own, so that one which hangs is named.
fn holds(target: Target, path: &Path, inputs: Vec<Vec<u8>>) {
    keep_panics();
    let (begins, begun) = sync_channel(0);
    let thread = thread::spawn(move || {
        inputs.into_iter().all(|input| {
            let _ = begins.send(input.clone());
            (target.run)(&input);
            panics().is_empty()
        })
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
    let holds = thread.join().unwrap_or_default();
    let (panics, last) = (panics().clone(), last.escape_ascii());
    assert!(holds, "{} or a neighbour: {last}\n{panics:#?}\nThe promise: {}", path.display(), target.promise);
}
