//! The folder of a sweep: begun, or gone on with, by one process at a time.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use pronk::RunFolder;

use super::run::write_whole;
use crate::unusable;

/// The sweep file that the folder is of.
pub(crate) const SWEEP: &str = "sweep.toml";

/// The config file that its runs begin with.
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
    /// It holds another sweep or other files, another process uses it, or it cannot be written.
    pub(super) fn open(out: Option<&Path>, sweep: &str, config: &str) -> Result<Self> {
        let path = match out {
            None => RunFolder::create_dated("sweeps")?.path().to_owned(),
            Some(out) => {
                fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
                // Links may lead elsewhere soon, such as `latest`.
                RunFolder::going_on(out).path().to_owned()
            }
        };
        // Of the folder itself, so that what is refused gets no file.
        let lock = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another `pronk sweep` is at work in {}", path.display()),
            Err(TryLockError::Error(error)) => return Err(error).context(format!("cannot lock {}", path.display())),
        }
        let (of_sweep, of_config) = (path.join(SWEEP), path.join(BASE));
        if of_sweep.exists() {
            ensure_same(&of_sweep, sweep, "sweep file")?;
            ensure_same(&of_config, config, "config")?;
        } else {
            ensure_empty(&path, [(BASE, config), (SWEEP, sweep)])?;
            // The sweep file comes last: where it is, all is.
            write_whole(&of_config, config)?;
            write_whole(&of_sweep, sweep)?;
        }
        Ok(Self { path, _lock: lock })
    }
}

/// Refuses a folder with other files than those that a sweep leaves when it is killed while it begins: these
/// hold the beginnings of what it is about to write.
fn ensure_empty(path: &Path, files: [(&str, &str); 2]) -> Result<()> {
    let read = || format!("cannot read {}", path.display());
    for file in fs::read_dir(path).with_context(read)? {
        let file = file.with_context(read)?;
        let name = file.file_name();
        // A file is written beside its place first.
        let begun = name.to_str().map(|name| name.strip_suffix(".new").unwrap_or(name));
        let begins = |text: &str| fs::read(file.path()).is_ok_and(|there| text.as_bytes().starts_with(&there));
        if !files.iter().any(|(name, text)| begun == Some(*name) && begins(text)) {
            return Err(unusable(anyhow!(
                "{} is not empty and is not the folder of a sweep: it has {}; name a new folder",
                path.display(),
                name.display()
            )));
        }
    }
    Ok(())
}

/// Refuses a folder whose file says something else than `text`; comments do not count.
fn ensure_same(file: &Path, text: &str, what: &str) -> Result<()> {
    let kept = fs::read_to_string(file).with_context(|| {
        format!("{SWEEP} is there, so this should be the folder of a sweep, but {} cannot be read", file.display())
    })?;
    let values = |text: &str| text.parse::<toml::Table>().ok();
    if kept != text && values(&kept) != values(text) {
        return Err(unusable(anyhow!(
            "{} holds a sweep of another {what}: name a new folder, or the {what} that it was made from, of which {} \
             is a copy",
            file.parent().unwrap_or(file).display(),
            file.display()
        )));
    }
    Ok(())
}
