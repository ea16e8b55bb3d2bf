//! What `pronk train` makes of the folder of a run: when it begins, goes on, is overwritten, or cannot begin.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{config, pronk};

/// Trains for so many env-steps.
fn train(folder: &Path, args: &[&str], env_steps: u64) -> (i32, String, String) {
    let limit = format!("stop.env_steps={env_steps}");
    let short = ["--quiet", "--set", "stop.episode_return_mean=none", "--set", &limit];
    pronk(folder, &[&["train"][..], args, &short].concat())
}

/// All files below a folder, with their contents.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

/// A config of an environment in other processes.
fn gymnasium(folder: &Path) {
    let (status, config, errors) = pronk(folder, &["config", "gymnasium:CartPole-v1"]);
    assert_eq!(status, 0, "{errors}");
    fs::write(folder.join("gymnasium.toml"), config).unwrap();
}

const NO_PYTHON: [&str; 3] = ["gymnasium.toml", "--set", "env_options.python=no-such-interpreter"];

#[test]
fn a_run_is_overwritten_whole_and_only_once_the_new_one_can_begin() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let run = folder.join("run");
    let acrobot = config("acrobot.toml");
    let seeded = |seed| [&*acrobot, "--out", "run", "--seed", seed];
    let (status, _, errors) = train(folder, &seeded("1"), 5000);
    assert_eq!(status, 0, "{errors}");
    // Files that a longer or an earlier run leaves.
    fs::write(run.join("checkpoints/PROGRESS"), "old").unwrap();
    let old = ["videos/evaluation-000000000001.png", "policy.onnx", "timeline.json", "events.out.tfevents.1.old.2.3"];
    fs::create_dir(run.join("videos")).unwrap();
    for file in old.into_iter().chain(["notes.md"]) {
        fs::write(run.join(file), "old").unwrap();
    }

    let before = files(&run);
    gymnasium(folder);
    let timeline = ["--out", "run", "--overwrite", "--set", "log.timeline=true"];
    let (status, _, errors) = train(folder, &[&NO_PYTHON[..], &timeline].concat(), 5000);
    assert!(status == 1 && errors.contains("no-such-interpreter"), "{errors}");
    assert!(files(&run) == before, "a run that cannot begin changes nothing");
    let (status, _, errors) = train(folder, &seeded("2"), 5000);
    assert!(status == 2 && errors.contains("holds a run already"), "{errors}");
    assert!(files(&run) == before, "a run that is refused changes nothing");

    let (status, _, errors) = train(folder, &[&seeded("2")[..], &["--overwrite"]].concat(), 5000);
    assert_eq!(status, 0, "{errors}");
    let after = files(&run);
    for file in old {
        assert!(!after.contains_key(&run.join(file)), "{file}");
    }
    assert_eq!(after[&run.join("notes.md")], b"old");
    assert!(after.contains_key(&run.join(".lock")), "a process that waits for it must find the same file");
    let weights = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "safetensors");
    assert!(before.keys().filter(weights).all(|path| !after.contains_key(path)), "no weights of the old run are left");
    let progress = String::from_utf8_lossy(&after[&run.join("checkpoints/PROGRESS")]).into_owned();
    assert_ne!(progress, "old", "the new run writes it");
    assert!(after.keys().any(|path| path.ends_with("log.txt")) && !run.join(".starting").exists());
    let info: Value = serde_json::from_slice(&after[&run.join("run.json")]).unwrap();
    assert_eq!((info["seed"].as_u64(), info["starts"].as_array().unwrap().len()), (Some(2), 1), "{info}");
}

#[test]
fn a_resumed_run_goes_on_in_its_own_folder_or_an_empty_one_and_not_in_that_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let acrobot = config("acrobot.toml");
    for (name, seed) in [("run", "1"), ("other", "2")] {
        let (status, _, errors) = train(folder, &[&acrobot, "--out", name, "--seed", seed], 5000);
        assert_eq!(status, 0, "{errors}");
    }
    let before = files(&folder.join("other"));
    let (status, _, errors) = train(folder, &["--resume", "run", "--out", "other"], 10_000);
    assert!(status == 2 && errors.contains("other holds a run already"), "{errors}");
    assert!(files(&folder.join("other")) == before, "the other run is as it was");

    // A second name of the same file: its contents change only if the file is written in place.
    fs::hard_link(folder.join("run/config.toml"), folder.join("before.toml")).unwrap();
    let settings = fs::read(folder.join("run/config.toml")).unwrap();
    for out in ["./run/", "copy"] {
        let (status, _, errors) = train(folder, &["--resume", "run", "--out", out], 10_000);
        assert_eq!(status, 0, "{out}: {errors}");
    }
    assert_eq!(fs::read(folder.join("before.toml")).unwrap(), settings);
    assert_ne!(fs::read(folder.join("run/config.toml")).unwrap(), settings);
    let lines = |run: &str| fs::read_to_string(folder.join(run).join("results.jsonl")).unwrap().lines().count();
    assert!(lines("run") > 1 && folder.join("copy/manifest.json").exists());
    let info: Value = serde_json::from_slice(&fs::read(folder.join("run/run.json")).unwrap()).unwrap();
    let starts = info["starts"].as_array().unwrap();
    let from = |start: &Value| start["from_env_steps"].as_u64();
    assert!(starts.len() == 2 && from(&starts[0]).is_none() && from(&starts[1]) >= Some(5000), "{info}");
}

#[test]
fn of_a_run_that_was_killed_after_it_went_on_the_newest_checkpoint_counts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let run = folder.join("run");
    let acrobot = config("acrobot.toml");
    let exported = || {
        let (status, _, errors) = pronk(folder, &["export", "run", "--format", "safetensors", "--out", "policy"]);
        assert_eq!(status, 0, "{errors}");
        fs::read(folder.join("policy")).unwrap()
    };
    let (status, _, errors) = train(folder, &[&acrobot, "--out", "run"], 5000);
    assert_eq!(status, 0, "{errors}");
    let (first_end, first) = (fs::read(run.join("manifest.json")).unwrap(), exported());
    let first_files = files(&run);
    let (status, _, errors) = train(folder, &["--resume", "run"], 10_000);
    assert_eq!(status, 0, "{errors}");
    let second = exported();
    assert_ne!(first, second);

    // As if it had been killed between its last checkpoint and its end.
    for (path, contents) in first_files.iter().filter(|(path, _)| path.parent() == Some(&run)) {
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            fs::write(path, contents).unwrap();
        }
    }
    fs::write(run.join("manifest.json"), first_end).unwrap();
    assert_eq!(exported(), first, "the policy that it ended with");
    let info = fs::read(run.join("run.json")).unwrap();
    let mut info: Value = serde_json::from_slice(&info).unwrap();
    info["outcome"] = Value::Null;
    fs::write(run.join("run.json"), info.to_string()).unwrap();
    assert_eq!(exported(), second);
}

#[test]
fn what_cannot_begin_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    gymnasium(folder);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("log.prometheus={}", taken.local_addr().unwrap());
    let cartpole = config("cartpole.toml");
    let no_python = |out: &'static str| [&NO_PYTHON[..], &["--out", out]].concat();
    let cases: &[(&[&str], i32, &str)] = &[
        (&[&cartpole, "--set", &taken], 1, "the port is taken"),
        (&[&cartpole, "--set", "log.prometheus=nonsense"], 2, "127.0.0.1:9464"),
        (&no_python("named"), 1, "no-such-interpreter"),
        (&[&no_python("named")[..], &["--overwrite"]].concat(), 1, "no-such-interpreter"),
    ];
    for (args, expected, text) in cases {
        let (status, _, errors) = train(folder, args, 5000);
        assert!(status == *expected && errors.contains(text), "{args:?}: {status} {errors}");
    }
    let left: Vec<_> = files(folder).into_keys().collect();
    assert_eq!(left, [folder.join("gymnasium.toml")]);
    assert!(!folder.join("runs").exists() && !folder.join("named").exists());
}

#[test]
fn a_signal_before_the_run_begins_ends_it_without_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    gymnasium(folder);
    // Another process writes the program: one that is open for writing, also in a child of a test beside this
    // one, cannot be executed.
    let script = "printf '#!/bin/sh\\necho > started\\nexec sleep 600\\n' > hangs && chmod +x hangs";
    assert!(Command::new("sh").args(["-c", script]).current_dir(folder).status().unwrap().success());
    let hangs = format!("env_options.python={}", folder.join("hangs").display());
    for (signal, expected, out) in [(Signal::INT, 130, None), (Signal::TERM, 143, Some("named"))] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pronk"));
        command.args(["train", "gymnasium.toml", "--set", &hangs]).current_dir(folder);
        command.args(out.iter().flat_map(|out| ["--out", *out])).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(50);
        while !folder.join("started").exists() {
            assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "it does not start");
            std::thread::park_timeout(Duration::from_millis(20));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(expected));
        fs::remove_file(folder.join("started")).unwrap();
        assert!(!folder.join("named").exists());
    }
    assert_eq!(fs::read_dir(folder.join("runs")).unwrap().count(), 0);
}

#[test]
fn the_folder_of_a_run_that_is_being_trained_is_not_given_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cartpole = config("cartpole.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pronk"));
    command.args(["train", &cartpole, "--out", "live", "--set", "stop.episode_return_mean=none", "--quiet"]);
    command.args(["--set", "stop.env_steps=none"]).current_dir(folder).stdout(Stdio::piped());
    let live = command.spawn().unwrap();
    let pid = Pid::from_child(&live);
    let until = Instant::now() + Duration::from_secs(60);
    while !folder.join("live/run.json").exists() {
        assert!(Instant::now() < until, "the run does not begin");
        std::thread::yield_now();
    }
    let overwrite = pronk(folder, &["train", &cartpole, "--out", "live", "--overwrite"]);
    let resume = pronk(folder, &["train", "--resume", "live"]);
    let evaluate = pronk(folder, &["evaluate", "live"]);
    kill_process(pid, Signal::TERM).unwrap();
    let output = live.wait_with_output().unwrap();
    for (status, _, errors) in [overwrite, resume] {
        assert_eq!(status, 2, "{errors}");
        assert!(errors.contains(&format!("process {} still trains the run in live", pid.as_raw_nonzero())), "{errors}");
    }
    // The first checkpoint comes after a minute.
    assert!(evaluate.0 == 1 && evaluate.2.contains("live has no policy yet"), "{}", evaluate.2);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(143), "{text}");
    assert!(text.contains("interrupted; resume it with `pronk train --resume live`"), "{text}");
    assert_eq!(pronk(folder, &["evaluate", "live", "--episodes", "1"]).0, 0);
}

#[test]
fn a_folder_that_another_process_has_locked_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let acrobot = config("acrobot.toml");
    let (status, _, errors) = train(folder, &[&acrobot, "--out", "run"], 5000);
    assert_eq!(status, 0, "{errors}");
    fs::create_dir(folder.join("new")).unwrap();
    // As by a process that has not written `run.json` yet.
    let lock = |run: &str| {
        let file = File::options().create(true).append(true).open(folder.join(run).join(".lock")).unwrap();
        file.lock().unwrap();
        file
    };
    let _locks = [lock("run"), lock("new")];
    let before = files(folder);
    let cases: &[(&[&str], &str)] = &[
        (&["--resume", "run"], "run"),
        (&[&acrobot, "--out", "run", "--overwrite"], "run"),
        (&[&acrobot, "--out", "new"], "new"),
        (&["--resume", "run", "--out", "new"], "new"),
    ];
    for (args, refused) in cases {
        let (status, _, errors) = train(folder, args, 10_000);
        let expected = format!("another process trains the run in {refused}, or is about to");
        assert!(status == 2 && errors.contains(&expected), "{args:?}: {status} {errors}");
    }
    assert!(files(folder) == before, "what is refused changes nothing");
}

/// A program that is started in the place of Python.
fn interpreter(folder: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join("interpreter");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Trains with it, for so long.
fn train_with_interpreter(folder: &Path, time: &str, args: &[&str]) -> (i32, String, String) {
    gymnasium(folder);
    let interpreter = format!("env_options.python={}", folder.join("interpreter").display());
    let time = format!("stop.time={time}");
    let train = ["train", "gymnasium.toml", "--out", "run", "--set", &interpreter, "--set", &time];
    pronk(folder, &[&train[..], args].concat())
}

#[test]
fn the_limit_of_time_also_ends_a_run_whose_environments_do_not_start() {
    let folder = tempfile::tempdir().unwrap();
    interpreter(folder.path(), "exec sleep 600");
    let began = Instant::now();
    let (status, text, errors) = train_with_interpreter(folder.path(), "2 s", &[]);
    assert!(status == 1 && text.is_empty(), "{text}{errors}");
    assert!(errors.contains("error: the run has not begun within 2 s, its `stop.time`"), "{errors}");
    assert!(began.elapsed() < Duration::from_secs(120), "it waited for the environment");
    assert!(!folder.path().join("run").exists());
}

/// An environment in a process that ends at its first reset.
const FAILS: &str = r#"
read greeting
echo '{"protocol":1,"name":"Fake","max_episode_steps":null,"agents":[{"name":"agent","observation":{"box":{"low":[0.0],"high":[1.0],"shape":[1],"dtype":"f32"}},"action":{"discrete":{"n":2}},"action_mask":false}]}'
read size
echo "$size"
sleep 0.3
echo "the simulator did not come up" >&2
exit 3"#;

const PATIENT: &str = "supervision.num_consecutive_worker_failures_tolerance=1000";

#[test]
fn a_run_whose_environments_always_fail_says_why_and_is_no_success() {
    for workers in ["0", "1"] {
        let folder = tempfile::tempdir().unwrap();
        interpreter(folder.path(), FAILS);
        let workers = format!("workers.num_rollout_workers={workers}");
        let began = Instant::now();
        let args = ["--set", &workers, "--set", PATIENT, "--set", "log.console=false"];
        let (status, text, errors) = train_with_interpreter(folder.path(), "6 s", &args);
        assert_eq!(status, 1, "{workers}: {text}{errors}");
        assert!(began.elapsed() < Duration::from_secs(120), "{workers}: the limit of time is not obeyed");
        let warned = errors.lines().filter(|line| line.contains("WARN environment 0 of rollout-"));
        assert_eq!(warned.count(), 1, "{workers}: {errors}");
        assert!(errors.contains("the simulator did not come up"), "{errors}");
        let sentence = "no episode was completed, because ";
        assert!(errors.lines().last().unwrap().starts_with(&format!("error: {sentence}")), "{errors}");
        assert!(text.contains("no episode has ended after 0 env-steps") && text.contains(" failed"), "{text}");
        let run = folder.path().join("run");
        let log = fs::read_to_string(run.join("log.txt")).unwrap();
        assert!(log.contains("failed in reset with episode seed"), "{log}");
        let info: Value = serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
        assert!(info["outcome"]["failure"].as_str().unwrap().starts_with(sentence), "{info}");
        assert_eq!(info["outcome"]["reason"], "time");
        let (_, table, _) = pronk(folder.path(), &["compare", "run"]);
        assert!(table.contains("failed"), "{table}");
    }
    let folder = tempfile::tempdir().unwrap();
    interpreter(folder.path(), FAILS);
    let (status, line, errors) = train_with_interpreter(folder.path(), "6 s", &["--json", "--set", PATIENT]);
    let line: Value = serde_json::from_str(&line).unwrap();
    assert!(
        status == 1 && line["failure"].as_str().unwrap().contains("no episode was completed, because "),
        "{line}{errors}"
    );
}
