//! Who knows whom: the edges between rooms, and what stays out of a room altogether.

use super::finding::Finding;
use super::repo::{ROOMS, Repo, RepoFile};

const FACADE: &str = "pronk";

/// The program and the live page, which stand on the facade as a user's would, and what gives them any bytes
/// or hours of faults.
const ON_THE_FACADE: [&str; 4] = ["cli", "dashboard", "fuzz", "soak"];

const TENSOR_LIBRARIES: &[&str] = &["candle", "ndarray", "tch", "burn"];

/// Folders whose code may name candle.
const CANDLE_ROOMS: &[&str] = &["policy"];

/// The program that shows a user how to write a network with candle, the whole runs of such networks, and the
/// bench that measures against it.
const CANDLE_PROGRAMS: [&str; 3] = ["examples/own_network.rs", "tests/all/candle_models.rs", "benches/policy.rs"];

const SOCKETS: &[&str] =
    &["std::net", "tokio::net", "TcpListener", "TcpStream", "UdpSocket", "UnixDatagram", "UnixListener", "UnixStream"];

/// The plug-in that carries bytes between machines.
const ENGINE: &str = "hosts/zenoh";

/// The facade's file that waits for Ctrl-C: a signal has no room of its own.
const SIGNALS: &str = "src/signals.rs";

/// The facade's file with the thread that answers scrapes: rooms open no sockets, and the trainer waits for
/// no client.
const PROMETHEUS: &str = "src/prometheus.rs";

/// The facade's thread that writes checkpoints: what a run is saved as, only the facade knows.
const CHECKPOINT_THREAD: &str = "src/trainer/checkpoint_thread.rs";

/// The loops of the thread for scrapes: one accepts connections, one reads what a client asks for.
const PROMETHEUS_SERVER: &str = "src/prometheus/server.rs";

pub(super) fn edges(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for manifest in repo.manifests() {
        let room = ROOMS.iter().find(|room| room.holds(manifest));
        for (line, name) in dependencies(manifest) {
            if name == FACADE && !ON_THE_FACADE.iter().any(|folder| manifest.is_under(folder)) {
                found.push(Finding::new(manifest, line, "depends on the facade"));
            }
            let other = ROOMS.iter().find(|other| other.package == name);
            if let (Some(room), Some(other)) = (room, other)
                && !room.knows.contains(&other.folder)
            {
                let what = format!("{} depends on {}", room.folder, other.folder);
                found.push(Finding::new(manifest, line, what));
            }
        }
    }
    for (file, source) in repo.rust() {
        let Some(room) = ROOMS.iter().find(|room| room.holds(file)) else {
            continue;
        };
        for line in source.find("pronk::") {
            let what = format!("{} names the facade", room.folder);
            found.push(Finding::new(file, line, what));
        }
        let strangers = ROOMS.iter().filter(|other| other.folder != room.folder && !room.knows.contains(&other.folder));
        for other in strangers {
            for line in source.find(&other.ident()) {
                let what = format!("{} names {}", room.folder, other.folder);
                found.push(Finding::new(file, line, what));
            }
        }
    }
    found
}

pub(super) fn tensor_library(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    let may_name = |file: &RepoFile| {
        CANDLE_PROGRAMS.contains(&file.path.as_str()) || CANDLE_ROOMS.iter().any(|room| file.is_under(room))
    };
    for manifest in repo.manifests().filter(|file| !may_name(file)) {
        for (line, name) in dependencies(manifest) {
            if is_tensor_library(&name) {
                let what = format!("depends on `{name}`");
                found.push(Finding::new(manifest, line, what));
            }
        }
    }
    for (file, source) in repo.rust().filter(|(file, _)| !may_name(file)) {
        for library in TENSOR_LIBRARIES {
            for path in [format!("{library}::"), format!("{library}_core"), format!("{library}_nn")] {
                for line in source.find(&path) {
                    found.push(Finding::new(file, line, format!("names `{path}`")));
                }
            }
        }
    }
    found
}

fn is_tensor_library(package: &str) -> bool {
    TENSOR_LIBRARIES.iter().any(|library| package.split('-').next() == Some(library))
}

pub(super) fn sockets(repo: &Repo) -> Vec<Finding> {
    // A plug-in for another machine is where sockets belong.
    let in_rooms = repo.rust().filter(|(file, _)| ROOMS.iter().any(|room| room.holds(file)) && !file.is_under(ENGINE));
    let mut found = Vec::new();
    for (file, source) in in_rooms {
        for name in SOCKETS {
            let hits = source.find(name);
            found.extend(hits.map(|line| Finding::new(file, line, format!("names `{name}`"))));
        }
    }
    found
}

pub(super) fn facade_threads(repo: &Repo) -> Vec<Finding> {
    let own = [SIGNALS, PROMETHEUS, CHECKPOINT_THREAD];
    facade_code(repo, &["thread::spawn", "thread::Builder", "thread::scope"], &own, |_| false)
}

pub(super) fn facade_loops(repo: &Repo) -> Vec<Finding> {
    facade_code(repo, &["loop", "while"], &[SIGNALS, PROMETHEUS_SERVER, "src/trainer.rs"], is_drain)
}

/// Whether a loop only takes out of a mailbox what is there already.
fn is_drain(line: &str) -> bool {
    line.contains("while let ") && line.contains(".try_take()")
}

/// Where `patterns` stand in the facade's code outside of tests, of the `exempt` files and of the `allowed`
/// lines.
fn facade_code(repo: &Repo, patterns: &[&str], exempt: &[&str], allowed: fn(&str) -> bool) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in repo.rust() {
        if !file.is_under("src") || file.is_test() || exempt.contains(&file.path.as_str()) {
            continue;
        }
        for pattern in patterns {
            let lines = source.find(pattern);
            let lines = lines.filter(|&line| !source.is_test_line(line) && !allowed(source.line(line)));
            found.extend(lines.map(|line| Finding::new(file, line, format!("`{pattern}`"))));
        }
    }
    found
}

/// (line, package) of every dependency in a manifest, of whatever kind, but for the workspace's own table:
/// that one only fixes versions.
fn dependencies(manifest: &RepoFile) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_table = false;
    for (line, text) in manifest.lines() {
        let text = text.trim();
        if let Some(header) = text.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            is_table = header.ends_with("dependencies") && !header.starts_with("workspace");
            // `[dependencies.name]` is a table of one dependency.
            if let Some((table, name)) = header.rsplit_once('.')
                && table.ends_with("dependencies")
                && !table.starts_with("workspace")
            {
                found.push((line, name.to_owned()));
            }
            continue;
        }
        let name: String = text.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
        if is_table && !name.is_empty() {
            found.push((line, name));
        }
    }
    found
}
