//! [`Board`]: what is known of all runs, between the threads that read and the one that answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pronk::ResultDict;
use pronk::metrics::RunHistory;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::figures::Figures;
use crate::folder::Place;
use crate::summary::Summary;
use crate::videos::Video;

/// The maximal number of problems in the list.
const MAX_PROBLEMS: usize = 20;

/// What is known of all runs, each with a version that grows with every change.
///
/// The lock is held for copies of pointers, and by a trainer while it adds a result: no answer is written
/// under it.
#[derive(Debug)]
pub(crate) struct Board {
    state: Mutex<State>,
    /// The newest version.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The newest version of anything.
    newest: u64,
    /// The version of the list.
    list: u64,
    runs: BTreeMap<String, Run>,
    sweeps: BTreeMap<String, Arc<Sweep>>,
    watched: Vec<String>,
    problems: Vec<String>,
    /// Whether all folders have been looked into.
    is_complete: bool,
    /// Runs that a request waits for.
    wanted: BTreeSet<String>,
}

/// A run on the board.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) version: u64,
    pub(crate) summary: Arc<Summary>,
    pub(crate) folder: Option<Arc<Place>>,
    /// `None` until a request asks for them.
    pub(crate) details: Option<Details>,
}

/// All that is shown of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Details {
    pub(crate) history: Arc<RunHistory>,
    pub(crate) settings: Arc<Value>,
    /// `run.json`.
    pub(crate) info: Arc<Value>,
    pub(crate) videos: Arc<Vec<Video>>,
    pub(crate) sample: Option<Sample>,
}

/// How many of a run's results have been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sample {
    pub(crate) read: u64,
    pub(crate) of: u64,
}

/// A sweep on the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sweep {
    /// Its entry in the list.
    pub(crate) entry: Value,
    /// All of it.
    pub(crate) answer: Value,
}

/// The list of runs.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) version: u64,
    pub(crate) runs: Vec<Arc<Summary>>,
    pub(crate) sweeps: Vec<Arc<Sweep>>,
    pub(crate) watched: Vec<String>,
    pub(crate) problems: Vec<String>,
    /// Whether all folders have been looked into.
    pub(crate) is_complete: bool,
}

/// The versions of what has changed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Versions {
    /// The newest version of anything.
    #[serde(skip)]
    pub(crate) newest: u64,
    list: u64,
    runs: BTreeMap<String, u64>,
}

/// Changes to a board that are seen together.
pub(crate) struct Edit<'a>(MutexGuard<'a, State>);

impl Board {
    /// An empty board of the folders `watched`.
    pub(crate) fn new(watched: Vec<String>) -> Self {
        let state = State { watched, ..State::default() };
        Self { state: Mutex::new(state), newest: watch::Sender::new(0) }
    }

    /// Waits for versions.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    pub(crate) fn edit<T>(&self, change: impl FnOnce(&mut Edit<'_>) -> T) -> T {
        let mut edit = Edit(self.lock());
        let done = change(&mut edit);
        let newest = edit.0.newest;
        drop(edit);
        self.newest.send_if_modified(|version| std::mem::replace(version, newest) != newest);
        done
    }

    /// Adds a result to the run of this process.
    pub(crate) fn report(&self, id: &str, result: &ResultDict) {
        let figures = Figures::of(result);
        self.edit(|edit| {
            let Some(run) = edit.0.runs.get_mut(id) else { return };
            if let Some(details) = &mut run.details {
                // Copied only while an answer is being made of it.
                Arc::make_mut(&mut details.history).take(result);
            }
            Arc::make_mut(&mut run.summary).put_figures(figures);
            edit.touch(id);
        });
    }

    /// The run; `None` if there is none. Asks for its details: if they are not there, they come with another
    /// version.
    pub(crate) fn ask(&self, id: &str) -> Option<Run> {
        let mut state = self.lock();
        let run = state.runs.get(id).cloned()?;
        if run.folder.is_some() {
            state.wanted.insert(id.to_owned());
        }
        Some(run)
    }

    /// Whether a run that is not there may still come, because folders have not been looked into.
    pub(crate) fn is_complete(&self) -> bool {
        self.lock().is_complete
    }

    /// The runs that were asked for since the last call.
    pub(crate) fn take_wanted(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.lock().wanted)
    }

    pub(crate) fn sweep(&self, id: &str) -> Option<Arc<Sweep>> {
        self.lock().sweeps.get(id).cloned()
    }

    pub(crate) fn list(&self) -> List {
        let state = self.lock();
        List {
            version: state.list,
            runs: state.runs.values().map(|run| Arc::clone(&run.summary)).collect(),
            sweeps: state.sweeps.values().cloned().collect(),
            watched: state.watched.clone(),
            problems: state.problems.clone(),
            is_complete: state.is_complete,
        }
    }

    /// The versions of the list, and of the runs that have changed after the version `seen`.
    pub(crate) fn versions_after(&self, seen: u64) -> Versions {
        let state = self.lock();
        let changed = state.runs.iter().filter(|(_, run)| run.version > seen);
        let runs = changed.map(|(id, run)| (id.clone(), run.version)).collect();
        Versions { newest: state.newest, list: state.list, runs }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is whole as soon as it is made.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Edit<'_> {
    /// Puts a run on the board, or a newer state of it.
    pub(crate) fn put(&mut self, summary: Summary, folder: Option<Place>, details: Option<Details>) {
        let id = summary.id.clone();
        let run = Run { version: 0, summary: Arc::new(summary), folder: folder.map(Arc::new), details };
        self.0.runs.insert(id.clone(), run);
        self.touch(&id);
    }

    /// Changes a run that is on the board.
    pub(crate) fn change(&mut self, id: &str, change: impl FnOnce(&mut Summary, &mut Details)) {
        let Some(run) = self.0.runs.get_mut(id) else { return };
        let details = run.details.get_or_insert_default();
        change(Arc::make_mut(&mut run.summary), details);
        self.touch(id);
    }

    /// Puts a run into a folder, whose id and name it takes.
    pub(crate) fn rename(&mut self, id: &str, to: &str, name: &str, folder: Place) {
        if let Some(mut run) = self.0.runs.remove(id) {
            let summary = Arc::make_mut(&mut run.summary);
            summary.id = to.to_owned();
            summary.name = name.to_owned();
            summary.folder = Some(folder.path().display().to_string());
            run.folder = Some(Arc::new(folder));
            self.0.runs.insert(to.to_owned(), run);
            self.touch(to);
        }
    }

    /// Forgets the details of a run, whose answer stays the same.
    pub(crate) fn forget(&mut self, id: &str) {
        if let Some(run) = self.0.runs.get_mut(id) {
            run.details = None;
        }
    }

    /// Takes a run off the board.
    pub(crate) fn remove(&mut self, id: &str) {
        if self.0.runs.remove(id).is_some() {
            self.touch_list();
        }
    }

    pub(crate) fn put_sweeps(&mut self, sweeps: BTreeMap<String, Arc<Sweep>>) {
        if self.0.sweeps != sweeps {
            self.0.sweeps = sweeps;
            self.touch_list();
        }
    }

    /// From now on what is not there is nowhere.
    pub(crate) fn complete(&mut self) {
        if !std::mem::replace(&mut self.0.is_complete, true) {
            self.touch_list();
        }
    }

    /// The problems of a search, of which the first [`MAX_PROBLEMS`] are shown.
    pub(crate) fn put_problems(&mut self, mut problems: Vec<String>) {
        let n_more = problems.len().saturating_sub(MAX_PROBLEMS);
        if n_more > 0 {
            problems.truncate(MAX_PROBLEMS);
            problems.push(format!("and {n_more} more"));
        }
        if self.0.problems != problems {
            self.0.problems = problems;
            self.touch_list();
        }
    }

    /// Adds a problem before the others.
    pub(crate) fn add_problem(&mut self, problem: String) {
        self.0.problems.insert(0, problem);
        self.touch_list();
    }

    fn touch(&mut self, id: &str) {
        self.touch_list();
        let newest = self.0.newest;
        if let Some(run) = self.0.runs.get_mut(id) {
            run.version = newest;
        }
    }

    fn touch_list(&mut self) {
        self.0.newest += 1;
        self.0.list = self.0.newest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_problems_the_first_are_shown_and_the_others_counted() {
        let board = Board::new(Vec::new());
        let problems = |n: usize| (0..n).map(|i| format!("problem {i}")).collect::<Vec<_>>();
        board.edit(|edit| edit.put_problems(problems(20)));
        assert_eq!(board.list().problems, problems(20));
        board.edit(|edit| edit.put_problems(problems(70)));
        let shown = board.list().problems;
        assert_eq!((&shown[..20], &*shown[20], shown.len()), (&*problems(20), "and 50 more", 21));
    }
}
