//! A file of results that takes long to read.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;

use pronk_dashboard::Dashboard;
use serde_json::json;

use super::http::json;
use super::{id, list_of, make_run, wait_for};

#[test]
fn a_large_file_is_sampled_and_then_read_whole() {
    const N: u64 = 60_000;
    let runs = tempfile::tempdir().unwrap();
    let run = make_run(&runs.path().join("a"), 1, 0);
    let filler = "x".repeat(900);
    let mut text = String::new();
    for i in 1..=N {
        let (env_steps, mean) = (10 * i, (i as f64).sqrt());
        writeln!(
            text,
            "{{\"training_iteration\":{i},\"num_env_steps_sampled\":{env_steps},\"episode_return_mean\":{mean},\
             \"filler\":\"{filler}\"}}"
        )
        .unwrap();
    }
    fs::write(run.join("results.jsonl"), text).unwrap();
    let watch = Dashboard::watch("127.0.0.1:0", [runs.path()]).unwrap();
    let addr = watch.addr();
    let path = format!("/api/runs/{}", id(&list_of(addr, 1), "a"));
    // A sample with the first and the last result, or all. A unit test checks that a sample comes first.
    let first = json(addr, &path);
    assert_eq!((&first["summary"]["results"], &first["env_steps"]), (&json!(N), &json!((10 * N).to_string())));
    let points = first["returns"]["x"].as_array().unwrap();
    assert!(points.len() > 150 && points[0] == 10.0, "{points:?}");
    let read = if first["sample"].is_null() { &json!(N) } else { &first["sample"]["read"] };
    assert_eq!(&first["results"], read);
    let mut file = OpenOptions::new().append(true).open(run.join("results.jsonl")).unwrap();
    writeln!(file, "{{\"training_iteration\":{},\"num_env_steps_sampled\":{}}}", N + 1, 10 * N + 10).unwrap();
    let whole = wait_for("all results", || Some(json(addr, &path)).filter(|whole| whole["results"] == N + 1));
    assert_eq!((&whole["sample"], &whole["env_steps"]), (&json!(null), &json!((10 * N + 10).to_string())));
}
