//! Forged checkpoints: any content, with the sizes and checksums that belong to it.

use pronk::{ByPolicy, Checkpoint};
use serde_json::{Value, json};

use crate::folder::{Folder, scratch};
use crate::seeds::{Kind, SOON, go_on};
use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "checkpoint",
    promise: "A folder whose manifest gets the right sizes and checksums loads or is refused; what loads can be \
              saved and loads again the same, and a run that goes on from it ends.",
    run,
};

fn run(bytes: &[u8]) -> bool {
    load(&sealed(Folder::parse(bytes)), &Kind::ALL)
}

/// Checks what is promised of a forged folder; whether a run of one of the kinds goes on from it.
pub(super) fn load(folder: &Folder, kinds: &[Kind]) -> bool {
    let folder = folder.write();
    match Checkpoint::load_all(folder.path()) {
        Ok(loaded) => save_and_load(&loaded),
        Err(error) => {
            refused(error);
        }
    }
    kinds.iter().filter(|kind| go_on(**kind, folder.path(), SOON).is_ok()).count() > 0
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
    if !loaded.is_empty() {
        let folder = saved(loaded).write();
        let again = Checkpoint::load_all(folder.path());
        let again = again.unwrap_or_else(|error| panic!("what was loaded and saved does not load: {error}"));
        assert!(saved(loaded) == saved(&again), "{loaded:?} is not {again:?}");
    }
}

/// The files of checkpoints: they are the same if these are, unlike numbers that are NaN.
pub(super) fn saved(checkpoints: &ByPolicy<Checkpoint>) -> Folder {
    let folder = scratch();
    let saved = Checkpoint::save_all(checkpoints, folder.path());
    saved.unwrap_or_else(|error| panic!("what was loaded is not saved: {error}"));
    Folder::read(folder.path()).unwrap_or_else(|error| panic!("what was saved cannot be read: {error}"))
}
