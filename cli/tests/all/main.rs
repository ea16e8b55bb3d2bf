//! The program as a user meets it: its commands, what they print, and their exit statuses.
#![allow(clippy::unwrap_used)]

mod arguments;
mod claims;
mod compare;
mod evaluate;
mod export;
mod folders;
mod sweep;
mod watch;

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
    assert!(folder.join(run["run"].as_str().unwrap()).join("results.jsonl").exists(), "{run}");
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
    // One that has reached its limits says from where it did not go on.
    let (status, text, errors) = pronk(folder, &["train", "--resume", "run", "--set", "stop.env_steps=30000"]);
    let env_steps = json(&line)["env_steps"].as_u64().unwrap();
    assert_eq!((status, &*errors), (0, &*format!("resumed after {env_steps} env-steps\n")), "{text}");
    assert!(text.contains(&format!(" after {env_steps} env-steps in ")), "{text}");
}

#[test]
fn a_run_that_evaluates_keeps_its_best_policy_and_videos() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let acrobot = config("acrobot.toml");
    let begin = ["train", &acrobot, "--out", "run", "--quiet", "--set", "stop.episode_return_mean=none"];
    let (status, _, errors) = pronk(folder, &[&begin[..], &["--set", "stop.env_steps=2000"]].concat());
    assert_eq!(status, 0, "{errors}");
    let best = ["evaluate", "run", "--best", "--episodes", "1", "--json"];
    let (status, _, errors) = pronk(folder, &best);
    assert!(status == 1 && errors.contains("no best policy"), "{errors}");

    let often = ["--set", "evaluation.every=1k env-steps", "--set", "evaluation.episodes=1"];
    // The end of a run interrupts an evaluation, so on a busy machine more than one life may be needed.
    for life in 1..=20 {
        let limit = format!("stop.env_steps={}", 20_000 * life);
        let go_on = [&["train", "--resume", "run", "--quiet", "--set", &limit][..], &often].concat();
        let (status, _, errors) = pronk(folder, &go_on);
        assert_eq!(status, 0, "{errors}");
        if folder.join("run/checkpoints/best").exists() {
            break;
        }
    }
    let (status, line, errors) = pronk(folder, &best);
    assert_eq!((status, json(&line)["episodes"].as_u64()), (0, Some(1)), "{errors}");
    let videos = fs::read_dir(folder.join("run/videos")).unwrap().count();
    assert!((1..=10).contains(&videos), "{videos}");
}

#[test]
fn policies_of_several_agents_are_evaluated_and_their_best_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rendezvous = config("rendezvous.toml");
    let often = ["--set", "stop.episode_return_mean=none", "--set", "evaluation.every=1k env-steps"];
    // The end of a run interrupts an evaluation, so on a busy machine more than one life may be needed.
    for life in 1..=20 {
        let limit = format!("stop.env_steps={}", 100_000 * life);
        let begin = ["train", &rendezvous, "--out", "run"];
        let how = if life == 1 { &begin[..] } else { &["train", "--resume", "run"] };
        let (status, _, errors) = pronk(folder, &[how, &["--quiet", "--set", &limit], &often].concat());
        assert_eq!(status, 0, "{errors}");
        if folder.join("run/checkpoints/best").exists() {
            break;
        }
    }
    for (which, at_least) in [("--sample", 1.0), ("--best", -0.5)] {
        let (status, line, errors) = pronk(folder, &["evaluate", "run", "--episodes", "50", "--json", which]);
        assert_eq!(status, 0, "{errors}");
        let played = json(&line);
        let number = |key: &str| played.pointer(key).and_then(Value::as_f64).unwrap_or_else(|| panic!("{key}: {line}"));
        assert!(number("/episode_return_mean") > at_least && number("/episodes") == 50.0, "{line}");
        // Both earn the same.
        let agents = [number("/agent_return_mean/agent_0"), number("/agent_return_mean/agent_1")];
        assert!((agents[0] - number("/policy_return_mean/team")).abs() < 1e-9 && agents[0] == agents[1], "{line}");
    }
    let (status, text, errors) = pronk(folder, &["evaluate", "run", "--episodes", "5", "--video", "episode.png"]);
    assert!(status == 0 && text.contains("Rendezvous: return") && text.contains("team"), "{text}{errors}");
    assert!(fs::read(folder.join("episode.png")).unwrap().starts_with(b"\x89PNG"));
    let results = fs::read_to_string(folder.join("run/results.jsonl")).unwrap();
    let last = json(results.lines().last().unwrap());
    assert!(last.pointer("/evaluation/policy_reward_mean/team").is_some(), "{last}");

    // Of policies for each agent, one of which is missing.
    let separate = ["--set", "multi_agent.policies=separate", "--set", "stop.env_steps=2000"];
    let tic_tac_toe = config("tic_tac_toe.toml");
    let games = [&["train", &tic_tac_toe, "--out", "games", "--quiet"][..], &separate].concat();
    let (status, _, errors) = pronk(folder, &games);
    assert_eq!(status, 0, "{errors}");
    let (status, text, errors) = pronk(folder, &["evaluate", "games", "--episodes", "5"]);
    assert!(status == 0 && text.contains("TicTacToe: return 0.00 ± 0.00 over 5 episodes"), "{text}{errors}");
    let settings = fs::read_to_string(folder.join("games/config.toml")).unwrap();
    let wrong = settings.replace("policies = \"separate\"", "policies = \"shared\"");
    assert_ne!(settings, wrong);
    fs::write(folder.join("games/config.toml"), wrong).unwrap();
    let (status, _, errors) = pronk(folder, &["evaluate", "games"]);
    assert!(status == 1 && errors.contains("`team`") && errors.contains("the policies are `o`, `x`"), "{errors}");
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
        assert!(!text.starts_with("# #"), "a file without a target keeps its first line: {text}");
        assert_eq!(text.starts_with("# MsPacman with what is tuned for Pong: "), env == "atari:MsPacman", "{text}");
        fs::write(folder.join("config.toml"), text).unwrap();
        // The environment is refused after all settings have been read and checked.
        let (status, _, errors) = pronk(folder, &["train", "config.toml", "--set", "env=nothing"]);
        assert_eq!(status, 2, "{env}: {errors}");
        assert!(errors.contains("nothing") && errors.contains("pronk envs"), "{env}: {errors}");
    }
}

#[test]
fn bad_input_is_refused_with_status_2_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("bad.toml"), "env = \"CartPole-v1\"\n[learner]\nlrr = 1\n").unwrap();
    fs::write(folder.join("env.toml"), "env = \"CartPole\"\n").unwrap();
    fs::write(folder.join("option.toml"), "env = \"CartPole-v1\"\nenv_options.python = \"py\"\n").unwrap();
    let (_, pettingzoo, _) = pronk(folder, &["config", "pettingzoo:mpe2.simple_spread_v3"]);
    fs::write(folder.join("pettingzoo.toml"), pettingzoo).unwrap();
    fs::create_dir(folder.join("empty")).unwrap();
    let sweep = config("sweeps/cartpole.toml");
    let cases: &[(&[&str], &str)] = &[
        (&["train"], "<CONFIG>"),
        (&["train", "bad.toml"], "bad.toml:3:1: unknown key `learner.lrr`: did you mean `learner.lr`?"),
        (&["train", "none.toml"], "cannot read none.toml"),
        (&["train", "env.toml"], "did you mean `CartPole-v1`?"),
        (&["train", "option.toml"], "`env_options.python` is not for `CartPole-v1`"),
        (
            &["train", "pettingzoo.toml", "--set", "env_options.envs_per_process=2"],
            "`env_options.envs_per_process` is not for `pettingzoo:mpe2.simple_spread_v3`",
        ),
        (&["train", "pettingzoo.toml", "--set", "env_options.clip_rewards=1"], "`env_options.clip_rewards` is not for"),
        (&["train", "env.toml", "--set", "lr"], "KEY=VALUE"),
        (&["train", "--resume", "empty"], "holds no run"),
        (&["evaluate", "empty"], "holds no run"),
        (&["evaluate", "nowhere"], "holds no run"),
        (&["compare", "empty"], "holds no run"),
        (&["export", "empty"], "holds no run"),
        (&["config", "CartPol"], "did you mean `CartPole-v1`?"),
        (&["config", "gym:CartPole-v1"], "did you mean `gymnasium:CartPole-v1`?"),
        (&["config", "gymnasium"], "did you mean `gymnasium:ID`?"),
        (&["sweep", "env.toml"], "the config file of one run: train it by `pronk train`"),
        (&["train", &sweep], "this is a sweep file: run it by `pronk sweep`"),
        (&["completions", "tcsh"], "possible values"),
        (&["dance"], "unrecognized subcommand"),
        (&["evaluate", "empty", "--episodes", "0"], "a whole number is expected, 1 or more"),
        (&["sweep", "sweep.toml", "--jobs", "none"], "a whole number is expected, 1 or more"),
    ];
    for (args, expected) in cases {
        let (status, text, errors) = pronk(folder, args);
        assert_eq!(status, 2, "{args:?}: {text}{errors}");
        assert!(errors.contains(expected), "{args:?}: {errors}");
    }
    assert!(!folder.join("runs").exists(), "what is refused makes no folder");
}

#[test]
fn a_run_whose_environment_cannot_be_made_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (status, config, _) = pronk(folder, &["config", "gymnasium:CartPole-v1"]);
    assert_eq!(status, 0);
    fs::write(folder.join("config.toml"), config).unwrap();
    let args = ["train", "config.toml", "--set", "env_options.python=no-such-interpreter"];
    let (status, _, errors) = pronk(folder, &args);
    assert!(status == 1 && errors.contains("no-such-interpreter"), "{errors}");
    assert_eq!(fs::read_dir(folder.join("runs")).unwrap().count(), 0);
}

#[test]
fn messages_are_on_the_terminal_and_in_the_log_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let acrobot = config("acrobot.toml");
    let limits = |steps: &str| ["--set".to_owned(), format!("stop.env_steps={steps}")];
    let run = |args: &[&str], steps: &str| {
        let limits = limits(steps);
        let target = ["--set", "stop.episode_return_mean=none", &limits[0], &limits[1]];
        pronk(folder, &[args, &target[..]].concat())
    };
    let log = || fs::read_to_string(folder.join("run/log.txt")).unwrap();
    let (status, _, errors) = run(&["train", &acrobot, "--out", "run", "--set", "log.console=false"], "10000");
    assert_eq!((status, &*errors, &*log()), (0, "", ""));

    // That another learning rate goes on is worth a warning.
    let another = ["train", "--resume", "run", "--set", "learner.lr=0.002", "--set", "log.console=false"];
    let (status, _, errors) = run(&another, "20000");
    let text = "WARN the resumed run differs from the saved one what=the setting `learner.lr";
    assert!(status == 0 && errors.contains(text), "{errors}");
    let first = log();
    assert!(first.contains("WARN pronk") && first.contains("the setting `learner.lr"), "{first}");

    // The log goes on, the terminal shows nothing if it is to be quiet, and what is less severe is left out.
    let quiet = [&another[..], &["--quiet", "--set", "log.level=error"]].concat();
    let (status, _, errors) = run(&quiet, "30000");
    assert_eq!((status, &*errors, log()), (0, "", first));
    let (status, _, errors) = run(&["train", &acrobot, "--out", "run", "--set", "log.level=loud"], "10000");
    assert!(status == 2 && errors.contains("log.level") && errors.contains("loud"), "{errors}");
    let (status, ..) = run(&["train", &acrobot, "--out", "run", "--overwrite", "--quiet"], "10000");
    assert_eq!((status, &*log()), (0, ""));
}

#[test]
fn a_target_that_is_missed_is_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["train", &config("acrobot.toml"), "--set", "stop.env_steps=2000", "--json"];
    let (status, line, _) = pronk(folder.path(), &args);
    assert_eq!((status, json(&line)["reached"].as_bool()), (1, Some(false)));
    let (status, text, _) = pronk(folder.path(), &[&args[..4], &["--quiet"]].concat());
    assert!(status == 1 && text.contains("\nthe target return was not reached\n"), "{text}");
    // The first update throws the weights so far away that the loss overflows: the error alone says so.
    let broken = ["learner.lr=1e30", "learner.grad_clip=none", "learner.max_consecutive_quarantined=1"];
    let broken = broken.iter().flat_map(|setting| ["--set", *setting]).chain(["--quiet"]).collect::<Vec<_>>();
    let (status, text, errors) = pronk(folder.path(), &[&args[..4], &broken[..]].concat());
    assert!(status == 1 && errors.contains("error: ") && !text.contains("not reached"), "{text}{errors}");
}

#[test]
fn a_reader_that_is_gone_is_no_failure_and_a_full_disk_is_one() {
    let program = || Command::new(env!("CARGO_BIN_EXE_pronk"));
    let mut child = program().args(["config", "CartPole-v1"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    if let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") {
        let output = program().arg("doctor").stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(errors.matches("cannot write").count(), 1, "once, however many lines there are: {errors}");
        let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = program().args(["train", "none.toml"]).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(2), "an error that cannot be printed");
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
    assert!(text.lines().any(|line| line.starts_with("  memory") && line.ends_with(" GiB")), "{text}");

    // An interpreter that fails without a word, and one in which every package is there, as far as it says,
    // and makes no environment.
    let script =
        "printf '#!/bin/sh\\nexit 3\\n' > silent; printf '#!/bin/sh\\necho 4.2.0\\n' > python; chmod +x silent python";
    assert!(Command::new("sh").args(["-c", script]).current_dir(folder.path()).status().unwrap().success());
    let doctor = |python: &str| {
        let python = folder.path().join(python);
        pronk(folder.path(), &["doctor", "--python", python.to_str().unwrap()])
    };
    let (status, text, _) = doctor("silent");
    assert!(status == 0 && text.contains("silent: exit status: 3: install Python 3.9"), "{text}");
    let (status, text, _) = doctor("python");
    assert!(status == 1 && !text.contains("missing"), "{text}");
    for (state, module) in [("ok", "cv2"), ("ok", "pettingzoo"), ("broken", "gymnasium"), ("broken", "mpe2")] {
        let is_line = |line: &str| line.trim_start().starts_with(state) && line.contains(&format!(" {module} "));
        assert!(text.lines().any(|line| is_line(line) && line.contains("4.2.0")), "{module}: {text}");
    }
    // It leaves nothing behind.
    assert!(text.contains("ok      runs") && !folder.path().join("runs").exists(), "{text}");
}

#[test]
fn a_folder_that_no_run_can_be_written_to_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("runs"), "").unwrap();
    let (status, text, _) = pronk(folder.path(), &["doctor", "--python", "no-such-interpreter"]);
    assert!(status == 1 && text.contains("broken  runs") && text.contains("--out"), "{text}");
    // A system that makes no folder there, whoever asks.
    fs::remove_file(folder.path().join("runs")).unwrap();
    std::os::unix::fs::symlink("/proc", folder.path().join("runs")).unwrap();
    let (status, text, _) = pronk(folder.path(), &["doctor", "--python", "no-such-interpreter"]);
    assert!(status == 1 && text.contains("broken  runs"), "{text}");
}
