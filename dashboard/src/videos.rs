//! Videos of a run's evaluations.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

/// The folder of videos in that of a run.
pub(crate) const FOLDER: &str = "videos";

/// The maximal number of videos that are listed.
const MAX_VIDEOS: usize = 200;

/// A video of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Video {
    pub(crate) name: String,
    /// When its evaluation began.
    pub(crate) at_env_steps: Option<String>,
    pub(crate) bytes: u64,
    #[serde(skip)]
    changed: Option<SystemTime>,
}

/// Opens a video that was listed in the folder of a run.
///
/// # Errors
/// It cannot be opened, or another thing has its name by now, such as a link or a pipe.
pub(crate) fn open(run: &Path, video: &str) -> io::Result<(File, Metadata)> {
    let path = folder(run)?.join(video);
    if !fs::symlink_metadata(&path)?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// The folder of a run's videos. A link might lead to pictures that are not the run's.
fn folder(run: &Path) -> io::Result<PathBuf> {
    let folder = run.join(FOLDER);
    if fs::symlink_metadata(&folder)?.is_dir() { Ok(folder) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// The videos in the folder of a run, the newest first.
pub(crate) fn videos(run: &Path) -> Vec<Video> {
    let Ok(entries) = folder(run).and_then(fs::read_dir) else { return Vec::new() };
    let video = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| name.ends_with(".png"))?;
        // Not what a link leads to.
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let at_env_steps = name.strip_prefix("evaluation-").and_then(|rest| rest.strip_suffix(".png")?.parse().ok());
        let at_env_steps = at_env_steps.map(|steps: u64| steps.to_string());
        Some(Video { name, at_env_steps, bytes: metadata.len(), changed: metadata.modified().ok() })
    };
    let mut videos: Vec<Video> = entries.filter_map(|entry| video(entry.ok()?)).collect();
    videos.sort_by(|a, b| (b.changed, &b.name).cmp(&(a.changed, &a.name)));
    videos.truncate(MAX_VIDEOS);
    videos
}
