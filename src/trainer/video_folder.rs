//! [`VideoFolder`]: the videos of a run's evaluations.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::run_folder;
use crate::video::{Video, VideoError};

/// How many of the newest are kept.
const KEPT: usize = 10;

/// The folder of the videos.
pub(super) struct VideoFolder {
    dir: PathBuf,
}

impl VideoFolder {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Saves the video of an evaluation that began at so many env-steps, and returns its name. Removes those
    /// that are too many.
    ///
    /// *Blocks* on the disk.
    pub(super) fn save(&self, video: &Video, env_steps: u64) -> Result<String, VideoError> {
        let name = run_folder::video(env_steps);
        video.save(self.dir.join(&name))?;
        self.remove_old().map_err(|source| VideoError::Save { path: self.dir.clone(), source })?;
        Ok(name)
    }

    fn remove_old(&self) -> io::Result<()> {
        let mut videos = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if run_folder::is_video(&name) {
                videos.push((entry.metadata()?.modified()?, name));
            }
        }
        // By time and not by number: a resumed run makes lower numbers than the killed process has left.
        videos.sort_unstable();
        let n_old = videos.len().saturating_sub(KEPT);
        videos[..n_old].iter().try_for_each(|(_, name)| fs::remove_file(self.dir.join(name)))
    }
}
