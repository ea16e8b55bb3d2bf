//! The names of the files in the folder of a run, and how they are removed.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::checkpoint::is_checkpoint_file;

/// The file that claims a folder for a run: created first, and exclusively.
pub(crate) const RESULTS: &str = "results.jsonl";

/// The numbers of the results as a table.
pub(crate) const TABLE: &str = "progress.csv";

/// The page of the run.
pub(crate) const REPORT: &str = "report.html";

/// Prefix of TensorBoard's files.
pub(crate) const EVENTS: &str = "events.out.tfevents.";

/// The settings of the run.
pub(crate) const SETTINGS: &str = "config.toml";

/// What is known of the run beside its results.
pub(crate) const RUN_INFO: &str = "run.json";

/// The folders of checkpoints and videos, where the run uses the customary names.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
const VIDEOS: &str = "videos";

/// The best policy, in the folder of checkpoints.
const BEST: &str = "best";

/// Other logs of a run, besides TensorBoard's.
const RECORDS: [&str; 3] = [TABLE, REPORT, "timers.json"];

/// Other files that `pronk train` writes.
const OTHERS: [&str; 3] = [RUN_INFO, "timeline.json", "log.txt"];

/// The only policy as `pronk export` writes it, without the name's end.
const EXPORTS: [&str; 2] = ["policy", "best-policy"];

/// What names of videos begin and end with.
const VIDEO: (&str, &str) = ("evaluation-", ".png");

/// What comes before the number of an earlier life, in names of folders and of cut-off logs.
const LIFE: &str = "life-";

/// The name of the video of an evaluation that began at so many env-steps.
pub(crate) fn video(env_steps: u64) -> String {
    // Twelve digits, so that names sort by their numbers.
    format!("{}{env_steps:012}{}", VIDEO.0, VIDEO.1)
}

fn is_video(name: &str) -> bool {
    video_env_steps(name).is_some()
}

/// The env-steps at which the evaluation of a video began, by the video's name; `None` if it is none.
pub(crate) fn video_env_steps(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(VIDEO.0)?.strip_suffix(VIDEO.1)?;
    digits.parse().ok().filter(|env_steps| video(*env_steps) == name)
}

/// The name of the folder with the logs of the `n`th life.
pub(super) fn life(n: u32) -> String {
    format!("{LIFE}{n}")
}

/// The name of what is cut off from the log `name`, for the `n`th time.
pub(super) fn tail(name: &str, n: u32) -> String {
    format!("{name}.{LIFE}{n}")
}

fn is_life(name: &str) -> bool {
    name.strip_prefix(LIFE).is_some_and(|n| n.parse::<u32>().is_ok())
}

fn is_tail(name: &str) -> bool {
    let log = name.rsplit_once('.').filter(|(_, end)| is_life(end)).map(|(log, _)| log);
    log.is_some_and(|log| is_record(log) || log == "events")
}

fn is_export(name: &str) -> bool {
    let of = name.strip_suffix(".onnx").or(name.strip_suffix(".safetensors"));
    of.is_some_and(|of| EXPORTS.contains(&of))
}

/// Whether it is a log.
pub(super) fn is_record(name: &str) -> bool {
    name == RESULTS || RECORDS.contains(&name) || name.starts_with(EVENTS)
}

/// Whether it is another file that a run replaces, which may be of something else where there is no log.
pub(super) fn is_other(name: &str) -> bool {
    OTHERS.contains(&name)
}

/// Removes what runs have written into `folder`, and nothing else, with folders that are empty then.
pub(super) fn remove(folder: &Path) -> Result<(), (PathBuf, io::Error)> {
    // A file that is being written has another name.
    let is_other = |name: &str| is_other(name.strip_suffix(".new").unwrap_or(name)) || is_export(name);
    let names = names(folder)?;
    for life in names.iter().filter(|name| is_life(name)) {
        remove_files(&folder.join(life), is_record)?;
        remove_if_empty(&folder.join(life))?;
    }
    // `PROGRESS` stays: a trainer that is built has it open, and writes its own over it.
    let checkpoints = folder.join(CHECKPOINTS);
    for checkpoints in [checkpoints.join(BEST), checkpoints] {
        remove_files(&checkpoints, is_checkpoint_file)?;
        remove_if_empty(&checkpoints)?;
    }
    remove_files(&folder.join(VIDEOS), is_video)?;
    remove_if_empty(&folder.join(VIDEOS))?;
    remove_files(folder, |name| is_checkpoint_file(name) || is_tail(name) || is_other(name))?;
    // Last, because they say that the folder holds a run.
    remove_files(folder, is_record)
}

fn remove_files(folder: &Path, is_it: impl Fn(&str) -> bool) -> Result<(), (PathBuf, io::Error)> {
    for name in names(folder)?.iter().filter(|name| is_it(name)) {
        let path = folder.join(name);
        if !path.is_dir() {
            fs::remove_file(&path).map_err(|error| (path, error))?;
        }
    }
    Ok(())
}

fn remove_if_empty(folder: &Path) -> Result<(), (PathBuf, io::Error)> {
    match fs::remove_dir(folder) {
        Err(error) if !is_absent(&error) && error.kind() != ErrorKind::DirectoryNotEmpty => {
            Err((folder.to_owned(), error))
        }
        _ => Ok(()),
    }
}

/// The names in a folder, sorted; none without a folder.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, (PathBuf, io::Error)> {
    let failed = |error| (folder.to_owned(), error);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    let mut names = names.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    names.sort();
    Ok(names)
}

/// Whether there is no such folder. A link to one counts as none where folders are removed.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
