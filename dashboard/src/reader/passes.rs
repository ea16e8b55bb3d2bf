//! Passes over the watched folders.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use pronk::RunState;

use crate::board::{Board, Sweep};
use crate::folder::{FolderRun, Found, FoundRun, FoundSweep, SweepFolder, find, id};

/// How often what may change is looked at.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// The least time between two looks for new runs.
const SEARCH_EVERY: Duration = Duration::from_secs(2);

/// Looking for new runs takes a tenth of the thread's time at most, on whatever disk.
const SEARCH_SHARE: u32 = 10;

/// The maximal number of runs that are loaded: more than a page compares, some hundred kilobytes each.
const MAX_LOADED: usize = 96;

/// Looks into folders again and again, and puts on the board what they hold.
pub(super) struct Passes {
    roots: Vec<PathBuf>,
    board: Arc<Board>,
    woken: Receiver<()>,
    runs: BTreeMap<PathBuf, FolderRun>,
    sweeps: BTreeMap<PathBuf, SweepFolder>,
    /// Folders of runs, by id.
    folders: BTreeMap<String, PathBuf>,
    /// When each run that is loaded was last asked for, as a count of questions.
    asked: BTreeMap<String, u64>,
    n_asked: u64,
    next_search: Instant,
}

/// The board is not needed any more.
struct Closed;

impl Passes {
    pub(super) fn new(roots: Vec<PathBuf>, board: Arc<Board>, woken: Receiver<()>) -> Self {
        Self {
            roots,
            board,
            woken,
            runs: BTreeMap::new(),
            sweeps: BTreeMap::new(),
            folders: BTreeMap::new(),
            asked: BTreeMap::new(),
            n_asked: 0,
            next_search: Instant::now(),
        }
    }

    /// Goes on until the channel is closed.
    pub(super) fn run(mut self) {
        while self.pass().is_continue() {
            let is_reading = self.runs.values().any(FolderRun::is_sampled);
            let wait = if is_reading { Duration::ZERO } else { TICK };
            match self.woken.recv_timeout(wait) {
                Ok(()) => self.read_wanted(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn pass(&mut self) -> ControlFlow<Closed> {
        self.read_wanted();
        let is_search = Instant::now() >= self.next_search;
        let problems = if is_search { self.search() } else { Vec::new() };
        let due: Vec<PathBuf> = match is_search {
            true => self.runs.keys().cloned().collect(),
            false => {
                let may_change = |run: &&FolderRun| run.state() == RunState::Running || run.is_loaded();
                self.runs.values().filter(may_change).map(|run| run.place().path().to_owned()).collect()
            }
        };
        for folder in due {
            self.serve_requests()?;
            self.look(&folder);
        }
        self.read_slices()?;
        self.show_sweeps();
        if is_search {
            self.board.edit(|edit| {
                edit.put_problems(problems);
                edit.complete();
            });
        }
        ControlFlow::Continue(())
    }

    /// Looks for new runs, and forgets those that are gone; the problems of that.
    fn search(&mut self) -> Vec<String> {
        let began = Instant::now();
        let Found { runs, sweeps, problems } = find(&self.roots);
        let now = Instant::now();
        self.next_search = now + SEARCH_EVERY.max((now - began) * SEARCH_SHARE);
        self.runs.retain(|folder, run| {
            let is_there = runs.contains_key(folder);
            if !is_there {
                self.folders.remove(run.id());
                self.asked.remove(run.id());
                self.board.edit(|edit| edit.remove(run.id()));
                run.sweep().and_then(|sweep| self.sweeps.get_mut(sweep)).into_iter().for_each(SweepFolder::touch);
            }
            is_there
        });
        for (folder, FoundRun { place, sweep }) in runs {
            let new = || FolderRun::new(place.clone(), sweep);
            let run = self.runs.entry(folder.clone()).or_insert_with(new);
            run.found_at(place.clone());
            self.folders.entry(run.id().to_owned()).or_insert(folder);
        }
        self.sweeps.retain(|folder, _| sweeps.contains_key(folder));
        for (folder, FoundSweep { place, trials }) in sweeps {
            self.sweeps.entry(folder).or_default().look(&place, &trials);
        }
        problems
    }

    /// Looks at a run, and shows what has changed.
    fn look(&mut self, folder: &PathBuf) {
        let Some(run) = self.runs.get_mut(folder) else { return };
        let sweep = run.sweep().and_then(|sweep| self.sweeps.get_mut(sweep));
        if run.look(sweep.as_deref().map(SweepFolder::metric)) {
            sweep.into_iter().for_each(SweepFolder::touch);
            show(&self.board, run);
        }
    }

    /// Reads a slice of each run that was sampled.
    fn read_slices(&mut self) -> ControlFlow<Closed> {
        let sampled = self.runs.values().filter(|run| run.is_sampled());
        let sampled: Vec<PathBuf> = sampled.map(|run| run.place().path().to_owned()).collect();
        for folder in sampled {
            self.serve_requests()?;
            if let Some(run) = self.runs.get_mut(&folder)
                && run.read_slice()
            {
                show(&self.board, run);
            }
        }
        ControlFlow::Continue(())
    }

    /// Between two reads: loads first what was asked for meanwhile.
    fn serve_requests(&mut self) -> ControlFlow<Closed> {
        match self.woken.try_recv() {
            Ok(()) => self.read_wanted(),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return ControlFlow::Break(Closed),
        }
        ControlFlow::Continue(())
    }

    fn read_wanted(&mut self) {
        for id in self.board.take_wanted() {
            self.load(id);
        }
    }

    /// Reads all of a run that was asked for.
    fn load(&mut self, id: String) {
        let Some(folder) = self.folders.get(&id).cloned() else { return };
        self.n_asked += 1;
        self.asked.insert(id, self.n_asked);
        // Before it is read, so that memory stays within its bound.
        self.evict();
        let is_new = self.runs.get_mut(&folder).filter(|run| !run.is_loaded()).map(FolderRun::load).is_some();
        if is_new {
            // It may have changed since the last look.
            self.look(&folder);
            self.runs.get(&folder).into_iter().for_each(|run| show(&self.board, run));
        }
    }

    /// While too many runs are loaded, forgets the one that was not asked for for the longest time.
    fn evict(&mut self) {
        while self.asked.len() > MAX_LOADED {
            let Some(oldest) = self.asked.iter().min_by_key(|(_, asked)| **asked).map(|(id, _)| id.clone()) else {
                return;
            };
            self.asked.remove(&oldest);
            self.board.edit(|edit| edit.forget(&oldest));
            let run = self.folders.get(&oldest).and_then(|folder| self.runs.get_mut(folder));
            run.into_iter().for_each(FolderRun::forget);
        }
    }

    fn show_sweeps(&mut self) {
        let runs = &self.runs;
        let shown =
            |(folder, sweep): (&PathBuf, &mut SweepFolder)| (id(folder), sweep.shown(folder, |run| runs.get(run)));
        let sweeps: BTreeMap<String, Arc<Sweep>> = self.sweeps.iter_mut().map(shown).collect();
        self.board.edit(|edit| edit.put_sweeps(sweeps));
    }
}

fn show(board: &Board, run: &FolderRun) {
    let (summary, details) = (run.summary(), run.details());
    board.edit(|edit| edit.put(summary, Some(run.place().clone()), details));
}

#[cfg(test)]
mod tests;
