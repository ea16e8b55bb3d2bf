//! The repository as the rules see it: its Rust files, manifests and pages.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::source::Source;

/// The rooms: folder, crate, and the rooms it may know. Plug-in crates are like rooms that no room knows.
pub(super) const ROOMS: &[Room] = &[
    Room::new("model", "pronk-model", &["metrics"]),
    Room::new("metrics", "pronk-metrics", &[]),
    Room::new("buffer", "pronk-buffer", &["metrics", "model"]),
    Room::new("policy", "pronk-policy", &["model"]),
    Room::new("rollout", "pronk-rollout", &["buffer", "policy", "metrics", "model"]),
    Room::new("learner", "pronk-learner", &["buffer", "policy", "metrics", "model"]),
    Room::new("groups", "pronk-groups", &["buffer", "metrics"]),
    Room::new("hosts/zenoh", "pronk-hosts-zenoh", &["hosts"]),
    Room::new("hosts", "pronk-hosts", &["rollout", "buffer", "policy", "metrics", "model"]),
    Room::new("envs/process", "pronk-env-process", &["rollout", "buffer", "policy", "metrics"]),
];

const SCRIPTS: [&str; 3] = [".py", ".js", ".css"];

/// One room of the house.
pub(super) struct Room {
    pub(super) folder: &'static str,
    pub(super) package: &'static str,
    pub(super) knows: &'static [&'static str],
}

impl Room {
    const fn new(folder: &'static str, package: &'static str, knows: &'static [&'static str]) -> Self {
        Self { folder, package, knows }
    }

    pub(super) fn holds(&self, file: &RepoFile) -> bool {
        file.is_under(self.folder)
    }

    /// The crate's name in Rust code.
    pub(super) fn ident(&self) -> String {
        self.package.replace('-', "_")
    }
}

/// One file, its path relative to the root with `/` between the parts.
pub(super) struct RepoFile {
    pub(super) path: String,
    pub(super) text: String,
}

impl RepoFile {
    pub(super) fn is_under(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Python, and what the page and the report are made of; not the files of uPlot, which come as they are.
    pub(super) fn is_script(&self) -> bool {
        let is_script = SCRIPTS.iter().any(|ending| self.path.ends_with(ending));
        is_script && !self.path.contains("/uplot/")
    }

    /// Code that no user runs: tests, models and benches.
    pub(super) fn is_test(&self) -> bool {
        let is_test = |part: &str| matches!(part.trim_end_matches(".rs"), "tests" | "models" | "benches");
        self.path.split('/').any(|part| is_test(part) || part.ends_with("_tests.rs"))
    }

    /// Numbered lines, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Every `.rs`, `Cargo.toml`, `.md` and script file of the repository.
pub(super) struct Repo {
    files: Vec<RepoFile>,
}

impl Repo {
    pub(super) fn load(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        collect(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(super) fn from_files(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| RepoFile { path: path.to_owned(), text: text.to_owned() };
        Self { files: files.iter().map(file).collect() }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &RepoFile> {
        self.files.iter()
    }

    pub(super) fn get(&self, path: &str) -> Option<&RepoFile> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = (&RepoFile, Source)> {
        self.files().filter(|file| file.is_rust()).map(|file| (file, Source::of(&file.text)))
    }

    pub(super) fn manifests(&self) -> impl Iterator<Item = &RepoFile> {
        self.files().filter(|file| file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml"))
    }
}

fn collect(dir: &Path, prefix: &str, files: &mut Vec<RepoFile>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            // Hidden folders and cargo's output are not part of the house.
            if !name.starts_with('.') && name != "target" && path != "runs" {
                collect(&entry.path(), &format!("{path}/"), files)?;
            }
        } else {
            let file = RepoFile { path, text: String::new() };
            if file.is_rust() || file.is_script() || name.ends_with(".md") || name == "Cargo.toml" {
                let text = fs::read_to_string(entry.path()).with_context(|| format!("cannot read {}", file.path))?;
                files.push(RepoFile { text, ..file });
            }
        }
    }
    Ok(())
}
