//! Folders of runs and sweeps: found, and read as they grow.

mod find;
mod info;
mod last_line;
mod lines;
mod open;
mod results;
mod run;
mod sample;
mod stamp;
mod sweep;

pub(crate) use find::{Found, FoundRun, FoundSweep, find};
pub(crate) use info::{began, run_info};
pub(crate) use open::Place;
pub(crate) use run::FolderRun;
pub(crate) use stamp::Stamp;
pub(crate) use sweep::SweepFolder;

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

/// The id of what is in a folder: the same in every process, as long as the folder is where it is.
pub(crate) fn id(folder: &Path) -> String {
    format!("{:016x}", xxh3_64(folder.as_os_str().as_encoded_bytes()))
}

/// The last part of a path.
pub(crate) fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned()
}
