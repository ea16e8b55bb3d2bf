//! Videos of a run's evaluations.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs::File;
use std::io;

use rustix::fs::FileType;
use serde::Serialize;

use crate::folder::Place;
use crate::settings::as_text;

/// The folder of videos in that of a run.
pub(crate) const FOLDER: &str = "videos";

/// The maximal number of videos that are listed.
const MAX_VIDEOS: usize = 200;

/// The maximal number of names that are read of the folder.
const MAX_NAMES: usize = 10_000;

/// A video of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Video {
    pub(crate) name: String,
    /// When its evaluation began.
    #[serde(serialize_with = "as_text")]
    pub(crate) at_env_steps: Option<u64>,
    pub(crate) bytes: u64,
}

/// Opens a video that was listed in the folder of a run.
///
/// # Errors
/// It cannot be opened, or another thing has its name by now, such as a link or a pipe.
pub(crate) fn open(run: &Place, video: &str) -> io::Result<File> {
    run.below(FOLDER).open()?.file(video.as_ref())
}

/// The videos in the folder of a run, those of the last evaluations first.
pub(crate) fn videos(run: &Place) -> Vec<Video> {
    let Ok(folder) = run.below(FOLDER).open() else { return Vec::new() };
    let Ok(entries) = folder.entries() else { return Vec::new() };
    let video = |(name, kind): (OsString, FileType)| {
        let name = name.into_string().ok().filter(|name| kind.is_file() && name.ends_with(".png"))?;
        let at_env_steps = name.strip_prefix("evaluation-").and_then(|rest| rest.strip_suffix(".png")?.parse().ok());
        let bytes = folder.stamp(&name).bytes()?;
        Some(Video { name, at_env_steps, bytes })
    };
    let mut videos: Vec<Video> = entries.take(MAX_NAMES).filter_map(video).collect();
    // By number and not by time: a clock may be set back, and copies are made in any order.
    videos.sort_by(|a, b| Reverse((a.at_env_steps, &a.name)).cmp(&Reverse((b.at_env_steps, &b.name))));
    videos.truncate(MAX_VIDEOS);
    videos
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_video_of_the_most_env_steps_is_the_newest_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(FOLDER)).unwrap();
        let names = ["evaluation-000000002000.png", "evaluation-000000010000.png", "evaluation-9000.png", "mine.png"];
        for (hours, name) in names.iter().enumerate() {
            let file = File::create(folder.path().join(FOLDER).join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(3600 * (100 - hours as u64))).unwrap();
        }
        let listed: Vec<_> = videos(&Place::named(folder.path())).into_iter().map(|video| video.name).collect();
        assert_eq!(listed, [names[1], names[2], names[0], names[3]]);
    }
}
