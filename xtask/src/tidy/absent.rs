//! What is absent from the code.

use super::finding::Finding;
use super::repo::Repo;

const PRELUDE_NAMES: usize = 12;

/// The inner loops of products, and the copies out of memory that another process shares.
const MAY_BE_UNSAFE: [&str; 2] = ["policy/src/ops/", "envs/process/src/memory.rs"];

const UNFINISHED_CODE: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore"];
const UNFINISHED_COMMENT: &[&str] = &["FIXME", "XXX"];

pub(super) fn unnamed_threads(repo: &Repo) -> Vec<Finding> {
    outside_tests(repo, &["thread::spawn"])
}

pub(super) fn unbounded_queues(repo: &Repo) -> Vec<Finding> {
    outside_tests(repo, &["mpsc::channel", "unbounded", "unbounded_channel"])
}

fn outside_tests(repo: &Repo, patterns: &[&str]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in repo.rust().filter(|(file, _)| !file.is_test()) {
        for pattern in patterns {
            let lines = source.find(pattern).filter(|&line| !source.is_test_line(line));
            found.extend(lines.map(|line| Finding::new(file, line, format!("`{pattern}`"))));
        }
    }
    found
}

pub(super) fn unfinished(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in repo.rust() {
        for mark in UNFINISHED_CODE {
            let lines = source.find(mark);
            found.extend(lines.map(|line| Finding::new(file, line, format!("`{mark}`"))));
        }
        for mark in UNFINISHED_COMMENT {
            let lines = source.find_in_comments(mark);
            found.extend(lines.map(|line| Finding::new(file, line, format!("`{mark}`"))));
        }
    }
    found
}

pub(super) fn unsafe_code(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in repo.rust() {
        if !MAY_BE_UNSAFE.iter().any(|place| file.path.starts_with(place)) {
            let lines = source.find("unsafe");
            found.extend(lines.map(|line| Finding::new(file, line, "`unsafe`")));
        }
    }
    found
}

pub(super) fn glob_exports(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in repo.rust() {
        let globs = source.pub_uses().filter(|(_, text)| text.contains('*'));
        found.extend(globs.map(|(line, text)| Finding::new(file, line, format!("`{text}`"))));
    }
    found
}

pub(super) fn prelude_size(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in repo.rust().filter(|(file, _)| file.path.ends_with("/prelude.rs")) {
        let names: usize = source.pub_uses().map(|(_, text)| exported(text)).sum();
        if names > PRELUDE_NAMES {
            found.push(Finding::new(file, 1, format!("{names} names")));
        }
    }
    found
}

/// How many names a `pub use` statement exports: those followed by `,`, `}` or `;`.
fn exported(statement: &str) -> usize {
    let mut names = 0;
    let mut before = ' ';
    for c in statement.chars().filter(|c| !c.is_whitespace()) {
        let ends_name = before.is_alphanumeric() || before == '_';
        names += usize::from(ends_name && matches!(c, ',' | '}' | ';'));
        before = c;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exported_names_are_counted_through_braces_and_renames() {
        assert_eq!(exported("pub use a::B;"), 1);
        assert_eq!(exported("pub use a::{B, c::{D, E as F},\n G,};"), 4);
    }
}
