//! [`RunFolder`]: a folder that belongs to one run.

mod contents;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::checkpoint::MANIFEST;
use contents::is_record;
pub(crate) use contents::{CHECKPOINTS, EVENTS, REPORT, RESULTS, RUN_INFO, SETTINGS, TABLE, video, video_env_steps};

/// The link to the newest run.
const LATEST: &str = "latest";

/// The folder of one run: its logs and its policy.
///
/// Logs of two runs in one folder would mix, so [`Trainer::log_to`](crate::Trainer::log_to) refuses a folder
/// that holds a run. This type makes a folder per run, or reuses one. Links in a path, such as `latest`, are
/// followed once: where they lead later makes no difference to the run.
///
/// # Example
/// ```
/// use pronk::RunFolder;
///
/// let runs = tempfile::tempdir()?;
/// let first = RunFolder::create(runs.path(), 7)?; // such as 20261123T044253Z-s7
/// let second = RunFolder::create(runs.path(), 7)?;
/// assert_ne!(first.path(), second.path());
/// # #[cfg(unix)]
/// assert_eq!(RunFolder::newest(runs.path()).canonicalize()?, second.path().canonicalize()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
    made: Made,
}

/// What this process has made of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Made {
    /// The folder, which no other run uses, and the link `latest` beside it, which pointed to this before.
    Dated { before: Option<PathBuf> },
    /// The folder, under a name that another run may have been given too.
    Named,
    /// Nothing: the folder was there.
    Nothing,
}

/// Why a folder could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunFolderError {
    /// The folder belongs to another run.
    #[error(
        "{} holds a run already ({found}); name another folder, resume that run, or overwrite it",
        path.display()
    )]
    Taken {
        /// The folder.
        path: PathBuf,
        /// A file of that run.
        found: String,
    },
    /// A run would replace a file of the folder, which holds no run.
    #[error(
        "{} has a file {found} but no run, and a run would replace it; name another folder, or move the file",
        path.display()
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The file.
        found: String,
    },
    /// The file system refused.
    #[error("run folder: cannot {doing} {}: {cause}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

impl RunFolder {
    /// Makes `<runs>/<UTC time>-s<seed>`, and on Unix the link `<runs>/latest` to it.
    ///
    /// Concurrent runs with the same seed get different folders: `…-s7`, `…-s7-2`.
    ///
    /// # Errors
    /// The folder or the link that cannot be made.
    pub fn create(runs: impl AsRef<Path>, seed: u64) -> Result<Self, RunFolderError> {
        Self::create_called(runs.as_ref(), &format!("{}-s{seed}", utc(now_secs())))
    }

    /// Makes `<parent>/<UTC time>`, and the link `<parent>/latest` as [`create`](Self::create) does: for several runs
    /// that belong together, in folders of their own below it.
    ///
    /// # Errors
    /// The folder or the link that cannot be made.
    pub fn create_dated(parent: impl AsRef<Path>) -> Result<Self, RunFolderError> {
        Self::create_called(parent.as_ref(), &utc(now_secs()))
    }

    fn create_called(runs: &Path, name: &str) -> Result<Self, RunFolderError> {
        let runs = &*resolved(runs);
        fs::create_dir_all(runs).map_err(failed("create", runs))?;
        let nth = |n: u32| if n == 1 { name.to_owned() } else { format!("{name}-{n}") };
        let path = runs.join(create_first_free(runs, nth).map_err(failed("create a folder in", runs))?);
        let latest = runs.join(LATEST);
        let before = fs::read_link(&latest).ok();
        let folder = Self { path, made: Made::Dated { before } };
        match point_latest_to(runs, Path::new(folder.path.file_name().unwrap_or_default())) {
            Ok(()) => Ok(folder),
            Err(error) => {
                // The first error is the one to return.
                let _ = folder.discard();
                Err(failed("point to the new run from", &latest)(error))
            }
        }
    }

    /// Removes a folder that was made for a run that could not begin, and points `latest` to the run before.
    /// A folder that this value did not make stays as it is, and so does one from [`at`](Self::at) in which a
    /// run has begun to log.
    ///
    /// # Errors
    /// What cannot be removed, or the link that cannot be made.
    pub fn discard(self) -> Result<(), RunFolderError> {
        let before = match self.made {
            Made::Dated { before } => before,
            // Of two runs with one name, the other may have claimed it.
            Made::Named if records(&self.path)?.is_empty() => {
                return fs::remove_dir_all(&self.path).map_err(failed("remove", &self.path));
            }
            Made::Named | Made::Nothing => return Ok(()),
        };
        let latest = self.path.with_file_name(LATEST);
        // Another run may have begun since.
        if fs::read_link(&latest).is_ok_and(|to| Some(to.as_os_str()) == self.path.file_name()) {
            let moved = match before {
                Some(before) => point_latest_to(self.path.parent().unwrap_or(Path::new(".")), &before),
                None => fs::remove_file(&latest),
            };
            moved.map_err(failed("restore", &latest))?;
        }
        fs::remove_dir_all(&self.path).map_err(failed("remove", &self.path))
    }

    /// The folder `path` for a new run, which is made if it is missing.
    ///
    /// # Errors
    /// [`RunFolderError::Taken`] if it holds a run: results, a policy or checkpoints.
    /// [`RunFolderError::Foreign`] if it holds none, but a `run.json`, `log.txt` or `timeline.json`, which a
    /// run would replace. Or a folder that cannot be made.
    pub fn at(path: impl AsRef<Path>) -> Result<Self, RunFolderError> {
        let path = resolved(path.as_ref());
        let policies = [PathBuf::from(MANIFEST), Path::new(contents::CHECKPOINTS).join(MANIFEST)];
        let policy = policies.iter().find(|policy| path.join(policy).exists());
        let policy = policy.map(|policy| policy.display().to_string());
        if let Some(found) = records(&path)?.into_iter().next().or(policy) {
            return Err(RunFolderError::Taken { path, found });
        }
        if let Some(found) = names(&path)?.into_iter().find(|name| contents::is_other(name)) {
            return Err(RunFolderError::Foreign { path, found });
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed("create", parent))?;
        }
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { path, made: Made::Named }),
            Err(_) if path.is_dir() => Ok(Self { path, made: Made::Nothing }),
            Err(_) if path.is_symlink() => {
                Err(failed("create", &path)(io::Error::other("it is a link that leads nowhere")))
            }
            Err(error) => Err(failed("create", &path)(error)),
        }
    }

    /// The folder `path` for a new run, with all that earlier ones have written removed: logs, earlier lives,
    /// the policy, `run.json`, `log.txt`, exported policies, and checkpoints and videos in the folders
    /// `checkpoints` and `videos`. Other files stay, and so does `config.toml`.
    ///
    /// To keep the earlier run where the new one cannot begin, call it once the trainer is built.
    ///
    /// # Errors
    /// The file that cannot be removed.
    pub fn overwrite(path: impl AsRef<Path>) -> Result<Self, RunFolderError> {
        let path = resolved(path.as_ref());
        contents::remove(&path).map_err(|(path, cause)| RunFolderError::Io { doing: "remove", path, cause })?;
        Ok(Self { path, made: Made::Nothing })
    }

    /// The folder `path` for a run that resumes from its policy. Earlier logs move to `life-1`, then
    /// `life-2`, and so on.
    ///
    /// # Errors
    /// The file that cannot be moved.
    pub fn resume(path: impl AsRef<Path>) -> Result<Self, RunFolderError> {
        let path = resolved(path.as_ref());
        move_aside(&path)?;
        Ok(Self { path, made: Made::Nothing })
    }

    /// The folder `path` of a run that goes on ([`TrainerBuilder::resume`](crate::TrainerBuilder::resume)) or, if it
    /// holds none, of a new one. Logs stay where they are: the run continues them.
    pub fn going_on(path: impl AsRef<Path>) -> Self {
        Self { path: resolved(path.as_ref()), made: Made::Nothing }
    }

    /// The folder, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest run made by [`create`](Self::create) in `runs`, or `runs` itself; without links, since `latest`
    /// may lead to another run soon.
    pub fn newest(runs: impl AsRef<Path>) -> PathBuf {
        let latest = runs.as_ref().join(LATEST);
        resolved(if latest.exists() { &latest } else { runs.as_ref() })
    }
}

impl AsRef<Path> for RunFolder {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Where a path leads, without links: these may lead elsewhere soon. What is missing keeps its names. The
/// answer to a relative path is relative, too, if it is below the working directory.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let real = |there: &Path| if there == Path::new("") { Path::new(".") } else { there }.canonicalize();
    let find = |there: &Path| Some(real(there).ok()?.join(path.strip_prefix(there).ok()?));
    // Without the slash that joining nothing leaves at the end.
    let Some(found) = path.ancestors().find_map(find).map(|found| found.components().collect::<PathBuf>()) else {
        return path.to_owned();
    };
    let below = real(Path::new("")).ok().filter(|_| path.is_relative());
    match below.as_deref().and_then(|here| found.strip_prefix(here).ok()) {
        Some(below) if below != Path::new("") => below.to_owned(),
        _ => found,
    }
}

/// Moves the logs in a folder, if there are any, to the first free one of its folders `life-1`, `life-2`
/// and so on.
pub(crate) fn move_aside(folder: &Path) -> Result<(), RunFolderError> {
    let records = records(folder)?;
    if records.is_empty() {
        return Ok(());
    }
    let life = create_first_free(folder, contents::life).map_err(failed("create a folder in", folder))?;
    for record in records {
        let (from, to) = (folder.join(&record), folder.join(&life).join(&record));
        fs::rename(&from, to).map_err(failed("move", &from))?;
    }
    Ok(())
}

/// The first free path for what is cut off from a log: `<name>.life-1`, then `<name>.life-2`, and so on.
pub(crate) fn first_free_tail(folder: &Path, name: &str) -> PathBuf {
    let nth = |n: u32| folder.join(contents::tail(name, n));
    (1..).map(nth).find(|path| !path.exists()).unwrap_or_else(|| nth(0))
}

/// Claims the folder for a run, and makes it if it is missing.
pub(crate) fn claim(folder: &Path) -> Result<(), RunFolderError> {
    fs::create_dir_all(folder).map_err(failed("create", folder))?;
    let taken = |found: String| RunFolderError::Taken { path: folder.to_owned(), found };
    if let Some(found) = records(folder)?.into_iter().next() {
        return Err(taken(found));
    }
    match File::create_new(folder.join(RESULTS)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(taken(RESULTS.to_owned())),
        Err(error) => Err(failed("create", &folder.join(RESULTS))(error)),
    }
}

/// The names of a run's logs, sorted; none without a folder.
fn records(folder: &Path) -> Result<Vec<String>, RunFolderError> {
    let mut names = names(folder)?;
    names.retain(|name| is_record(name));
    Ok(names)
}

/// The names in a folder, sorted; none without a folder.
fn names(folder: &Path) -> Result<Vec<String>, RunFolderError> {
    contents::names(folder).map_err(|(path, cause)| RunFolderError::Io { doing: "read", path, cause })
}

/// Makes the first of the folders `nth(1)`, `nth(2)`, … that does not exist, and returns its name.
fn create_first_free(parent: &Path, nth: impl Fn(u32) -> String) -> io::Result<String> {
    let create = |name: String| match fs::create_dir(parent.join(&name)) {
        Ok(()) => Some(Ok(name)),
        // Another run has it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
        Err(error) => Some(Err(error)),
    };
    (1..=u32::MAX).find_map(|n| create(nth(n))).unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))
}

/// The link is made under another name and renamed, so that it always exists, and concurrent runs do not
/// collide.
#[cfg(unix)]
fn point_latest_to(runs: &Path, run: &Path) -> io::Result<()> {
    // Renaming would replace a file, and fail for a folder without saying why.
    if runs.join(LATEST).symlink_metadata().is_ok_and(|there| !there.is_symlink()) {
        return Err(io::Error::other("it is no link, and not from a run: rename it"));
    }
    let beside = runs.join(format!(".{LATEST}-{}", run.display().to_string().replace('/', "-")));
    std::os::unix::fs::symlink(run, &beside)?;
    fs::rename(&beside, runs.join(LATEST)).inspect_err(|_| {
        // The error to report is that of the rename.
        let _ = fs::remove_file(&beside);
    })
}

/// Links need a privilege on this system.
#[cfg(not(unix))]
fn point_latest_to(_runs: &Path, _run: &Path) -> io::Result<()> {
    Ok(())
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunFolderError {
    let path = path.to_owned();
    move |cause| RunFolderError::Io { doing, path, cause }
}

/// Seconds since 1970: for names and for people, so they need not be monotonic.
#[allow(clippy::disallowed_methods)]
pub(crate) fn now_secs() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Seconds since 1970 as `20261123T044253Z`.
fn utc(secs: u64) -> String {
    let leap_years_before = |year: u64| (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400;
    let days_before = |year: u64| 365 * (year - 1970) + leap_years_before(year) - leap_years_before(1970);
    let (days, time) = (secs / 86_400, secs % 86_400);
    let year = (1970..).find(|year| days < days_before(year + 1)).unwrap_or(1970);
    let february = days_before(year + 1) - days_before(year) - 337;
    let (mut month, mut day) = (1, days - days_before(year) + 1);
    for len in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day <= len {
            break;
        }
        (month, day) = (month + 1, day - len);
    }
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests;
