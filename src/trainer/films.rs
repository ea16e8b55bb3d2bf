//! [`Films`]: the videos of a run's evaluations.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::video::{Video, VideoError};

/// How many of the newest are kept.
const KEPT: usize = 10;

const PREFIX: &str = "evaluation-";

/// The folder of the videos.
pub(super) struct Films {
    dir: PathBuf,
}

impl Films {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Saves the video of an evaluation that began at so many env-steps, and returns its name. Removes those
    /// that are too many.
    ///
    /// *Blocks* on the disk.
    pub(super) fn save(&self, video: &Video, env_steps: u64) -> Result<String, VideoError> {
        // Twelve digits, so that names sort by their numbers.
        let name = format!("{PREFIX}{env_steps:012}.png");
        video.save(self.dir.join(&name))?;
        self.remove_old().map_err(|source| VideoError::Save { path: self.dir.clone(), source })?;
        Ok(name)
    }

    fn remove_old(&self) -> io::Result<()> {
        let mut films = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(PREFIX) && name.ends_with(".png") {
                films.push((entry.metadata()?.modified()?, name));
            }
        }
        // By time and not by number: a resumed run makes lower numbers than the killed process has left.
        films.sort_unstable();
        let n_old = films.len().saturating_sub(KEPT);
        films[..n_old].iter().try_for_each(|(_, name)| fs::remove_file(self.dir.join(name)))
    }
}
