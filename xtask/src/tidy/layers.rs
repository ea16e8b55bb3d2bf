//! What may import what inside a crate: no circle of files, and only what is in the same layer or below.

use std::collections::BTreeMap;

use super::files::{Files, Module};
use super::finding::Finding;
use super::repo::{ROOMS, Repo, RepoFile};

/// The page whose pictures declare the layers.
const PAGE: &str = "ARCHITECTURE.md";

/// Files outside of layers: what the tests of a room share.
const OUTSIDE: &[&str] = &["testing", "prelude"];

pub(super) fn circles(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for root in roots() {
        let files = Files::under(repo, &root);
        for circle in files.circles() {
            let names: Vec<_> = circle.iter().map(|module| name(module)).collect();
            let [from, to, ..] = circle[..] else { continue };
            let line = files.imports().find(|(a, _, b)| (*a, *b) == (from, to)).map_or(1, |(_, line, _)| line);
            found.push(Finding::new(files.path(from), line, format!("files in a circle: {}", names.join(" → "))));
        }
    }
    found
}

/// The layers of each room, lowest first, as the page draws them: a block whose first line begins with the
/// room's source folder, and a line for each layer that begins with its modules, the first parts of paths
/// under that folder.
pub(super) fn layers(repo: &Repo) -> Vec<Finding> {
    let Some(page) = repo.get(PAGE) else { return vec![Finding::at(PAGE, 1, "is missing")] };
    let sources = ROOMS.iter().map(|room| format!("{}/src", room.folder)).chain(["src".to_owned()]);
    sources.flat_map(|root| layers_of(repo, page, &root)).collect()
}

fn layers_of(repo: &Repo, page: &RepoFile, root: &str) -> Vec<Finding> {
    let files = Files::under(repo, root);
    let in_layers = |module: &&Module| module.first().is_some_and(|first| !OUTSIDE.contains(&first.as_str()));
    if !files.modules().any(|module| in_layers(&module)) {
        return Vec::new();
    }
    let picture = picture(page, root);
    let Some(&(first, _)) = picture.first() else {
        return vec![Finding::new(page, 1, format!("has no picture of the layers of {root}"))];
    };
    let mut found = Vec::new();
    let mut layer_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (layer, (line, names)) in picture.iter().enumerate() {
        for name in names {
            if !files.modules().any(|module| module.first().is_some_and(|first| first == name)) {
                found.push(Finding::new(page, *line, format!("{root}/{name} is not there")));
            }
            if layer_of.insert(name, layer).is_some() {
                found.push(Finding::new(page, *line, format!("{root}/{name} is in two layers")));
            }
        }
    }
    let layer = |module: &Module| layer_of.get(module.first()?.as_str()).copied();
    for module in files.modules().filter(in_layers).filter(|module| module.len() == 1 && layer(module).is_none()) {
        found.push(Finding::new(page, first, format!("the picture lacks {}", files.path(module).path)));
    }
    for (from, line, to) in files.imports() {
        let (Some(own), Some(other)) = (layer(from), layer(to)) else { continue };
        if other > own {
            let what = format!("`{}` imports from `{}`, which is in a layer above it", name(from), name(to));
            found.push(Finding::new(files.path(from), line, what));
        }
    }
    found
}

/// Each layer's line and modules.
fn picture<'a>(page: &'a RepoFile, root: &str) -> Vec<(usize, Vec<&'a str>)> {
    let is_first = |text: &str| text.strip_prefix(root).is_some_and(|rest| rest.starts_with(' '));
    let block = page.lines().skip_while(|(_, text)| !is_first(text)).take_while(|(_, text)| !text.starts_with("```"));
    let modules = |text: &'a str| text.trim_start().split("  ").next().unwrap_or_default().split(' ').collect();
    block.map(|(line, text)| (line, modules(if is_first(text) { &text[root.len()..] } else { text }))).collect()
}

/// The source folders of all crates.
fn roots() -> impl Iterator<Item = String> {
    let others = ["src", "dashboard/src", "xtask/src", "xtask/golden/src"].map(str::to_owned);
    ROOMS.iter().map(|room| format!("{}/src", room.folder)).chain(others)
}

fn name(module: &Module) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("/") }
}
