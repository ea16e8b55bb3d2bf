//! Runs that break one thing each are found, by a driver that watches real processes.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Runs cells for some seconds; what each has failed, and whether the driver has passed them.
fn soak(cells: &[&str], secs: &str) -> (BTreeMap<String, Vec<String>>, bool) {
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pronk-soak"));
    command.args(["--secs", secs, "--jobs", "4", "--out"]).arg(out.path());
    let output = command.args(cells.iter().flat_map(|cell| ["--cell", cell])).output().unwrap();
    let rows = std::fs::read_to_string(out.path().join("soak.jsonl")).unwrap();
    let row = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let failures = row["failures"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
        (row["cell"].as_str().unwrap().to_owned(), failures.collect())
    };
    let rows: BTreeMap<_, _> = rows.lines().map(row).collect();
    assert_eq!(rows.len(), cells.len(), "{}", String::from_utf8_lossy(&output.stderr));
    (rows, output.status.success())
}

/// A cell, and the check that fails it.
const BROKEN: [(&str, &str); 8] = [
    ("leaks-descriptors", "descriptors: "),
    ("leaks-threads", "left behind: threads: "),
    ("leaks-memory", "memory: "),
    ("leaks-memory", "heap: "),
    ("skips-a-step", "steps made: "),
    ("stalls", "hang: no new env-steps for"),
    ("ignores-signals", "hang: it runs "),
    ("fails", "failure: "),
];

#[test]
fn each_broken_run_is_found_by_its_check() {
    let cells = BTreeSet::from(BROKEN.map(|(cell, _)| cell));
    let (rows, passed) = soak(&Vec::from_iter(cells), "8");
    assert!(!passed, "a failed check fails the whole");
    for (cell, check) in BROKEN {
        assert!(rows[cell].iter().any(|failure| failure.starts_with(check)), "{cell}: {:?}", rows[cell]);
    }
}

#[test]
fn a_sound_run_passes() {
    let (rows, passed) = soak(&["plain"], "3");
    assert!(passed, "{rows:?}");
}
