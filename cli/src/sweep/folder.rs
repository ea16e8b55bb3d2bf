//! The folder of a sweep: begun, or gone on with, by one process at a time.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use pronk::RunFolder;

use super::trial::write_whole;
use crate::unusable;

/// The sweep file that the folder is of.
const SWEEP: &str = "sweep.toml";

/// The config file that its trials begin with.
const BASE: &str = "base.toml";

/// The folder of a sweep, which no other process may use until this is dropped.
pub(super) struct SweepFolder {
    pub(super) path: PathBuf,
    _lock: File,
}

impl SweepFolder {
    /// The folder `out`, or a new one in `sweeps`, for a sweep file and its config.
    ///
    /// # Errors
    /// It holds another sweep or something else, another process uses it, or it cannot be written.
    pub(super) fn open(out: Option<&Path>, sweep: &str, config: &str) -> Result<Self> {
        let path = match out {
            None => RunFolder::create_dated("sweeps")?.path().to_owned(),
            Some(out) => {
                fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
                out.to_owned()
            }
        };
        let (of_sweep, of_config) = (path.join(SWEEP), path.join(BASE));
        if of_sweep.exists() {
            ensure_same(&of_sweep, sweep, "sweep file")?;
            ensure_same(&of_config, config, "config")?;
        } else {
            // The sweep file comes last: where it is, all is.
            let mut others = fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
            if let Some(Ok(other)) = others.find(|other| other.as_ref().is_ok_and(|other| other.file_name() != BASE)) {
                let other = other.file_name();
                return Err(unusable(anyhow!(
                    "{} holds no sweep but other files ({}): name a new folder",
                    path.display(),
                    other.display()
                )));
            }
            write_whole(&of_config, config)?;
            write_whole(&of_sweep, sweep)?;
        }
        let lock = File::open(&of_sweep).with_context(|| format!("cannot open {}", of_sweep.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => bail!("another `pronk sweep` is at work in {}", path.display()),
            Err(TryLockError::Error(error)) => Err(error).context(format!("cannot lock {}", of_sweep.display())),
        }
    }
}

/// Refuses a folder whose file says something else than `text`; comments do not count.
fn ensure_same(file: &Path, text: &str, what: &str) -> Result<()> {
    let kept = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let values = |text: &str| text.parse::<toml::Table>().ok();
    if kept != text && values(&kept) != values(text) {
        return Err(unusable(anyhow!(
            "{} holds a sweep of another {what}: name a new folder, or use the {what} that is kept there, {}",
            file.parent().unwrap_or(file).display(),
            file.display()
        )));
    }
    Ok(())
}
