//! Finds the golden files of a directory, hands each to its runner, and checks that nothing is left out.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::recorder::{Recorder, panic_text};
use crate::report::{FileReport, Report};
use crate::{Runner, json};

/// Top-level keys of a golden file that describe it rather than hold entries.
const NOT_SECTIONS: &[&str] = &["source", "notes"];

pub(crate) fn run_dir(dir: &Path, runners: &[(&str, Runner)]) -> Result<Report> {
    let mut paths = Vec::new();
    for entry in
        fs::read_dir(dir).with_context(|| format!("cannot read the directory {}", dir.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        bail!("no golden file (*.json) in {}", dir.display());
    }
    let files = paths.iter().map(|path| run_file(path, runners)).collect();
    Ok(Report { files })
}

fn run_file(path: &Path, runners: &[(&str, Runner)]) -> FileReport {
    let mut recorder = Recorder::new(file_name(path));
    let file = match load(path) {
        Ok(loaded) => loaded,
        Err(error) => {
            recorder.fail_file(format!("{error:#}"));
            return recorder.into_report();
        }
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let Some((_, runner)) = runners.iter().find(|(name, _)| *name == stem) else {
        recorder.no_runner_for_any(&file, "the file has no runner");
        return recorder.into_report();
    };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| runner(&file, &mut recorder))) {
        let text = panic_text(&*payload);
        recorder.fail_file(format!("the runner panicked outside a case: {text}"));
        return recorder.into_report();
    }
    let accounted = recorder.accounted();
    let entries = entries(&file).len();
    if accounted < entries {
        // An entry neither run nor listed would be a silent skip.
        recorder.fail_file(format!(
            "the runner ran or listed {accounted} of {entries} entries; \
             give the others a case, `deviation` or `no_runner`"
        ));
    }
    recorder.into_report()
}

fn load(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).context("cannot be read")?;
    let file: Value = serde_json::from_str(&text).context("is not valid JSON")?;
    ensure!(file.is_object(), "is not a JSON object");
    ensure!(!entries(&file).is_empty(), "holds no entries");
    Ok(file)
}

/// (kind, name) of every entry: the objects in the file's top-level arrays. The kind is the section,
/// followed by the entry's own algorithm or kind where it states one.
pub(crate) fn entries(file: &Value) -> Vec<(String, String)> {
    let Some(sections) = file.as_object() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (section, content) in sections {
        let Value::Array(items) = content else {
            continue;
        };
        if NOT_SECTIONS.contains(&section.as_str()) {
            continue;
        }
        for (index, item) in items.iter().enumerate().filter(|(_, i)| i.is_object()) {
            let stated = ["algo", "kind", "env"]
                .iter()
                .filter_map(|key| item.get(key).and_then(Value::as_str));
            let kind: Vec<&str> = [section.as_str()].into_iter().chain(stated).collect();
            found.push((kind.join("/"), json::name_of(item, index)));
        }
    }
    found
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
