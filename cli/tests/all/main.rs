//! The program as a user meets it: its commands, what they print, and their exit statuses.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Runs `pronk` in `folder`; its exit status and what it printed.
fn pronk(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let output: Output =
        Command::new(env!("CARGO_BIN_EXE_pronk")).args(args).current_dir(folder).env("NO_COLOR", "1").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(line: &str) -> Value {
    assert_eq!(line.trim().lines().count(), 1, "{line}");
    serde_json::from_str(line).unwrap()
}

fn config(name: &str) -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/").to_owned() + name
}

#[test]
fn a_first_session_trains_evaluates_compares_and_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cartpole = config("cartpole.toml");
    let (status, line, errors) = pronk(folder, &["train", &cartpole, "--seed", "1", "--json"]);
    assert_eq!(status, 0, "{errors}");
    let run = json(&line);
    assert!(run["reached"] == true && run["ledger_closed"] == true, "{run}");
    assert_eq!(errors, "", "--json prints one line and nothing else");

    let (status, line, errors) = pronk(folder, &["evaluate", "runs/latest", "--episodes", "20", "--json"]);
    assert_eq!(status, 0, "{errors}");
    // It was trained; chance holds the pole for about 22 steps. How well it does in few episodes varies.
    assert!(json(&line)["episode_return_mean"].as_f64().unwrap() > 100.0, "{line}");

    let video = ["evaluate", "runs/latest", "--episodes", "1", "--video", "videos/episode.png"];
    let (status, text, errors) = pronk(folder, &video);
    assert!(status == 0 && text.contains("over 1 episode"), "{text}{errors}");
    assert!(fs::read(folder.join("videos/episode.png")).unwrap().starts_with(b"\x89PNG"));

    let other = ["train", &cartpole, "--seed", "2", "--out", "other", "--set", "lr_schedule=none", "--quiet"];
    // Without a target, so that it need not learn.
    let other = [&other[..], &["--set", "stop.episode_return_mean=none", "--set", "stop.env_steps=50000"]].concat();
    let (status, text, errors) = pronk(folder, &other);
    assert_eq!(status, 0, "{errors}");
    assert!(text.contains("mean return") && text.contains("other"), "{text}");
    let (status, text, errors) = pronk(folder, &["compare", "runs/latest", "other", "other/"]);
    assert_eq!(status, 0, "{errors}");
    assert!(text.contains("learner.lr_schedule"), "{text}");
    assert_eq!(text.matches("finished").count(), 2, "a run that is named twice is one run: {text}");
    let (_, line, _) = pronk(folder, &["compare", "runs/latest", "other", "--json"]);
    let compared = json(&line);
    assert_eq!(compared["groups"].as_array().unwrap().len(), 2);
    assert!(compared["runs"][0]["env_steps_to_target"].as_u64().unwrap() > 0);

    for (format, file) in [("onnx", "runs/latest/policy.onnx"), ("safetensors", "runs/latest/policy.safetensors")] {
        let (status, text, errors) = pronk(folder, &["export", "runs/latest", "--format", format]);
        assert_eq!(status, 0, "{errors}");
        assert!(text.contains("policy.") && fs::metadata(folder.join(file)).unwrap().len() > 10_000, "{text}");
    }

    let info: Value = serde_json::from_str(&fs::read_to_string(folder.join("other/run.json")).unwrap()).unwrap();
    assert!(info["outcome"]["reached"] == false && info["machine"]["processors"].as_u64() > Some(0), "{info}");
}

#[test]
fn the_config_of_every_native_environment_learns() {
    let folder = tempfile::tempdir().unwrap();
    // On one thread the same seed is the same run, however busy the machine is.
    let configs = ["acrobot", "mountain_car", "mountain_car_continuous", "pendulum", "masked", "recall", "rendezvous"];
    for name in configs {
        let args = ["train", &config(&format!("{name}.toml")), "--seed", "1", "--json"];
        let (status, line, errors) = pronk(folder.path(), &args);
        assert_eq!(status, 0, "{name}: {line}{errors}");
        assert!(json(&line)["reached"] == true && json(&line)["ledger_closed"] == true, "{name}: {line}");
    }
    // It plays against itself, so there is no return to reach.
    let games = ["train", &config("tic_tac_toe.toml"), "--set", "stop.env_steps=20000", "--json"];
    let (status, line, errors) = pronk(folder.path(), &games);
    assert_eq!((status, json(&line)["ledger_closed"].as_bool()), (0, Some(true)), "{errors}");
}

#[test]
fn the_file_in_its_folder_repeats_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let pendulum = config("pendulum.toml");
    let short = ["--set", "stop.env_steps=20000", "--set", "stop.episode_return_mean=none"];
    let first = [&["train", &pendulum, "--out", "first", "--json", "--seed", "7"][..], &short].concat();
    let (status, first, errors) = pronk(folder, &first);
    assert_eq!(status, 0, "{errors}");
    let (status, second, errors) = pronk(folder, &["train", "first/config.toml", "--out", "second", "--json"]);
    assert_eq!(status, 0, "{errors}");
    assert_eq!(json(&first)["weights_digest"], json(&second)["weights_digest"]);
}

#[test]
fn a_run_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let acrobot = config("acrobot.toml");
    let limits = ["--set", "stop.env_steps=20000", "--set", "stop.episode_return_mean=none"];
    let begin = [&["train", &acrobot, "--out", "run", "--quiet"][..], &limits].concat();
    let (status, _, errors) = pronk(folder, &begin);
    assert_eq!(status, 0, "{errors}");
    let (status, line, errors) =
        pronk(folder, &["train", "--resume", "run", "--set", "stop.env_steps=40000", "--json"]);
    assert_eq!(status, 0, "{errors}");
    assert!(json(&line)["env_steps"].as_u64().unwrap() >= 40_000, "{line}");
    let results = fs::read_to_string(folder.join("run/results.jsonl")).unwrap();
    let iterations: Vec<u64> = results.lines().map(|line| json(line)["training_iteration"].as_u64().unwrap()).collect();
    assert_eq!(iterations, (1..=iterations.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_run_is_shown_as_running_and_then_as_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let endless = ["--set", "stop.env_steps=none", "--set", "stop.episode_return_mean=none", "--out", "run", "--quiet"];
    let acrobot = config("acrobot.toml");
    let train = [&["train", &acrobot][..], &endless].concat();
    let mut child = Command::new(env!("CARGO_BIN_EXE_pronk"))
        .args(train)
        .current_dir(folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let state = || {
        let (status, line, _) = pronk(folder, &["compare", "run", "--json"]);
        (status == 0).then(|| json(&line)["runs"][0]["state"].as_str().unwrap().to_owned())
    };
    // Until it has written its first files.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !matches!(state().as_deref(), Some("running")) {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "{:?}", state());
        std::thread::park_timeout(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(state().as_deref(), Some("killed"));
}

#[test]
fn every_printed_config_is_read_and_names_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (status, line, errors) = pronk(folder, &["envs", "--json"]);
    assert_eq!(status, 0, "{errors}");
    let envs = json(&line);
    let native = envs["native"].as_array().unwrap().iter().map(|env| env["env"].as_str().unwrap().to_owned());
    let others = ["gymnasium:HalfCheetah-v5", "atari:MsPacman", "pettingzoo:some.module"].map(str::to_owned);
    for env in native.chain(others) {
        let (status, text, errors) = pronk(folder, &["config", &env]);
        assert_eq!(status, 0, "{env}: {errors}");
        assert!(text.contains(&format!("env = \"{env}\"")) && text.starts_with('#'), "{text}");
        fs::write(folder.join("config.toml"), text).unwrap();
        // All settings are read and checked before the limit is refused.
        let (status, _, errors) = pronk(folder, &["train", "config.toml", "--set", "stop.nothing=1"]);
        assert_eq!(status, 2);
        assert!(errors.contains("--set stop.nothing=1: unknown key"), "{env}: {errors}");
    }
}

#[test]
fn bad_input_is_refused_with_status_2_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("bad.toml"), "env = \"CartPole-v1\"\n[learner]\nlrr = 1\n").unwrap();
    fs::write(folder.join("env.toml"), "env = \"CartPole\"\n").unwrap();
    fs::write(folder.join("option.toml"), "env = \"CartPole-v1\"\nenv_options.python = \"py\"\n").unwrap();
    fs::create_dir(folder.join("empty")).unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["train"], "<CONFIG>"),
        (&["train", "bad.toml"], "bad.toml:3:1: unknown key `learner.lrr`: did you mean `learner.lr`?"),
        (&["train", "none.toml"], "cannot read none.toml"),
        (&["train", "env.toml"], "did you mean `CartPole-v1`?"),
        (&["train", "option.toml"], "`env_options.python` is not for `CartPole-v1`"),
        (&["train", "env.toml", "--set", "lr"], "KEY=VALUE"),
        (&["train", "--resume", "empty"], "holds no run"),
        (&["evaluate", "empty"], "holds no run"),
        (&["evaluate", "nowhere"], "holds no run"),
        (&["compare", "empty"], "holds no run"),
        (&["export", "empty"], "holds no run"),
        (&["config", "CartPol"], "did you mean `CartPole-v1`?"),
        (&["completions", "tcsh"], "possible values"),
        (&["dance"], "unrecognized subcommand"),
    ];
    for (args, expected) in cases {
        let (status, text, errors) = pronk(folder, args);
        assert_eq!(status, 2, "{args:?}: {text}{errors}");
        assert!(errors.contains(expected), "{args:?}: {errors}");
    }
    assert!(!folder.join("runs").exists(), "what is refused makes no folder");
}

#[test]
fn a_target_that_is_missed_is_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["train", &config("acrobot.toml"), "--set", "stop.env_steps=2000", "--json"];
    let (status, line, _) = pronk(folder.path(), &args);
    assert_eq!((status, json(&line)["reached"].as_bool()), (1, Some(false)));
}

#[test]
fn a_reader_that_is_gone_is_no_failure_and_a_full_disk_is_one() {
    let program = || Command::new(env!("CARGO_BIN_EXE_pronk"));
    let mut child = program().args(["config", "CartPole-v1"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    if let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") {
        let output = program().args(["config", "CartPole-v1"]).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stderr).unwrap().contains("cannot write"));
    }
}

#[test]
fn completions_and_the_doctor_need_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let (status, text, _) = pronk(folder.path(), &["completions", shell]);
        assert!(status == 0 && text.contains("pronk"), "{shell}");
    }
    let (status, text, _) = pronk(folder.path(), &["doctor", "--python", "no-such-interpreter"]);
    assert!(status == 0 && text.contains("missing python") && text.contains("--python"), "{text}");
}
