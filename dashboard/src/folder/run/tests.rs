use std::fs;

use serde_json::json;

use super::*;

#[test]
fn a_run_has_completed_unless_it_is_to_go_on_or_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("results.jsonl", "{\"training_iteration\":1,\"num_env_steps_sampled\":100}\n");
    let ended = |reason: &str| json!({"reason": reason, "failure": null});
    let cases = [
        (ended("env_steps"), 100, true),
        (ended("env_steps"), 400, false),
        (ended("return_reached"), 400, true),
        (ended("time"), 100, true),
        (ended("time"), 400, false),
        (ended("iterations"), 400, false),
        (ended("terminated"), 400, false),
        (json!({"reason": "env_steps", "failure": "it broke"}), 100, false),
        (Value::Null, 100, false),
    ];
    for (outcome, limit, expected) in cases {
        write("config.toml", &format!("stop.env_steps = {limit}"));
        write("run.json", &json!({"outcome": outcome}).to_string());
        let mut run = FolderRun::new(Place::named(folder.path()), None);
        run.look(None);
        assert_eq!(run.has_completed(), expected, "{outcome} {limit}");
    }
}
