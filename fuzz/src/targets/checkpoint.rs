//! Checkpoints that someone has made up: any content, with the sizes and checksums that belong to it.

use pronk::{ByPolicy, Checkpoint};
use serde_json::{Value, json};

use crate::Target;
use crate::folder::{Folder, scratch};
use crate::seeds::go_on;

pub(crate) const TARGET: Target = Target {
    name: "checkpoint",
    promise: "A folder whose manifest gets the right sizes and checksums loads or is refused; what loads can be \
              saved and loads again the same, and a run that goes on from it ends.",
    run,
};

fn run(bytes: &[u8]) {
    load(&sealed(Folder::parse(bytes)));
}

/// Loads a folder, and checks what is promised of one that someone has made up.
pub(super) fn load(folder: &Folder) {
    let folder = folder.write();
    match Checkpoint::load_all(folder.path()) {
        Ok(loaded) => save_and_load(&loaded),
        Err(error) => drop(error.to_string()),
    }
    let _ = go_on(folder.path());
}

/// The folder, whose manifest has the sizes and checksums of the files that it names.
pub(super) fn sealed(mut folder: Folder) -> Folder {
    let Some(manifest) = folder.0.get("manifest.json") else { return folder };
    let Ok(Value::Object(mut manifest)) = serde_json::from_slice(manifest) else { return folder };
    manifest.remove("crc32c");
    let mut manifest = Value::Object(manifest);
    correct(&mut manifest, &folder);
    let mut json = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
    json.truncate(json.len().saturating_sub("\n}".len()));
    let seal = format!(",\n  \"crc32c\": \"{:08x}\"\n}}\n", crc32c::crc32c(&json));
    json.extend(seal.into_bytes());
    folder.0.insert("manifest.json".to_owned(), json);
    folder
}

fn correct(entry: &mut Value, folder: &Folder) {
    if let Some(content) = entry["file"].as_str().and_then(|name| folder.0.get(name)) {
        let crc32c = format!("{:08x}", crc32c::crc32c(content));
        *entry = json!({ "file": entry["file"], "bytes": content.len(), "crc32c": crc32c });
    }
    match entry {
        Value::Object(table) => table.values_mut().for_each(|below| correct(below, folder)),
        Value::Array(list) => list.iter_mut().for_each(|below| correct(below, folder)),
        _ => {}
    }
}

/// Checks that what was loaded can be saved, and loads again the same.
fn save_and_load(loaded: &ByPolicy<Checkpoint>) {
    for checkpoint in loaded.values() {
        // It may be of a network that cannot act in its spaces.
        let _ = checkpoint.policy().map_err(|error| error.to_string());
    }
    if loaded.is_empty() {
        return;
    }
    let folder = scratch();
    Checkpoint::save_all(loaded, folder.path()).unwrap_or_else(|error| panic!("what was loaded is not saved: {error}"));
    let again = Checkpoint::load_all(folder.path());
    let again = again.unwrap_or_else(|error| panic!("what was loaded and saved does not load: {error}"));
    assert!(are_same(loaded, &again), "{loaded:?} is not {again:?}");
}

/// Whether these are the same checkpoints.
pub(super) fn are_same(some: &ByPolicy<Checkpoint>, others: &ByPolicy<Checkpoint>) -> bool {
    let are_same = |one: &Checkpoint, other: &Checkpoint| {
        // Weights and statistics may be NaN, which equals nothing.
        let bits = |one: &Checkpoint| one.state.params.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let texts = |one: &Checkpoint| {
            let Checkpoint {
                env, algorithm, observation, action, network, config, normalizer, life, score, state, ..
            } = one;
            let target = state.algorithm.target.as_ref().map(|target| (target.params.values(), target.age));
            format!(
                "{env:?} {algorithm:?} {observation:?} {action:?} {network:?} {config:?} {normalizer:?} {life} {score:?} \
                 {:?} {} {} {:?} {target:?} {:?}",
                state.optimizer,
                state.updates,
                state.global_step,
                state.algorithm.numbers,
                state.params.layout()
            )
        };
        bits(one) == bits(other) && texts(one) == texts(other)
    };
    some.len() == others.len()
        && some.iter().all(|(policy, one)| others.get(policy).is_some_and(|other| are_same(one, other)))
}
