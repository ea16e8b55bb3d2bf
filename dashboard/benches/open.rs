//! How long it takes to open the page of a run with a million results, and to read all of them in the
//! background.
//!
//! ```sh
//! cargo bench -p pronk-dashboard --bench open            # a million results, 6.6 GB in the temporary folder
//! cargo bench -p pronk-dashboard --bench open -- 100000  # or so many
//! ```
#![allow(clippy::print_stdout, clippy::unwrap_used)] // A bench prints its result and may stop at the first surprise.

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk_dashboard::Dashboard;
use serde_json::{Value, json};

fn main() {
    let number = std::env::args().find_map(|arg| arg.parse::<u64>().ok());
    let n = number.unwrap_or(1_000_000);
    let runs = tempfile::tempdir().unwrap();
    let folder = runs.path().join("run");
    fs::create_dir(&folder).unwrap();
    let bytes = write_results(&folder.join("results.jsonl"), n);
    println!("{n} results, {:.2} GB", bytes as f64 / 1e9);

    let began = Instant::now();
    let watch = Dashboard::watch("127.0.0.1:0", [runs.path()]).unwrap();
    let addr = watch.addr();
    let id = loop {
        let list = get(addr, "/api/runs");
        if let Some(id) = list["runs"][0]["id"].as_str() {
            break id.to_owned();
        }
        park_timeout(Duration::from_millis(1));
    };
    println!("the list after {:.3} s", began.elapsed().as_secs_f64());
    let opened = Instant::now();
    let path = format!("/api/runs/{id}");
    let run = get(addr, &path);
    println!("the run, of which {} is read, {:.3} s after that", run["sample"], opened.elapsed().as_secs_f64());
    while !get(addr, &path)["sample"].is_null() {
        let asked = Instant::now();
        get(addr, "/api/runs");
        assert!(asked.elapsed() < Duration::from_secs(5), "other answers wait");
        park_timeout(Duration::from_millis(100));
    }
    assert_eq!(get(addr, &path)["results"], n);
    println!("all of it after {:.1} s", opened.elapsed().as_secs_f64());
}

/// Results as a real run has them, with other counts in each.
fn write_results(path: &std::path::Path, n: u64) -> u64 {
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = 0;
    config.results.min_time_s_per_iteration = 0.01;
    let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
    let mut line = String::new();
    for _ in 0..5 {
        line = trainer.next().unwrap().unwrap().dict.to_json_line();
    }
    let mut result: Value = serde_json::from_str(&line).unwrap();
    result["num_env_steps_sampled"] = json!(0);
    let text = result.to_string();
    let (before, after) = text.split_once("\"num_env_steps_sampled\":0").unwrap();
    let mut file = BufWriter::new(File::create(path).unwrap());
    for i in 1..=n {
        writeln!(file, "{before}\"num_env_steps_sampled\":{}{after}", 1000 * i).unwrap();
    }
    file.into_inner().unwrap().metadata().unwrap().len()
}

fn get(addr: SocketAddr, path: &str) -> Value {
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}
