//! `pronk compare`.

use std::fs;

use super::sweep::CONFIG;
use super::{json, pronk};

#[test]
fn a_folder_that_cannot_be_compared_is_skipped_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("config.toml"), CONFIG).unwrap();
    let (status, _, errors) = pronk(folder, &["train", "config.toml", "--quiet"]);
    assert_eq!(status, 0, "{errors}");
    // As programs of one's own leave it, without the settings in the form of the program's.
    fs::create_dir_all(folder.join("runs/mine")).unwrap();
    fs::write(folder.join("runs/mine/results.jsonl"), "{}\n").unwrap();
    fs::create_dir_all(folder.join("runs/empty")).unwrap();

    let (status, line, errors) = pronk(folder, &["compare", "runs/empty", "runs/latest", "runs/mine", "--json"]);
    assert_eq!((status, json(&line)["runs"].as_array().unwrap().len()), (0, 1), "{errors}");
    let lines: Vec<&str> = errors.lines().collect();
    assert!(lines.len() == 2 && lines.iter().all(|line| line.starts_with("warning: skipped: ")), "{errors}");
    assert!(lines[0].contains("runs/empty holds no run") && lines[1].contains("runs/mine/config.toml"), "{errors}");

    // The last line may be in the middle of being written; another one that is no result is damage.
    let results = fs::read_to_string(folder.join("runs/latest/results.jsonl")).unwrap();
    fs::write(folder.join("runs/latest/results.jsonl"), format!("{results}{{\"num_env")).unwrap();
    let (status, _, errors) = pronk(folder, &["compare", "runs/latest"]);
    assert_eq!((status, &*errors), (0, ""));
    fs::write(folder.join("runs/latest/results.jsonl"), format!("dust\n{results}")).unwrap();
    let (status, _, errors) = pronk(folder, &["compare", "runs/latest"]);
    assert!(status == 1 && errors.contains("results.jsonl:1 is no result: "), "{errors}");

    let (status, text, errors) = pronk(folder, &["compare", "runs/empty", "runs/mine"]);
    assert_eq!((status, &*text), (1, ""), "{errors}");
    assert!(errors.contains("warning: skipped: runs/empty") && errors.contains("error: "), "{errors}");
}

#[test]
fn a_folder_of_runs_stands_for_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("config.toml"), CONFIG).unwrap();
    for seed in ["1", "2", "3"] {
        let (status, _, errors) = pronk(folder, &["train", "config.toml", "--quiet", "--seed", seed]);
        assert_eq!(status, 0, "{errors}");
    }
    let (status, line, errors) = pronk(folder, &["compare", "runs", "runs/latest", "--json"]);
    assert_eq!((status, &*errors), (0, ""));
    let seeds: Vec<_> = json(&line)["runs"].as_array().unwrap().iter().map(|run| run["seed"].clone()).collect();
    assert_eq!(seeds, [1, 2, 3], "each of them once, in the order of their names");
}
