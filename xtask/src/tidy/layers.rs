//! What may import what inside a crate: no circle of files, and in a room with layers only downwards.

use super::files::{Files, Module};
use super::finding::Finding;
use super::repo::{ROOMS, Repo};

/// The layers of rooms that have them, lowest first. A file's layer is the first part of its path under
/// `src/`.
pub(super) const LAYERS: &[(&str, &[&str])] =
    &[("rollout", &["env", "wrappers", "vector", "envs", "check", "pool", "act", "worker", "run"])];

/// Files outside of layers: the list of what a room offers, and what its tests share.
const OUTSIDE: &[&str] = &["testing"];

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

pub(super) fn layers(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (room, layers) in LAYERS {
        let files = Files::under(repo, &format!("{room}/src"));
        let layer = |module: &Module| {
            let first = module.first()?;
            (!OUTSIDE.contains(&first.as_str())).then_some(layers.iter().position(|layer| layer == first))
        };
        for (from, line, to) in files.imports() {
            let (Some(own), Some(other)) = (layer(from), layer(to)) else { continue };
            let what = match (own, other) {
                (Some(own), Some(other)) if other > own => {
                    format!("layer `{}` imports from `{}`, which is above it", layers[own], layers[other])
                }
                (None, _) => format!("`{}` is in none of the layers {}", name(from), layers.join(", ")),
                _ => continue,
            };
            found.push(Finding::new(files.path(from), line, what));
        }
    }
    found
}

/// The source folders of all crates.
fn roots() -> impl Iterator<Item = String> {
    let others = ["src", "xtask/src", "xtask/golden/src"].map(str::to_owned);
    ROOMS.iter().map(|room| format!("{}/src", room.folder)).chain(others)
}

fn name(module: &Module) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("/") }
}
