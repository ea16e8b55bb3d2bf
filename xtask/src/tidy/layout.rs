//! Files: how long, what they are called, and that what pages name is there.

use super::finding::Finding;
use super::repo::{ROOMS, Repo, RepoFile};

const MAX_LINES: usize = 500;

const DRAWERS: &[&str] = &["common", "helper", "helpers", "misc", "util", "utils"];

pub(super) fn drawers(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in repo.rust() {
        let parts = file.path.trim_end_matches(".rs").split('/');
        if let Some(part) = parts.into_iter().find(|part| DRAWERS.contains(part)) {
            found.push(Finding::new(file, 1, format!("a module called `{part}`")));
        }
        for drawer in DRAWERS {
            let inline = format!("mod {drawer} {{");
            let lines: Vec<usize> = source.find(&inline).collect();
            let what = format!("a module called `{drawer}`");
            found.extend(lines.into_iter().map(|line| Finding::new(file, line, &*what)));
        }
    }
    found
}

pub(super) fn file_length(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in repo.files().filter(|file| file.is_rust() && !file.is_test()) {
        let lines = file.lines().count();
        if lines > MAX_LINES {
            found.push(Finding::new(file, lines, format!("{lines} lines")));
        }
    }
    found
}

pub(super) fn crate_docs(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in repo.files() {
        let is_crate = file.path == "src/lib.rs" || file.path.ends_with("/src/lib.rs");
        let has_doc = file.text.starts_with("//! ") || file.text.starts_with("#![doc = include_str!");
        if is_crate && !has_doc {
            found.push(Finding::new(file, 1, "does not open with a doc"));
        }
    }
    found
}

pub(super) fn room_readmes(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for room in ROOMS {
        let path = format!("{}/README.md", room.folder);
        let has_text = |file: &RepoFile| !file.text.trim().is_empty();
        if !repo.get(&path).is_some_and(has_text) {
            found.push(Finding::at(&path, 1, "is missing or empty"));
        }
    }
    found
}

/// Examples that `README.md` runs, and files that it, `ARCHITECTURE.md` or a room's page names in backticks.
pub(super) fn named_files(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for page in repo.files().filter(|file| is_guide(file)) {
        for (line, text) in page.lines() {
            for name in examples_in(text) {
                let candidates = [format!("examples/{name}.rs"), format!("examples/{name}/main.rs")];
                if !candidates.iter().any(|path| repo.get(path).is_some()) {
                    let what = format!("names the example `{name}`, which is not in examples/");
                    found.push(Finding::new(page, line, what));
                }
            }
            for name in rust_files_in(text) {
                if !exists_for(repo, page, name) {
                    let what = format!("names `{name}`, which does not exist");
                    found.push(Finding::new(page, line, what));
                }
            }
        }
    }
    found
}

fn is_guide(file: &RepoFile) -> bool {
    let is_room_page = |folder: &str| file.path == format!("{folder}/README.md");
    matches!(file.path.as_str(), "README.md" | "ARCHITECTURE.md") || ROOMS.iter().any(|room| is_room_page(room.folder))
}

/// The words after `--example`.
fn examples_in(text: &str) -> impl Iterator<Item = &str> {
    text.split("--example ").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')));
        let name = &rest[..end.unwrap_or(rest.len())];
        (!name.is_empty()).then_some(name)
    })
}

/// What stands in backticks and ends in `.rs`.
pub(super) fn rust_files_in(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs") && !name.contains(['*', '<', ' ', '{']))
}

/// A page names files below its own folder, by as much of their path as tells them apart, or from the root.
fn exists_for(repo: &Repo, page: &RepoFile, name: &str) -> bool {
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_meant = |file: &RepoFile| file.path.starts_with(folder) && file.path.ends_with(&format!("/{name}"));
    repo.get(name).is_some() || repo.files().any(is_meant)
}
