//! [`RunFolder`]: a folder that belongs to one run.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::checkpoint::MANIFEST;

/// The first file that a run makes in its folder: it belongs to the run that made it.
pub(crate) const RESULTS: &str = "results.jsonl";

/// What else is written down of a run, besides its events.
const RECORDS: [&str; 3] = ["progress.csv", "report.html", "timers.json"];

/// How the names of files with events for TensorBoard begin.
const EVENTS: &str = "events.out.tfevents.";

/// A folder that belongs to one run: its results, and the policy it has trained.
///
/// Results of two runs in one folder would lie on top of each other, so [`Trainer::log_to`](crate::Trainer::log_to) refuses a
/// folder that holds a run. This type gives each run a folder of its own, or says what becomes of an earlier
/// run.
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
}

/// Why there is no folder for a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunFolderError {
    /// The folder belongs to another run.
    #[error(
        "{} holds a run already ({found}); name another folder, resume that run, or say that it is to be overwritten",
        path.display()
    )]
    Taken {
        /// The folder.
        path: PathBuf,
        /// A file of that run.
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
    /// Makes `<runs>/<UTC time>-s<seed>`, and has the link `<runs>/latest` point to it where the system has
    /// links.
    ///
    /// Runs that begin in the same second with the same seed get different folders: `…-s7`, `…-s7-2`, in this
    /// process or another.
    ///
    /// # Errors
    /// The folder or the link that cannot be made.
    pub fn create(runs: impl AsRef<Path>, seed: u64) -> Result<Self, RunFolderError> {
        let runs = runs.as_ref();
        fs::create_dir_all(runs).map_err(failed("create", runs))?;
        let name = format!("{}-s{seed}", utc(now_secs()));
        let nth = |n: u32| if n == 1 { name.clone() } else { format!("{name}-{n}") };
        let name = create_first_free(runs, nth).map_err(failed("create a folder in", runs))?;
        point_latest_to(runs, &name).map_err(failed("point to the new run from", &runs.join("latest")))?;
        Ok(Self { path: runs.join(name) })
    }

    /// The folder `path` for a new run; it need not exist.
    ///
    /// # Errors
    /// [`RunFolderError::Taken`] if it holds a run: results, or a policy.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, RunFolderError> {
        let path = path.into();
        let policy = path.join(MANIFEST).exists().then(|| MANIFEST.to_owned());
        match records(&path)?.into_iter().next().or(policy) {
            Some(found) => Err(RunFolderError::Taken { path, found }),
            None => Ok(Self { path }),
        }
    }

    /// The folder `path` for a new run in place of the one that it holds, whose results are removed. Its
    /// policy stays until the new run saves one.
    ///
    /// # Errors
    /// The file that cannot be removed.
    pub fn overwrite(path: impl Into<PathBuf>) -> Result<Self, RunFolderError> {
        let path = path.into();
        for record in records(&path)? {
            let record = path.join(record);
            fs::remove_file(&record).map_err(failed("remove", &record))?;
        }
        Ok(Self { path })
    }

    /// The folder `path` for a run that goes on from the policy in it. The results there are kept in
    /// `life-1`, those after a second resume in `life-2`, and so on.
    ///
    /// # Errors
    /// The file that cannot be moved.
    pub fn resume(path: impl Into<PathBuf>) -> Result<Self, RunFolderError> {
        let path = path.into();
        let records = records(&path)?;
        if !records.is_empty() {
            let life =
                create_first_free(&path, |n| format!("life-{n}")).map_err(failed("create a folder in", &path))?;
            for record in records {
                let (from, to) = (path.join(&record), path.join(&life).join(&record));
                fs::rename(&from, to).map_err(failed("move", &from))?;
            }
        }
        Ok(Self { path })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest run that [`create`](Self::create) made in `runs`; `runs` itself if it has none.
    pub fn newest(runs: impl AsRef<Path>) -> PathBuf {
        let latest = runs.as_ref().join("latest");
        if latest.exists() { latest } else { runs.as_ref().to_owned() }
    }
}

impl AsRef<Path> for RunFolder {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Makes the folder if it is missing and the run's first file in it, which no other run can make then.
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

/// The names of the files in which a run is written down, in order; none if there is no folder.
fn records(folder: &Path) -> Result<Vec<String>, RunFolderError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", folder)(error)),
    };
    let is_record = |name: &String| name == RESULTS || RECORDS.contains(&name.as_str()) || name.starts_with(EVENTS);
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    let names: io::Result<Vec<String>> = names.collect();
    let mut records: Vec<_> = names.map_err(failed("read", folder))?.into_iter().filter(is_record).collect();
    records.sort();
    Ok(records)
}

/// Makes the first of the folders `nth(1)`, `nth(2)`, … that does not exist. Its name.
fn create_first_free(parent: &Path, nth: impl Fn(u32) -> String) -> io::Result<String> {
    let create = |name: String| match fs::create_dir(parent.join(&name)) {
        Ok(()) => Some(Ok(name)),
        // To make it is to claim it, so another run that was faster has it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
        Err(error) => Some(Err(error)),
    };
    (1..=u32::MAX).find_map(|n| create(nth(n))).unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))
}

/// The link is made beside its place and moved there, so that it is there at any time, and runs that begin at
/// once do not collide.
#[cfg(unix)]
fn point_latest_to(runs: &Path, name: &str) -> io::Result<()> {
    let beside = runs.join(format!(".latest-{name}"));
    std::os::unix::fs::symlink(name, &beside)?;
    fs::rename(&beside, runs.join("latest")).inspect_err(|_| {
        // The failure that counts is that of the move.
        let _ = fs::remove_file(&beside);
    })
}

/// Links need a privilege here, so there is none.
#[cfg(not(unix))]
fn point_latest_to(_runs: &Path, _name: &str) -> io::Result<()> {
    Ok(())
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunFolderError {
    let path = path.to_owned();
    move |cause| RunFolderError::Io { doing, path, cause }
}

// A name for people: it need not go forward.
#[allow(clippy::disallowed_methods)]
fn now_secs() -> u64 {
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
