//! The flags of every training example that say how it saves itself and goes on.

use std::path::{Path, PathBuf};

use pronk::trainer::TrainerBuilder;
use pronk::{Every, Resume, RunFolder, RunFolderError, Trainer, TrainerConfig};

/// The folder of checkpoints in that of a run.
const CHECKPOINTS: &str = "checkpoints";

/// How a run saves itself and goes on.
#[derive(clap::Args)]
pub(crate) struct Saving {
    /// How often to save the run, such as "60 s" or "1M env-steps" [default, with --resume: 60 s]
    #[arg(long, value_name = "EVERY")]
    checkpoint_every: Option<Every>,
    /// Go on with a saved run: `auto` for the newest checkpoint in the run's folder, if there is one, or a
    /// path
    #[arg(long, value_name = "auto|PATH")]
    resume: Option<String>,
}

#[allow(dead_code)] // not every example has a folder for each run
impl Saving {
    /// A run with checkpoints in `folder/checkpoints`, if either flag was given.
    pub(crate) fn builder(&self, mut config: TrainerConfig, folder: impl AsRef<Path>) -> TrainerBuilder {
        if let Some(every) = self.checkpoint_every {
            config.checkpoint.every = every;
        }
        let builder = Trainer::builder(config);
        if self.checkpoint_every.is_none() && self.resume.is_none() {
            return builder;
        }
        let builder = builder.checkpoints(folder.as_ref().join(CHECKPOINTS));
        match self.resume.as_deref() {
            Some("auto") => builder.resume(Resume::auto()),
            Some(path) => builder.resume(Resume::from(path)),
            None => builder,
        }
    }

    /// The folder of the run: that of the run which it goes on with, or `out`, or a new one in `runs`.
    pub(crate) fn folder(&self, runs: &str, out: Option<&Path>, seed: u64) -> Result<RunFolder, RunFolderError> {
        let latest = Path::new(runs).join("latest");
        match (self.resume.as_deref(), out) {
            (Some(_), Some(out)) => Ok(RunFolder::going_on(out)),
            (Some("auto"), None) if latest.exists() => Ok(RunFolder::going_on(latest)),
            (Some(path), None) if path != "auto" => Ok(RunFolder::going_on(run_of(Path::new(path)))),
            (None, Some(out)) => RunFolder::at(out),
            (_, None) => RunFolder::create(runs, seed),
        }
    }
}

/// The folder of the run that a checkpoint is of.
fn run_of(path: &Path) -> PathBuf {
    let folders = path.ancestors().filter(|path| path.extension().is_none_or(|extension| extension != "json"));
    let mut folders = folders.skip_while(|path| path.file_name().is_some_and(|name| name == CHECKPOINTS));
    folders.next().unwrap_or(path).to_owned()
}
