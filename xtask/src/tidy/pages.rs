//! Pages: the reading list of `ARCHITECTURE.md`, and how wide prose and scripts may be.

use super::finding::Finding;
use super::layout::rust_files_in;
use super::repo::{Repo, RepoFile};

const PAGE: &str = "ARCHITECTURE.md";
const READING_LIST: &str = "## Read in this order";
const READING_FILES: usize = 6;
const READING_LINES: usize = 700;

const PROSE_COLUMNS: usize = 110;
const SCRIPT_COLUMNS: usize = 120;

/// The reading list: few enough files, and short enough, to be read in ten minutes.
pub(super) fn reading_list(repo: &Repo) -> Vec<Finding> {
    let Some(page) = repo.get(PAGE) else { return Vec::new() };
    let mut list = page.lines().skip_while(|(_, text)| *text != READING_LIST);
    let Some((heading, _)) = list.next() else {
        return vec![Finding::new(page, 1, format!("has no section `{READING_LIST}`"))];
    };
    let list = list.take_while(|(_, text)| !text.starts_with("## "));
    let names: Vec<_> = list.flat_map(|(_, text)| rust_files_in(text)).collect();
    let lines: usize = names.iter().filter_map(|name| repo.get(name)).map(|file| file.lines().count()).sum();
    if names.is_empty() || names.len() > READING_FILES {
        return vec![Finding::new(page, heading, format!("{} files", names.len()))];
    }
    if lines > READING_LINES {
        return vec![Finding::new(page, heading, format!("{lines} lines"))];
    }
    Vec::new()
}

/// Comments, and pages without their tables and code; a link counts without its address.
pub(super) fn prose_width(repo: &Repo) -> Vec<Finding> {
    let is_text = |file: &&RepoFile| file.is_rust() || file.path.ends_with(".md");
    let mut found = Vec::new();
    for file in repo.files().filter(is_text) {
        let mut in_code = false;
        for (line, text) in file.lines() {
            let text = text.trim_end();
            let prose = if file.is_rust() { text.trim_start().strip_prefix("//") } else { Some(text) };
            let Some(prose) = prose.map(|prose| prose.trim_start_matches(['/', '!']).trim_start()) else {
                in_code = false;
                continue;
            };
            in_code ^= prose.starts_with("```");
            let columns = columns(text);
            if !in_code && !prose.starts_with('|') && columns > PROSE_COLUMNS {
                found.push(Finding::new(file, line, format!("{columns} columns")));
            }
        }
    }
    found
}

/// Python, JavaScript and CSS, which rustfmt does not break.
pub(super) fn script_width(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in repo.files().filter(|file| file.is_script()) {
        for (line, text) in file.lines() {
            let columns = text.chars().count();
            if columns > SCRIPT_COLUMNS {
                found.push(Finding::new(file, line, format!("{columns} columns")));
            }
        }
    }
    found
}

fn columns(text: &str) -> usize {
    let mut links = text.split("](");
    let address = |rest: &str| rest.find(')').map_or(0, |end| rest[..end].chars().count());
    let first = links.next().map_or(0, |first| first.chars().count());
    first + links.map(|rest| 2 + rest.chars().count() - address(rest)).sum::<usize>()
}
