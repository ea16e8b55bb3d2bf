//! Which file of a crate imports from which: the graph that the rules about circles and layers look at.
//!
//! An import leads to the file that *defines* the name; a page that re-exports it is passed through. Code
//! under `#[cfg(test)]` and files of tests do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::repo::{Repo, RepoFile};
use super::source::Source;

/// A file's module path within its crate, such as `["worker", "lockstep"]`; empty for `lib.rs` and `main.rs`.
pub(super) type Module = Vec<String>;

/// The files of one crate and their imports.
pub(super) struct Files<'a> {
    paths: BTreeMap<Module, &'a RepoFile>,
    /// For each file, the line of the first import from another one.
    imports: BTreeMap<Module, BTreeMap<Module, usize>>,
}

/// One file's text, read.
#[derive(Default)]
struct Text {
    defines: BTreeSet<String>,
    /// Paths with their lines, and the name that each brings in.
    uses: Vec<Use>,
}

struct Use {
    path: Vec<String>,
    name: String,
    line: usize,
    is_reexport: bool,
}

impl<'a> Files<'a> {
    /// The files under `root`, such as `rollout/src`.
    pub(super) fn under(repo: &'a Repo, root: &str) -> Self {
        let own = repo.files().filter(|file| file.is_rust() && file.is_under(root) && !file.is_test());
        let paths: BTreeMap<Module, &RepoFile> = own.map(|file| (module(&file.path[root.len() + 1..]), file)).collect();
        let texts = paths.iter().map(|(at, file)| (at.clone(), Text::of(&file.text, at, &paths))).collect();
        let imports = paths.keys().map(|at| (at.clone(), imports(at, &texts))).collect();
        Self { paths, imports }
    }

    pub(super) fn path(&self, module: &Module) -> &'a RepoFile {
        self.paths[module]
    }

    pub(super) fn modules(&self) -> impl Iterator<Item = &Module> {
        self.paths.keys()
    }

    /// Every import: from which file, in which line, and of which other one.
    pub(super) fn imports(&self) -> impl Iterator<Item = (&Module, usize, &Module)> {
        self.imports.iter().flat_map(|(from, to)| to.iter().map(move |(to, line)| (from, *line, to)))
    }

    /// A shortest circle through each file that is in one, no file in two of them. The first file comes first
    /// and last.
    pub(super) fn circles(&self) -> Vec<Vec<&Module>> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for start in self.imports.keys() {
            if !seen.contains(start)
                && let Some(circle) = self.circle_through(start)
            {
                seen.extend(circle.iter().copied());
                found.push(circle);
            }
        }
        found
    }

    fn circle_through<'s>(&'s self, start: &'s Module) -> Option<Vec<&'s Module>> {
        let mut came_from: BTreeMap<&Module, &Module> = BTreeMap::new();
        let mut waiting = VecDeque::from([start]);
        while let Some(at) = waiting.pop_front() {
            for next in self.imports.get(at)?.keys() {
                if next == start {
                    let mut circle = vec![start, at];
                    while let Some(before) = circle.last().and_then(|last| came_from.get(last)) {
                        circle.push(before);
                    }
                    circle.reverse();
                    circle.push(start);
                    circle.dedup();
                    return Some(circle);
                }
                if !came_from.contains_key(next) {
                    came_from.insert(next, at);
                    waiting.push_back(next);
                }
            }
        }
        None
    }
}

/// `worker/lockstep.rs` is `["worker", "lockstep"]`.
fn module(path: &str) -> Module {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    if matches!(path, "lib" | "main") { Module::new() } else { path.split('/').map(str::to_owned).collect() }
}

impl Text {
    fn of(text: &str, at: &Module, files: &BTreeMap<Module, &RepoFile>) -> Self {
        let source = Source::of(text);
        let tokens = tokens(&source);
        let mut read = Self::default();
        let mut i = 0;
        while let Some(&(token, line)) = tokens.get(i) {
            i += 1;
            match token {
                "struct" | "enum" | "trait" | "type" | "fn" | "const" | "static" | "union" => {
                    read.defines.extend(tokens.get(i).map(|(name, _)| (*name).to_owned()));
                }
                // Not what an `impl Trait` captures.
                "use" if tokens.get(i).is_some_and(|(next, _)| *next != "<") => {
                    let is_reexport = matches!(tokens.get(i.wrapping_sub(2)), Some((")" | "pub", _)));
                    let mut leaves = Vec::new();
                    i = use_tree(&tokens, i, &[], &mut leaves);
                    read.uses.extend(leaves.into_iter().map(|(path, name)| Use { path, name, line, is_reexport }));
                }
                // A path in the code itself: from the root, the parent, or a child.
                _ if tokens.get(i).is_some_and(|(next, _)| *next == "::")
                    && (i < 2 || tokens[i - 2].0 != "::")
                    && (matches!(token, "crate" | "super") || is_file(files, at, token)) =>
                {
                    let mut path = vec![token.to_owned()];
                    while tokens.get(i).is_some_and(|(next, _)| *next == "::") {
                        path.extend(tokens.get(i + 1).map(|(name, _)| (*name).to_owned()));
                        i += 2;
                    }
                    read.uses.push(Use { path, name: String::new(), line, is_reexport: false });
                }
                _ => {}
            }
        }
        for used in &mut read.uses {
            used.path = absolute(at, std::mem::take(&mut used.path), files);
        }
        read
    }
}

fn is_file(files: &BTreeMap<Module, &RepoFile>, at: &Module, child: &str) -> bool {
    files.contains_key(&[at.as_slice(), &[child.to_owned()]].concat())
}

/// The path from the crate's root; empty if it leads to another crate.
fn absolute(at: &Module, path: Vec<String>, files: &BTreeMap<Module, &RepoFile>) -> Vec<String> {
    let (mut base, mut rest) = (at.clone(), path.as_slice());
    match rest.first().map(String::as_str) {
        Some("crate") => (base, rest) = (Module::new(), &rest[1..]),
        Some("self") => rest = &rest[1..],
        Some("super") => {}
        Some(child) if is_file(files, at, child) => {}
        _ => return Vec::new(),
    }
    while rest.first().is_some_and(|name| name == "super") {
        base.pop();
        rest = &rest[1..];
    }
    [base.as_slice(), rest].concat()
}

fn imports(at: &Module, texts: &BTreeMap<Module, Text>) -> BTreeMap<Module, usize> {
    let mut found = BTreeMap::new();
    for used in texts[at].uses.iter().filter(|used| !used.is_reexport && !used.path.is_empty()) {
        let to = definition(&used.path, texts, 0);
        if to != *at {
            found.entry(to).or_insert(used.line);
        }
    }
    found
}

/// The file that defines what a path leads to.
fn definition(path: &[String], texts: &BTreeMap<Module, Text>, passed: usize) -> Module {
    const MOST_PAGES: usize = 16;
    let known = (0..=path.len()).take_while(|&len| texts.contains_key(&path[..len])).last().unwrap_or(0);
    let file = path[..known].to_vec();
    let Some((name, text)) = path.get(known).zip(texts.get(&file)) else { return file };
    if text.defines.contains(name) || passed == MOST_PAGES {
        return file;
    }
    match text.uses.iter().find(|used| used.name == *name && !used.path.is_empty()) {
        Some(used) => definition(&used.path, texts, passed + 1),
        None => file,
    }
}

/// Reads one tree of a `use`, from token `i` on; the number of the token after it.
fn use_tree(
    tokens: &[(&str, usize)],
    mut i: usize,
    prefix: &[String],
    leaves: &mut Vec<(Vec<String>, String)>,
) -> usize {
    let mut path = prefix.to_vec();
    let mut name = String::new();
    while let Some(&(token, _)) = tokens.get(i) {
        match token {
            "{" => {
                i += 1;
                while tokens.get(i).is_some_and(|(token, _)| !matches!(*token, "}" | ";")) {
                    i = use_tree(tokens, i, &path, leaves);
                    i += usize::from(tokens.get(i).is_some_and(|(token, _)| *token == ","));
                }
                return i + 1;
            }
            "as" => name = tokens.get(i + 1).map(|(name, _)| (*name).to_owned()).unwrap_or_default(),
            "," | "}" | ";" => break,
            "::" | "self" if token == "::" || !path.is_empty() => {}
            _ if name.is_empty() => path.push(token.to_owned()),
            _ => {}
        }
        i += 1;
    }
    if name.is_empty() {
        name = path.last().cloned().unwrap_or_default();
    }
    leaves.push((path, name));
    i
}

/// Words, `::` and single signs of the code that is no test, with their lines.
fn tokens(source: &Source) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.code.lines()).filter(|(number, _)| !source.is_test_line(*number)) {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let len = match first {
                _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            found.push((&rest[..len], number));
            rest = rest[len..].trim_start();
        }
    }
    found
}
