//! Writes what runs leave into the corpus, for new versions of the formats:
//! `cargo run -p pronk-fuzz --example seeds`.

use std::fs;
use std::path::Path;

use pronk_fuzz::{Folder, Kind};

/// Length and checksums of an entry in a record.
const HEAD: usize = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (kind, name) in Kind::ALL.into_iter().zip(["exact", "exact-groups", "exact-agents"]) {
        let checkpoints = pronk_fuzz::checkpoints(kind)?;
        if kind == Kind::Together {
            fs::write(corpus.join("checkpoint/whole"), checkpoints.to_bytes())?;
        }
        fs::write(corpus.join("checkpoint").join(name), exact(checkpoints).to_bytes())?;
    }
    let mut run = pronk_fuzz::record()?;
    let results = run.0.remove("results.jsonl").unwrap_or_default();
    fs::write(corpus.join("results/whole"), results)?;
    run.0.retain(|name, _| name.starts_with("run.rec"));
    fs::write(corpus.join("batch/fragment"), second_entry(&run))?;
    fs::write(corpus.join("record/whole"), run.to_bytes())?;
    Ok(())
}

/// The checkpoint from which a run goes on exactly, which is not the last one, without others.
fn exact(mut folder: Folder) -> Folder {
    let is_of_others = |name: &str| name.starts_with("manifest") || name == "PROGRESS";
    let manifests: Vec<Vec<u8>> = folder.0.extract_if(.., |name, _| is_of_others(name)).map(|(_, file)| file).collect();
    let text = |file: &[u8]| String::from_utf8_lossy(file).into_owned();
    if let Some(manifest) = manifests.into_iter().find(|file| text(file).contains("\"exact\": true")) {
        folder.0.retain(|name, _| text(&manifest).contains(name));
        folder.0.insert("manifest.json".to_owned(), manifest);
    }
    folder
}

/// The first fragment of a record, which comes after the header.
fn second_entry(record: &Folder) -> &[u8] {
    let file = record.0.get("run.rec.fragments").map_or(&[][..], Vec::as_slice);
    let entry = |bytes: &[u8]| bytes.first_chunk().map_or(0, |len| HEAD + u32::from_le_bytes(*len) as usize);
    let rest = file.get(entry(file)..).unwrap_or_default();
    rest.get(HEAD..entry(rest)).unwrap_or_default()
}
