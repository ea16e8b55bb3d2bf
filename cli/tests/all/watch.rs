//! `pronk watch`, and `pronk train --dashboard`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{config, json, pronk};

/// A program that serves, and the address that it printed.
struct Serving {
    child: Child,
    url: String,
    stderr: BufReader<ChildStderr>,
}

impl Serving {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pronk"));
        command.args(args).current_dir(folder).env("NO_COLOR", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("http://"));
        let url = url.unwrap_or_else(|| panic!("no address: {line}")).to_owned();
        Self { child, url, stderr }
    }

    /// The answer to a request, with its head.
    fn get(&self, path: &str) -> String {
        let addr = self.url["http://".len()..].split('/').next().unwrap();
        let mut stream = TcpStream::connect(addr).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The first list of runs that `is_it`.
    fn list(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let answer = self.get("/api/runs");
            let list = json(answer.split_once("\r\n\r\n").unwrap().1);
            if is_it(&list) {
                return list;
            }
            assert!(Instant::now() < deadline, "{list}");
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// Sends Ctrl-C; the exit status, and what else was printed.
    fn interrupt(mut self) -> (i32, String, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let status = self.child.wait().unwrap().code().unwrap();
        let (mut text, mut errors) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        self.stderr.read_to_string(&mut errors).unwrap();
        (status, text, errors)
    }
}

const ENDLESS: [&str; 4] = ["--set", "stop.env_steps=none", "--set", "stop.episode_return_mean=none"];

#[test]
fn a_run_is_watched_while_it_trains_in_another_process_and_after() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Before there is any run.
    let watch = Serving::start(folder, &["watch", "--address", "127.0.0.1:0"]);
    assert!(watch.get("/").starts_with("HTTP/1.1 200"));
    watch.list(|list| list["problems"][0].as_str().is_some_and(|problem| problem.contains("runs")));

    let acrobot = config("acrobot.toml");
    let train = [&["train", &acrobot, "--json", "--dashboard", "127.0.0.1:0"][..], &ENDLESS].concat();
    let train = Serving::start(folder, &train);
    let has_results = |list: &Value| list["runs"][0]["env_steps"].is_string();
    let of_itself = train.list(has_results)["runs"][0].clone();
    let watched = watch.list(|list| has_results(list) && list["runs"][0]["state"] == "running");
    for key in ["id", "name", "folder", "env", "algorithm", "seed"] {
        assert_eq!(watched["runs"][0][key], of_itself[key], "{key}");
    }
    assert_eq!(watched["runs"].as_array().unwrap().len(), 1, "the link `latest` is no second run");
    let (status, line, errors) = train.interrupt();
    assert_eq!((status, &*errors), (130, ""), "{line}");
    assert!(json(&line)["ledger_closed"] == true, "{line}");
    watch.list(|list| list["runs"][0]["state"] == "finished");
    let (status, text, errors) = watch.interrupt();
    assert_eq!((status, &*text, &*errors), (130, "", ""));
}

#[test]
fn an_address_for_other_machines_asks_for_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["watch", ".", "--address", "0.0.0.0:0", "--token", "correct-horse"];
    let watch = Serving::start(folder.path(), &args);
    assert!(watch.url.ends_with("/?token=correct-horse"), "{}", watch.url);
    assert!(watch.get("/api/runs").starts_with("HTTP/1.1 401"));
    assert!(watch.get("/?token=correct-horse").starts_with("HTTP/1.1 303"));
    assert_eq!(watch.interrupt().0, 130);
}

#[test]
fn what_cannot_be_served_is_refused_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("file"), "").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let cartpole = config("cartpole.toml");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["watch", "nowhere"], 2, "there is no directory nowhere"),
        (&["watch", "file"], 2, "file is not a directory"),
        (&["watch", "--address", "nonsense"], 2, "127.0.0.1:8080"),
        (&["watch", "--address", "127.0.0.1:0", "--token", "short"], 2, "8 to 200 letters"),
        (&["watch", "--address", &taken], 1, "the port is taken"),
        (&["train", &cartpole, "--dashboard", "nonsense"], 2, "127.0.0.1:8080"),
        (&["train", &cartpole, "--dashboard", &taken], 1, "the port is taken"),
    ];
    for (args, expected, text) in cases {
        let (status, _, errors) = pronk(folder, args);
        assert_eq!(status, *expected, "{args:?}: {errors}");
        assert!(errors.contains(text), "{args:?}: {errors}");
    }
    assert!(!folder.join("runs").exists(), "what is refused makes no folder");
}
