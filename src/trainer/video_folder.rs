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
    /// that are too many: first what a killed process has left of env-steps to which this run has not come
    /// again, then those of the fewest env-steps.
    ///
    /// *Blocks* on the disk.
    pub(super) fn save(&self, video: &Video, env_steps: u64) -> Result<String, VideoError> {
        let name = run_folder::video(env_steps);
        video.save(self.dir.join(&name))?;
        self.remove_old(env_steps).map_err(|source| VideoError::Save { path: self.dir.clone(), source })?;
        Ok(name)
    }

    /// By number and not by time: the clock may have been set back since the last one was saved.
    fn remove_old(&self, newest: u64) -> io::Result<()> {
        let mut videos = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            videos.extend(run_folder::video_env_steps(&name).map(|env_steps| (env_steps <= newest, env_steps)));
        }
        videos.sort_unstable();
        let n_old = videos.len().saturating_sub(KEPT);
        videos[..n_old]
            .iter()
            .try_for_each(|(_, env_steps)| fs::remove_file(self.dir.join(run_folder::video(*env_steps))))
    }
}

#[cfg(test)]
mod tests;
