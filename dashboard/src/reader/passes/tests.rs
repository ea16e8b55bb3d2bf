use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use crossbeam_channel::{Sender, bounded};
use serde_json::json;

use super::*;
use crate::board::Details;

fn passes(root: &Path) -> (Passes, Arc<Board>, Sender<()>) {
    let board = Arc::new(Board::new(Vec::new()));
    let (wake, woken) = bounded(1);
    (Passes::new(vec![root.to_owned()], Arc::clone(&board), woken), board, wake)
}

fn result(i: u64) -> String {
    json!({"training_iteration": i, "num_env_steps_sampled": 10 * i, "episode_return_mean": i}).to_string() + "\n"
}

/// Makes the folder of a run, and says its id.
fn make_run(folder: &Path, results: &str) -> String {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("results.jsonl"), results).unwrap();
    id(&folder.canonicalize().unwrap())
}

fn large() -> String {
    let filler = format!(",\"filler\":\"{}\"}}", "x".repeat(1000));
    (1..=20_000).map(|i| result(i).replace('}', &filler)).collect()
}

fn details(board: &Board, id: &str) -> Option<Details> {
    board.ask(id).unwrap().details
}

#[test]
fn runs_are_loaded_when_they_are_asked_for_and_never_more_than_there_is_room_for() {
    let root = tempfile::tempdir().unwrap();
    let ids: Vec<String> =
        (0..MAX_LOADED + 4).map(|i| make_run(&root.path().join(i.to_string()), &result(1))).collect();
    let (mut passes, board, _wake) = passes(root.path());
    assert!(!board.list().is_complete);
    assert!(passes.pass().is_continue());
    assert!(board.list().is_complete && board.list().runs.len() == ids.len());
    let n_loaded = |passes: &Passes| passes.runs.values().filter(|run| run.is_loaded()).count();
    assert_eq!(n_loaded(&passes), 0);
    for (i, id) in ids.iter().enumerate() {
        passes.load(id.clone());
        assert_eq!(n_loaded(&passes), (i + 1).min(MAX_LOADED));
        assert!(details(&board, id).is_some());
    }
    assert!(details(&board, &ids[3]).is_none() && details(&board, &ids[4]).is_some());
}

#[test]
fn a_sample_is_shown_until_all_is_read_and_other_runs_are_loaded_meanwhile() {
    let root = tempfile::tempdir().unwrap();
    let id = make_run(&root.path().join("large"), &large());
    let other = make_run(&root.path().join("small"), &result(1));
    let (mut passes, board, wake) = passes(root.path());
    assert!(passes.pass().is_continue());
    assert!(details(&board, &id).is_none());
    assert!(passes.pass().is_continue());
    let sample = details(&board, &id).unwrap().sample.unwrap();
    assert!((256..1000).contains(&sample.read) && (19_000..21_000).contains(&sample.of), "{sample:?}");

    assert!(details(&board, &other).is_none());
    wake.send(()).unwrap();
    assert!(passes.read_slices().is_continue());
    assert!(details(&board, &other).is_some() && details(&board, &id).unwrap().sample.is_some());
    while details(&board, &id).unwrap().sample.is_some() {
        assert!(passes.pass().is_continue());
    }
    assert_eq!(details(&board, &id).unwrap().history.to_json(&json!(null))["results"], 20_000);
}

#[test]
fn only_sweeps_that_have_changed_are_made_again() {
    let root = tempfile::tempdir().unwrap();
    let sweep = |name: &str| {
        let folder = root.path().join(name);
        make_run(&folder.join("trial"), &result(1));
        for file in ["sweep.toml", "base.toml", "trial/trial.json"] {
            fs::write(folder.join(file), "").unwrap();
        }
        (id(&folder.canonicalize().unwrap()), folder)
    };
    let ((a, folder), (b, _)) = (sweep("a"), sweep("b"));
    let (mut passes, board, _wake) = passes(root.path());
    assert!(passes.pass().is_continue());
    let shown = || [&a, &b].map(|id| board.sweep(id).unwrap());
    let before = shown();
    assert_eq!(before[0].answer["rows"][0]["value"], 1.0);

    let mut search = || {
        passes.next_search = Instant::now();
        assert!(passes.pass().is_continue());
    };
    search();
    assert!(before.iter().zip(shown()).all(|(before, now)| Arc::ptr_eq(before, &now)));
    let mut results = OpenOptions::new().append(true).open(folder.join("trial/results.jsonl")).unwrap();
    results.write_all(result(2).as_bytes()).unwrap();
    search();
    assert_eq!(shown()[0].answer["rows"][0]["value"], 2.0);
    assert!(Arc::ptr_eq(&before[1], &shown()[1]));
    fs::write(folder.join("trial/trial.json"), "{\"trial\": 7}").unwrap();
    search();
    assert_eq!(shown()[0].answer["rows"][0]["trial"], 7);
    fs::remove_file(folder.join("trial/results.jsonl")).unwrap();
    search();
    assert_eq!(shown()[0].answer["rows"][0]["run"], json!(null));
    fs::remove_file(folder.join("trial/trial.json")).unwrap();
    search();
    assert_eq!(shown()[0].answer["rows"], json!([]));
}
