//! Whose folder and whose files: links in paths, files that no run wrote, names that are no text, and disks
//! without room.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::slice::from_ref;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{config, json, pronk};

/// Acrobot for so many env-steps, at any return.
fn acrobot(env_steps: u64) -> Vec<String> {
    let settings = ["stop.episode_return_mean=none".to_owned(), format!("stop.env_steps={env_steps}")];
    let settings = settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]);
    ["train".to_owned(), config("acrobot.toml")].into_iter().chain(settings).collect()
}

fn program(folder: &Path, args: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pronk"));
    command.args(args).current_dir(folder).env("NO_COLOR", "1");
    command
}

/// Runs `pronk` with arguments that need not be UTF-8; its exit status and what it printed.
fn run(folder: &Path, args: &[impl AsRef<OsStr>]) -> (i32, String, String) {
    let output = program(folder, args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn train(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let args: Vec<String> = acrobot(2000).into_iter().chain(args.iter().map(|&arg| arg.to_owned())).collect();
    run(folder, &args)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn terminate(child: &Child) {
    kill_process(Pid::from_child(child), Signal::TERM).unwrap();
}

/// Points `link` to another folder.
fn turn(link: &Path, to: &str) {
    fs::remove_file(link).unwrap();
    symlink(to, link).unwrap();
}

#[test]
fn a_run_stays_where_a_link_led_when_it_began() {
    // As a link itself, and with one on the way.
    for (out, real) in [("runs/latest", "runs/a"), ("runs/latest/../latest/below", "runs/a/below")] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir_all(folder.join(real)).unwrap();
        fs::create_dir_all(folder.join(real.replace('a', "b"))).unwrap();
        symlink("a", folder.join("runs/latest")).unwrap();
        let mut args = acrobot(1_000_000_000);
        args.extend(["--out", out, "--quiet"].map(str::to_owned));
        let mut child = program(folder, &args).stdout(Stdio::null()).spawn().unwrap();
        let real = folder.join(real);
        wait_until("the run begins", || real.join("progress.csv").metadata().is_ok_and(|file| file.len() > 0));
        let (status, _, errors) = train(folder, &["--out", &real.display().to_string(), "--overwrite"]);
        assert!(status == 2 && errors.contains("end it first"), "{errors}");

        turn(&folder.join("runs/latest"), "b");
        terminate(&child);
        assert_eq!(child.wait().unwrap().code(), Some(143));
        assert!(real.join("manifest.json").exists() && real.join("report.html").exists());
        let other = fs::read_dir(folder.join("runs/b")).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = other.filter(|path| path.is_file() || path.read_dir().unwrap().count() > 0).collect();
        assert!(files.is_empty(), "{out}: {files:?}");
    }
}

#[test]
fn a_sweep_stays_where_a_link_led_when_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let limit = "stop.env_steps = [30000]\nstop.episode_return_mean = [\"none\"]\n";
    let sweep = format!("config = \"{}\"\nseeds = [1, 2]\n[parameters]\n{limit}", config("acrobot.toml"));
    fs::write(folder.join("sweep.toml"), sweep).unwrap();
    for name in ["a", "b"] {
        fs::create_dir_all(folder.join("sweeps").join(name)).unwrap();
    }
    let latest = folder.join("sweeps/latest");
    symlink("a", &latest).unwrap();
    let args = ["sweep", "sweep.toml", "--out", "sweeps/latest", "--jobs", "1", "--quiet"];
    let mut child = program(folder, &args).stdout(Stdio::null()).spawn().unwrap();
    wait_until("the first run begins", || folder.join("sweeps/a/trial-0001-s1/config.toml").exists());
    turn(&latest, "b");
    assert!(child.wait().unwrap().success());
    for seed in [1, 2] {
        assert!(folder.join(format!("sweeps/a/trial-0001-s{seed}/manifest.json")).exists(), "seed {seed}");
    }
    assert_eq!(fs::read_dir(folder.join("sweeps/b")).unwrap().count(), 0);

    // The folder of a sweep is not that of a run.
    let (status, _, errors) = train(folder, &["--out", "sweeps/a"]);
    assert!(status == 2 && errors.contains("is the folder of a sweep"), "{errors}");
}

#[test]
fn a_file_that_no_run_wrote_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mine = fs::read_to_string(config("acrobot.toml")).unwrap() + "# mine\n";
    let project = folder.join("project");
    fs::create_dir(&project).unwrap();
    symlink("project", folder.join("link")).unwrap();
    symlink("../project/config.toml", project.join("by-link.toml")).unwrap();
    fs::write(project.join("config.toml"), &mine).unwrap();
    let limits = ["--set", "stop.episode_return_mean=none", "--set", "stop.env_steps=2000", "--quiet"];
    let refused = |from: &Path, config: &str, out: &str, more: &[&str], what: &str| {
        let (status, text, errors) = pronk(from, &[&["train", config, "--out", out][..], &limits, more].concat());
        assert!(status == 2 && errors.contains(what), "{config} {out} {more:?}: {text}{errors}");
        assert_eq!(fs::read_to_string(project.join("config.toml")).unwrap(), mine);
        assert_eq!(fs::read_dir(&project).unwrap().count(), 2, "nothing is left in the folder");
    };
    let no_run_wrote = "config.toml, which no run has written";
    refused(folder, "project/config.toml", "project", &[], no_run_wrote);
    refused(folder, "project/config.toml", "project", &["--overwrite"], no_run_wrote);
    refused(folder, "project/config.toml", "link", &[], no_run_wrote);
    refused(folder, "link/by-link.toml", "link/../project", &[], no_run_wrote);
    refused(&project, "config.toml", ".", &[], no_run_wrote);
    refused(folder, &config("acrobot.toml"), "project", &[], no_run_wrote);

    // Also where another program has logged a run.
    fs::write(project.join("results.jsonl"), "{}\n").unwrap();
    let (status, _, errors) =
        pronk(&project, &[&["train", "config.toml", "--out", ".", "--overwrite"][..], &limits].concat());
    assert!(status == 2 && errors.contains(no_run_wrote), "{errors}");
    assert_eq!(fs::read_to_string(project.join("config.toml")).unwrap(), mine);

    for name in ["run.json", "log.txt", "timeline.json"] {
        let other = folder.join(format!("with-{name}"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join(name), "mine").unwrap();
        for overwrite in [&[][..], &["--overwrite"]] {
            let out = other.display().to_string();
            let (status, _, errors) =
                train(folder, &[&["--out", &out, "--set", "log.timeline=true"], overwrite].concat());
            assert!(status == 2 && errors.contains(&format!("has a file {name} but no run")), "{errors}");
            assert_eq!(fs::read_to_string(other.join(name)).unwrap(), "mine");
        }
    }

    // That of a run is: its own settings repeat it.
    let (status, _, errors) = train(folder, &["--out", "run"]);
    assert_eq!(status, 0, "{errors}");
    let again = [&["train", "run/config.toml", "--out", "run", "--overwrite", "--seed", "3"][..], &limits].concat();
    let (status, _, errors) = pronk(folder, &again);
    assert_eq!(status, 0, "{errors}");
    assert!(fs::read_to_string(folder.join("run/config.toml")).unwrap().contains("seed = 3"));
}

#[test]
fn a_file_that_no_sweep_wrote_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let base = fs::read_to_string(config("acrobot.toml")).unwrap();
    let sweep = "config = \"base.toml\"\nseeds = [1]\n[parameters]\nstop.env_steps = [2000]\n";
    fs::write(folder.join("base.toml"), &base).unwrap();
    fs::write(folder.join("mine.toml"), sweep).unwrap();
    // Its name is that of a file that a sweep leaves when it is killed at once.
    let other = folder.join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("base.toml"), "env = \"CartPole-v1\" # mine\n").unwrap();
    let (status, _, errors) = pronk(folder, &["sweep", "mine.toml", "--out", "other", "--quiet"]);
    assert!(status == 2 && errors.contains("it has base.toml"), "{errors}");
    assert!(fs::read_to_string(other.join("base.toml")).unwrap().ends_with("# mine\n"));
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);

    fs::rename(folder.join("mine.toml"), folder.join("sweep.toml")).unwrap();
    fs::rename(folder.join("base.toml"), folder.join("config.toml")).unwrap();
    fs::write(folder.join("sweep.toml"), sweep.replace("base", "config")).unwrap();
    let (status, _, errors) = pronk(folder, &["sweep", "sweep.toml", "--out", ".", "--quiet"]);
    assert!(status != 0 && errors.contains("should be the folder of a sweep"), "{errors}");
    assert_eq!(fs::read_to_string(folder.join("sweep.toml")).unwrap(), sweep.replace("base", "config"));
    assert_eq!(fs::read_to_string(folder.join("config.toml")).unwrap(), base);
}

#[test]
fn names_that_are_no_text_are_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join(OsStr::from_bytes(b"here-\xff"));
    fs::create_dir(&folder).unwrap();
    let run_folder = OsStr::from_bytes(b"run-\xfe").to_owned();
    let file = OsStr::from_bytes(b"config-\xfd.toml").to_owned();
    fs::copy(config("acrobot.toml"), folder.join(&file)).unwrap();
    let os = |args: &[&str]| args.iter().map(OsString::from).collect::<Vec<_>>();
    let limits = os(&["--set", "stop.episode_return_mean=none", "--set", "stop.env_steps=2000", "--json", "--out"]);
    let train = [&os(&["train"])[..], from_ref(&file), &limits, from_ref(&run_folder)].concat();
    let (status, line, errors) = run(&folder, &train);
    assert_eq!(status, 0, "{errors}");
    assert_eq!(json(&line)["run"], "run-\u{fffd}", "{line}");
    let (status, _, errors) = run(&folder, &train);
    assert!(status == 2 && errors.contains("holds a run already"), "{errors}");

    let on = |before: &[&str], after: &[&str]| {
        let (status, text, errors) = run(&folder, &[&os(before)[..], from_ref(&run_folder), &os(after)].concat());
        assert_eq!(status, 0, "{before:?} {after:?}: {text}{errors}");
    };
    on(&["train", "--resume"], &["--set", "stop.env_steps=4000", "--json"]);
    on(&["evaluate"], &["--episodes", "1", "--json"]);
    on(&["evaluate"], &["--episodes", "1"]);
    on(&["compare", "--json"], &[]);
    on(&["compare"], &[]);
    on(&["export"], &[]);
    on(&["train", "--out", "resumed", "--resume"], &["--quiet", "--set", "stop.env_steps=4000"]);

    let sweep =
        "config = \"base.toml\"\n[parameters]\nstop.env_steps = [2000]\nstop.episode_return_mean = [\"none\"]\n";
    fs::copy(config("acrobot.toml"), folder.join("base.toml")).unwrap();
    fs::write(folder.join(&file), sweep).unwrap();
    for how in ["--json", "--quiet"] {
        let out = OsStr::from_bytes(b"sweep-\xfc").to_owned();
        let sweep = [&os(&["sweep", how])[..], &[file.clone(), "--out".into(), out]].concat();
        let (status, text, errors) = run(&folder, &sweep);
        assert_eq!(status, 0, "{how}: {text}{errors}");
    }
}

#[test]
fn what_is_in_the_place_of_the_link_latest_stays_and_no_folder_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let latest = folder.join("runs/latest");
    fs::create_dir_all(latest.join("mine")).unwrap();
    let refused = || {
        let (status, text, errors) = train(folder, &[]);
        assert!(status == 1 && errors.contains("runs/latest: it is no link"), "{text}{errors}");
        assert_eq!(fs::read_dir(folder.join("runs")).unwrap().count(), 1, "no claimed folder is left");
    };
    refused();
    assert!(latest.join("mine").exists());
    fs::remove_dir_all(&latest).unwrap();
    fs::write(&latest, "mine").unwrap();
    refused();
    assert_eq!(fs::read_to_string(&latest).unwrap(), "mine");
}

#[test]
fn what_a_run_could_not_write_is_said_and_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Files may have so many blocks, of 512 or 1024 bytes by the shell; beyond is an error and no signal.
    let limited = |blocks: u32, name: &str, more: &[&str]| {
        let mut args = acrobot(6000);
        let settings = ["model.fcnet_hiddens=[16]", "results.min_time_s_per_iteration=0"];
        args.extend(settings.into_iter().flat_map(|setting| ["--set", setting]).map(str::to_owned));
        args.extend(["--out", name].map(str::to_owned));
        args.extend(more.iter().map(|&arg| arg.to_owned()));
        let output = Command::new("sh")
            .args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""), "sh"])
            .arg(env!("CARGO_BIN_EXE_pronk"))
            .args(args)
            .current_dir(folder)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let info: Value = serde_json::from_slice(&fs::read(folder.join(name).join("run.json")).unwrap()).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr), info["outcome"]["failure"].clone())
    };
    // The policy has room, and the logs have not.
    let (status, line, errors, failure) = limited(24, "logs", &["--json"]);
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains("error: the logs are not whole: reporter `json_lines` failed"), "{errors}");
    let whole = fs::read_to_string(folder.join("logs/results.jsonl")).unwrap();
    whole.lines().for_each(|line| drop(json(line)));
    let said = failure.as_str().unwrap_or_default();
    assert!(said.contains("results.jsonl") && said.contains("are missing"), "{said}");
    assert_eq!(json(&line)["failure"], failure);
    assert!(folder.join("logs/manifest.json").exists());
    let (_, line, _) = pronk(folder, &["compare", "logs", "--json"]);
    assert_eq!(json(&line)["runs"][0]["state"], "failed");

    // Neither have room.
    let large = ["--quiet", "--set", "stop.env_steps=2000", "--set", "model.fcnet_hiddens=[128, 128]"];
    let (status, text, errors, failure) = limited(24, "all", &large);
    assert_eq!(status, Some(1), "{text}");
    let said = failure.as_str().unwrap_or_default();
    for part in
        ["the trained policy is not saved: ", "; and there is no checkpoint either", "; the logs are not whole: "]
    {
        assert!(errors.contains(part) && said.contains(part), "{part}: {errors} {said}");
    }
}

/// Python with Gymnasium, which a stage of its own has.
mod gymnasium {
    use super::*;

    #[test]
    fn what_environments_print_is_in_the_log_of_a_quiet_run_alone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let module = "import gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n\
                      class Loud(CartPoleEnv):\n    def reset(self, **kwargs):\n        print('a loud env', flush=True)\n\
                      \x20       return super().reset(**kwargs)\n\
                      gymnasium.register('Loud-v0', Loud, max_episode_steps=100)\n";
        fs::write(folder.join("loud.py"), module).unwrap();
        let python = std::env::var("PRONK_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let (status, text, errors) = pronk(folder, &["config", "gymnasium:loud:Loud-v0"]);
        assert_eq!(status, 0, "{errors}");
        fs::write(folder.join("loud.toml"), text).unwrap();
        let python = format!("env_options.python={python}");
        let settings = ["stop.env_steps=500", "stop.episode_return_mean=none", &python];
        let settings: Vec<&str> = settings.into_iter().flat_map(|setting| ["--set", setting]).collect();
        let train = |how: &[&str]| {
            let args = [&["train", "loud.toml"][..], &settings, how].concat();
            let output = program(folder, &args).env("PYTHONPATH", folder).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stderr).unwrap()
        };
        let log = |run: &str| fs::read_to_string(folder.join(run).join("log.txt")).unwrap();
        for how in ["--quiet", "--json"] {
            assert_eq!(train(&["--out", how.trim_matches('-'), how]), "");
            assert!(log(how.trim_matches('-')).contains("a loud env"), "{how}");
        }
        assert!(train(&["--out", "shown"]).contains("a loud env") && !log("shown").contains("a loud env"));
    }
}
