//! Arguments of environments, on their way to the process that makes them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::pronk;

/// An interpreter that keeps the first line that it is told, and makes nothing.
const PYTHON: &str = "#!/bin/sh\nhead -n 1 > told.json\necho '{\"protocol\":1,\"error\":\"it was told\"}'\n";

const FILE: &str = r#"
env = "gymnasium:Any-v0"
stop.iterations = 1
[env_options]
python = "./python"
kwargs = { hard = true, limit = inf, padding = "none", token = { env = "PRONK_TEST_TOKEN" } }
"#;

/// A folder with the config and the interpreter.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("run.toml"), FILE).unwrap();
    fs::write(folder.path().join("python"), PYTHON).unwrap();
    assert!(Command::new("chmod").args(["+x", "python"]).current_dir(folder.path()).status().unwrap().success());
    folder
}

/// The arguments in the line that an interpreter was told by `pronk` with these arguments, and what `pronk`
/// printed.
fn told(folder: &Path, args: &[&str]) -> (Value, String) {
    let program = Command::new(env!("CARGO_BIN_EXE_pronk"))
        .args(args)
        .current_dir(folder)
        .env("PRONK_TEST_TOKEN", "a secret")
        .output()
        .unwrap();
    let errors = String::from_utf8(program.stderr).unwrap();
    let line = fs::read_to_string(folder.join("told.json")).unwrap_or_else(|error| panic!("{error}: {errors}"));
    fs::remove_file(folder.join("told.json")).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    (told["config"]["kwargs"].clone(), errors)
}

#[test]
fn arguments_arrive_as_they_were_written_also_when_a_run_is_evaluated_and_resumed() {
    let folder = folder();
    let folder = folder.path();
    let [inf, token] = [json!({ "float": "inf" }), json!({ "env": "PRONK_TEST_TOKEN" })];
    let of_file = json!({ "hard": true, "limit": inf, "padding": "none", "token": token });
    let (kwargs, errors) = told(folder, &["train", "run.toml"]);
    assert_eq!(kwargs, of_file, "{errors}");
    assert!(errors.contains("it was told"), "{errors}");
    let flags =
        ["hard=false", "limit=nan", "padding=none", "name=\"none\""].map(|flag| format!("env_options.kwargs.{flag}"));
    let flags: Vec<&str> = flags.iter().flat_map(|flag| ["--set", flag.as_str()]).collect();
    let (kwargs, errors) = told(folder, &[&["train", "run.toml"][..], &flags].concat());
    let of_flags = json!({
        "hard": false, "limit": { "float": "nan" }, "padding": { "none": true }, "token": token, "name": "none",
    });
    assert_eq!(kwargs, of_flags, "{errors}");

    // A run with a policy and a checkpoint, whose settings then name this environment.
    let cartpole = "env = \"CartPole-v1\"\nstop.iterations = 1\nworkers.num_rollout_workers = 0";
    fs::write(folder.join("cartpole.toml"), cartpole).unwrap();
    let (status, _, errors) = pronk(folder, &["train", "cartpole.toml", "--out", "run", "--quiet"]);
    assert_eq!(status, 0, "{errors}");
    fs::write(folder.join("run/config.toml"), FILE).unwrap();
    assert_eq!(told(folder, &["evaluate", "run"]).0, of_file);
    assert_eq!(told(folder, &["train", "--resume", "run"]).0, of_file);
}

#[test]
fn a_variable_that_is_not_set_is_an_error_before_anything_starts() {
    let folder = folder();
    let folder = folder.path();
    let sweep = "config = \"run.toml\"\n[parameters]\nlearner.lr = [0.1]";
    fs::write(folder.join("sweep.toml"), sweep).unwrap();
    for args in [["train", "run.toml"], ["sweep", "sweep.toml"]] {
        let (status, text, errors) = pronk(folder, &args);
        assert_eq!(status, 2, "{text}{errors}");
        assert!(errors.contains("the environment variable PRONK_TEST_TOKEN is not set"), "{errors}");
    }
    assert!(!["told.json", "runs", "sweeps"].iter().any(|name| folder.join(name).exists()));
}

#[test]
fn a_flag_that_python_would_take_for_something_else_is_refused() {
    let folder = folder();
    let (status, _, errors) = pronk(folder.path(), &["train", "run.toml", "--set", "env_options.kwargs.hard=False"]);
    assert!(status == 2 && errors.contains("write false, or for a text quotes as well: '\"False\"'"), "{errors}");
}
