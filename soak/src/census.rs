//! [`Census`]: what a process has, by `/proc`.

use std::fs;

use serde::{Deserialize, Serialize};

/// What a process has at an instant.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Census {
    /// Anonymous and shared memory, without file-backed pages: the system drops and reads those as it likes.
    pub(crate) memory_kib: u64,
    pub(crate) threads: u64,
    pub(crate) descriptors: u64,
    /// Mappings of shared memory.
    pub(crate) shared: u64,
    /// Processes that it has started and not waited for.
    pub(crate) children: u64,
    /// Threads that run, wait for a processor, or for a disk.
    pub(crate) running: u64,
}

impl Census {
    /// `None` once the process is gone, or if `/proc` cannot be read.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let entries = |dir: &str| Some(fs::read_dir(format!("/proc/{pid}/{dir}")).ok()?.count() as u64);
        let status = read("status")?;
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        };
        let is_shared = |line: &&str| line.contains("/memfd:") || line.contains("/dev/shm/");
        Some(Self {
            memory_kib: kib("RssAnon:")? + kib("RssShmem:")?,
            threads: entries("task")?,
            descriptors: entries("fd")?,
            shared: read("maps")?.lines().filter(is_shared).count() as u64,
            children: children(pid).len() as u64,
            running: running(pid),
        })
    }
}

fn running(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state =
        |thread: fs::DirEntry| fields_of(&fs::read_to_string(thread.path().join("stat")).ok()?)?.next()?.parse().ok();
    threads.filter_map(state).filter(|state: &char| matches!(state, 'R' | 'D')).count() as u64
}

/// The children of a process, those that have ended and were not waited for among them.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&pid| state_and_parent(pid).is_some_and(|(_, of)| of == parent)).collect()
}

/// Whether a process is a child of `parent` that has not ended.
pub(crate) fn is_live_child(pid: u32, parent: u32) -> bool {
    state_and_parent(pid).is_some_and(|(state, of)| state != 'Z' && of == parent)
}

fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = fields_of(&stat)?;
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The fields from the state on: the name before it, in brackets, may have blanks.
fn fields_of(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}
