#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::*;

#[test]
fn times_are_those_of_the_calendar() {
    for (secs, expected) in [
        (0, "19700101T000000Z"),
        (951_782_400, "20000229T000000Z"),
        (4_107_542_399, "21000228T235959Z"),
        (4_107_542_400, "21000301T000000Z"),
        (1_798_761_599, "20261231T235959Z"),
        (1_795_409_573, "20261123T045253Z"),
    ] {
        assert_eq!(utc(secs), expected);
    }
}

#[test]
fn runs_that_begin_at_once_get_folders_of_their_own_and_the_link_is_always_there() {
    let runs = tempfile::tempdir().unwrap();
    let latest = runs.path().join("latest");
    let first = RunFolder::create(runs.path(), 3).unwrap();
    let create = || (0..10).map(|_| RunFolder::create(runs.path(), 3).unwrap()).collect::<Vec<_>>();
    let made: Vec<RunFolder> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            assert!(cfg!(not(unix)) || latest.exists());
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).chain([first.clone()]).collect()
    });
    let paths: BTreeSet<_> = made.iter().map(RunFolder::path).collect();
    assert_eq!(paths.len(), 41);
    assert!(paths.iter().all(|path| path.file_name().unwrap().to_str().unwrap().contains("Z-s3")));
    if cfg!(unix) {
        let target = fs::read_link(&latest).unwrap();
        assert!(target.is_relative() && paths.contains(runs.path().join(target).as_path()));
        // Nothing but folders and the link.
        assert_eq!(fs::read_dir(runs.path()).unwrap().count(), 42);
    }
}

#[test]
fn a_folder_is_claimed_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b");
    let claimed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| claim(&path))).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap().ok()).count()
    });
    assert_eq!(claimed, 1);
    let text = RunFolder::at(&path).unwrap_err().to_string();
    assert!(text.contains("a/b holds a run already (results.jsonl); name another folder"), "{text}");
}

#[test]
fn a_folder_with_a_policy_or_events_alone_holds_a_run_and_one_with_notes_does_not() {
    let events = "events.out.tfevents.1.host.2.3";
    for (file, is_run) in [(MANIFEST, true), (events, true), ("checkpoints/manifest.json", true), ("notes.md", false)] {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("checkpoints")).unwrap();
        fs::write(folder.path().join(file), "").unwrap();
        assert_eq!(RunFolder::at(folder.path()).is_err(), is_run, "{file}");
    }
}

#[test]
#[cfg(unix)]
fn links_are_followed_once_and_what_no_run_wrote_is_refused() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("a/below")).unwrap();
    symlink("a", root.join("link")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    for (given, real) in [("link", "a"), ("link/", "a"), ("link/below/..", "a"), ("link/new/one", "a/new/one")] {
        assert_eq!(RunFolder::at(root.join(given)).unwrap().path(), root.join(real), "{given}");
        assert_eq!(RunFolder::going_on(root.join(given)).path(), root.join(real), "{given}");
    }
    assert_eq!(RunFolder::create(root.join("link"), 3).unwrap().path().parent(), Some(&*root.join("a")));
    let text = RunFolder::at(root.join("dangling")).unwrap_err().to_string();
    assert!(text.contains("it is a link that leads nowhere"), "{text}");

    assert_eq!(resolved(Path::new("src/../src")), Path::new("src"), "relative as it was given");
    assert_eq!(resolved(Path::new("..")), std::env::current_dir().unwrap().parent().unwrap());
    assert_eq!(resolved(Path::new("")), std::env::current_dir().unwrap());
    for name in [RUN_INFO, "log.txt", "timeline.json"] {
        let other = root.join("of").join(name);
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join(name), "mine").unwrap();
        let text = RunFolder::at(&other).unwrap_err().to_string();
        assert!(text.contains(&format!("has a file {name} but no run")), "{text}");
    }
}

#[test]
#[cfg(unix)]
fn what_is_no_link_is_not_replaced_by_one() {
    let runs = tempfile::tempdir().unwrap();
    let latest = runs.path().join(LATEST);
    fs::write(&latest, "mine").unwrap();
    let text = RunFolder::create(runs.path(), 3).unwrap_err().to_string();
    assert!(text.contains("it is no link"), "{text}");
    assert_eq!(fs::read_to_string(&latest).unwrap(), "mine");
    assert_eq!(fs::read_dir(runs.path()).unwrap().count(), 1, "the folder is gone again");
}

#[test]
fn an_earlier_run_is_kept_aside_as_asked_and_nothing_else_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let events = "events.out.tfevents.1.host.2.3";
    let write =
        |text: &str| [RESULTS, events, MANIFEST, "notes.md"].map(|file| fs::write(path.join(file), text).unwrap());
    write("first");
    RunFolder::resume(path).unwrap();
    assert!(claim(path).is_ok(), "it is free for the next life");
    write("second");
    RunFolder::resume(path).unwrap();
    for (life, text) in [("life-1", "first"), ("life-2", "second")] {
        for file in [RESULTS, events] {
            assert_eq!(fs::read_to_string(path.join(life).join(file)).unwrap(), text);
        }
        assert_eq!(fs::read_dir(path.join(life)).unwrap().count(), 2);
    }
    assert!(path.join(MANIFEST).exists() && path.join("notes.md").exists());
}

#[test]
fn a_run_that_is_overwritten_leaves_only_what_is_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let own = [
        "results.jsonl",
        "results.jsonl.life-1",
        "progress.csv",
        "report.html",
        "timers.json",
        "timeline.json",
        "run.json",
        "run.json.new",
        "log.txt",
        "events.out.tfevents.1.host.2.3",
        "events.life-2",
        "manifest.json",
        "policy-0af3c5d7.safetensors",
        "optimizer-0af3c5d70af3c5d70af3c5d70af3c5d7.safetensors",
        "policy.onnx",
        "best-policy.safetensors",
        "life-1/results.jsonl",
        "checkpoints/manifest.json",
        "checkpoints/manifest-000003.json",
        "checkpoints/run-0af3c5d70af3c5d70af3c5d70af3c5d7.bin",
        "checkpoints/best/manifest.json",
        "checkpoints/best/policy-0af3c5d70af3c5d70af3c5d70af3c5d7.safetensors",
        "videos/evaluation-000000050000.png",
        "videos/evaluation-1234567890123.png",
    ];
    let others = [
        "config.toml",
        "notes.md",
        "life-story.md",
        "life-2/notes.md",
        "videos/mine.png",
        "videos/evaluation-7.png",
        "videos/evaluation-of-mine.png",
        "policy.md",
        "policy-1M.safetensors",
        "run-7.bin",
    ];
    for file in own.iter().chain(&others) {
        let file = path.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
    RunFolder::overwrite(path).unwrap();
    let left: Vec<_> = own.iter().filter(|file| path.join(file).exists()).collect();
    assert!(left.is_empty(), "{left:?}");
    for file in others {
        assert!(path.join(file).exists(), "{file}");
    }
    assert!(!path.join("checkpoints").exists() && !path.join("life-1").exists(), "empty folders go too");
    assert!(claim(path).is_ok());
    RunFolder::overwrite(path.join("missing")).unwrap();
}

#[test]
fn a_named_folder_for_a_run_that_did_not_begin_is_removed_unless_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("above/run");
    let made = RunFolder::at(&path).unwrap();
    assert!(path.is_dir());
    fs::write(path.join("notes.md"), "no environment").unwrap();
    // It was there, so it may be of something else.
    RunFolder::at(&path).unwrap().discard().unwrap();
    assert!(path.join("notes.md").exists());
    made.clone().discard().unwrap();
    assert!(!path.exists());

    let made = RunFolder::at(&path).unwrap();
    claim(&path).unwrap();
    made.discard().unwrap();
    assert!(path.join(RESULTS).exists(), "another run with this name was faster");
}

#[test]
#[cfg(unix)]
fn a_folder_for_a_run_that_did_not_begin_leaves_no_trace() {
    let runs = tempfile::tempdir().unwrap();
    let create = || RunFolder::create(runs.path(), 3).unwrap();
    create().discard().unwrap();
    assert_eq!(fs::read_dir(runs.path()).unwrap().count(), 0);

    let kept = create();
    let discarded = create();
    fs::write(discarded.path().join("log.txt"), "no environment").unwrap();
    discarded.clone().discard().unwrap();
    assert!(!discarded.path().exists());
    assert_eq!(RunFolder::newest(runs.path()).canonicalize().unwrap(), kept.path().canonicalize().unwrap());

    // The link stays if it is another run's by now, and so does a folder that was named.
    let discarded = create();
    let newest = create();
    discarded.discard().unwrap();
    assert_eq!(RunFolder::newest(runs.path()).canonicalize().unwrap(), newest.path().canonicalize().unwrap());
    RunFolder::going_on(newest.path()).discard().unwrap();
    assert!(newest.path().exists());
}
