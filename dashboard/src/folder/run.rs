//! [`FolderRun`]: the run in a folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pronk::{ResultDict, RunState, StopReason};
use serde::Deserialize as _;
use serde_json::Value;

use super::info::{LAST_SECOND, began, run_info};
use super::last_line::last_line;
use super::open::Place;
use super::results::{RESULTS, Results, result};
use super::stamp::Stamp;
use super::{id, name};
use crate::board::Details;
use crate::figures::Figures;
use crate::settings::{Settings, from_toml};
use crate::short::{MAX_ERROR_CHARS, short};
use crate::summary::Summary;
use crate::videos::{FOLDER as VIDEOS, Video, videos};

/// The run in a folder: what the list shows of it and, if that was asked for, all.
#[derive(Debug)]
pub(crate) struct FolderRun {
    id: String,
    place: Place,
    sweep: Option<PathBuf>,
    seen: Seen,
    state: RunState,
    /// When it began, and why it failed, as `run.json` says.
    began: Option<u64>,
    failure: Option<String>,
    /// Why it ended otherwise, and the env-steps at which its settings let it.
    reason: Option<StopReason>,
    max_env_steps: Option<u64>,
    settings: Settings,
    figures: Figures,
    /// The last result's value at the metric of its sweep.
    value: Option<f64>,
    /// Why some of its results, its settings, or what `run.json` says are missing.
    problem: Option<String>,
    settings_problem: Option<String>,
    info_problem: Option<String>,
    loaded: Option<Loaded>,
}

/// What is kept of a run that was asked for.
#[derive(Debug)]
struct Loaded {
    results: Option<Results>,
    settings: Arc<Value>,
    info: Arc<Value>,
    videos: Arc<Vec<Video>>,
}

/// The files as they were when they were last read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    results: Stamp,
    info: Stamp,
    config: Stamp,
    videos: Stamp,
}

impl Seen {
    fn now(place: &Place) -> Self {
        let Ok(folder) = place.open() else { return Self::default() };
        Self {
            results: folder.stamp(RESULTS),
            info: folder.stamp("run.json"),
            config: folder.stamp("config.toml"),
            videos: folder.stamp(VIDEOS),
        }
    }
}

impl FolderRun {
    /// The run in a folder, of which nothing has been read.
    pub(crate) fn new(place: Place, sweep: Option<PathBuf>) -> Self {
        Self {
            id: id(place.path()),
            place,
            sweep,
            seen: Seen::default(),
            state: RunState::Unknown,
            began: None,
            failure: None,
            reason: None,
            max_env_steps: None,
            settings: Settings::default(),
            figures: Figures::default(),
            value: None,
            problem: None,
            settings_problem: None,
            info_problem: None,
            loaded: None,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Notes by which of the folders that the user has named it was found now.
    pub(crate) fn found_at(&mut self, place: Place) {
        self.place = place;
    }

    /// The folder of its sweep.
    pub(crate) fn sweep(&self) -> Option<&Path> {
        self.sweep.as_deref()
    }

    pub(crate) fn state(&self) -> RunState {
        self.state
    }

    /// Whether it has come to the end that its settings name: no signal has ended it, and it is not to go on
    /// to more env-steps, as a trial of a sweep that was promoted, or has run out of time before them.
    pub(crate) fn has_completed(&self) -> bool {
        self.state == RunState::Finished
            && match self.reason {
                Some(StopReason::ReturnReached) => true,
                reason if reason.and_then(StopReason::signal_status).is_some() => false,
                // Time that runs out before its rung ends a trial there, too.
                _ => self.figures.env_steps >= self.max_env_steps,
            }
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.is_some()
    }

    /// Whether its results are a sample so far, of which the others are to be read.
    pub(crate) fn is_sampled(&self) -> bool {
        self.sample().is_some()
    }

    /// Looks for changes; whether there are any. `metric` is that of its sweep.
    pub(crate) fn look(&mut self, metric: Option<&str>) -> bool {
        let now = Seen::now(&self.place);
        let before = std::mem::replace(&mut self.seen, now);
        let state_before = self.state;
        if now.info != before.info || self.state == RunState::Running {
            self.read_info();
        }
        if now.config != before.config {
            self.read_config();
        }
        if now.results != before.results {
            self.read_results(metric, now.results.is_other(before.results));
        }
        if let Some(loaded) = &mut self.loaded
            && now.videos != before.videos
        {
            loaded.videos = Arc::new(videos(&self.place));
        }
        now != before || self.state != state_before
    }

    /// Reads all of it, if that has not been done.
    pub(crate) fn load(&mut self) {
        if self.is_loaded() {
            return;
        }
        let info = run_info(&self.place).map(|(info, _)| info).unwrap_or_default();
        let (settings, videos) = (self.settings_now().unwrap_or_default(), videos(&self.place));
        let results = self.open_results();
        let (settings, info, videos) = (Arc::new(settings), Arc::new(info), Arc::new(videos));
        self.loaded = Some(Loaded { results, settings, info, videos });
    }

    /// Reads a slice of results that are a sample so far; whether all of them have been read now.
    pub(crate) fn read_slice(&mut self) -> bool {
        let Some(Loaded { results: Some(results), .. }) = &mut self.loaded else { return false };
        match results.read_slice() {
            Ok(is_done) => {
                if is_done {
                    self.problem = results.problem();
                }
                is_done
            }
            Err(error) => {
                self.problem = Some(unread(&error));
                if let Some(loaded) = &mut self.loaded {
                    loaded.results = None;
                }
                true
            }
        }
    }

    /// Keeps only what the list shows.
    pub(crate) fn forget(&mut self) {
        self.loaded = None;
    }

    pub(crate) fn summary(&self) -> Summary {
        let errors = [&self.failure, &self.figures.failure, &self.problem, &self.settings_problem, &self.info_problem];
        Summary {
            id: self.id.clone(),
            name: name(self.place.path()),
            folder: Some(self.place.path().display().to_string()),
            settings: self.settings.clone(),
            state: self.state,
            began: self.began.or_else(|| self.began_about()),
            figures: self.figures.clone(),
            sweep: self.sweep.as_deref().map(id),
            error: errors.into_iter().flatten().next().cloned(),
        }
    }

    /// `None` if it has not been asked for.
    pub(crate) fn details(&self) -> Option<Details> {
        let loaded = self.loaded.as_ref()?;
        Some(Details {
            history: loaded.results.as_ref().map(Results::history).unwrap_or_default(),
            settings: Arc::clone(&loaded.settings),
            info: Arc::clone(&loaded.info),
            videos: Arc::clone(&loaded.videos),
            sample: self.sample(),
        })
    }

    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The last result's value at the metric of its sweep.
    pub(crate) fn value(&self) -> Option<f64> {
        self.value
    }

    fn sample(&self) -> Option<crate::board::Sample> {
        self.loaded.as_ref()?.results.as_ref()?.sample()
    }

    fn read_info(&mut self) {
        let read = run_info(&self.place);
        self.info_problem = read.as_ref().err().cloned();
        let (info, state) = read.unwrap_or((Value::Null, RunState::Unknown));
        self.state = state;
        self.began = began(&info);
        self.failure = info["outcome"]["failure"].as_str().map(|text| short(text, MAX_ERROR_CHARS));
        self.reason = StopReason::deserialize(&info["outcome"]["reason"]).ok();
        if let Some(loaded) = &mut self.loaded
            && *loaded.info != info
        {
            loaded.info = Arc::new(info);
        }
    }

    fn read_config(&mut self) {
        let settings = self.settings_now();
        self.settings_problem = settings.as_ref().err().cloned();
        let settings = settings.unwrap_or_default();
        self.settings = Settings::of(&settings);
        self.max_env_steps = settings["stop"]["env_steps"].as_u64();
        if let Some(loaded) = &mut self.loaded {
            loaded.settings = Arc::new(settings);
        }
    }

    /// The settings of the run; null without a file of them.
    fn settings_now(&self) -> Result<Value, String> {
        match self.place.text("config.toml") {
            Ok(text) => from_toml(&text).map_err(|reason| format!("config.toml cannot be read: {reason}")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Value::Null),
            Err(error) => Err(format!("config.toml cannot be read: {error}")),
        }
    }

    fn read_results(&mut self, metric: Option<&str>, is_other: bool) {
        match self.place.file(RESULTS).and_then(|mut file| last_line(&mut file, result)) {
            Ok(last) => {
                self.problem = None;
                self.figures = last.as_ref().map(Figures::of).unwrap_or_default();
                self.value = last.as_ref().and_then(|last: &ResultDict| last.number(metric?));
            }
            Err(error) => {
                self.problem = (error.kind() != io::ErrorKind::NotFound).then(|| unread(&error));
                (self.figures, self.value) = (Figures::default(), None);
            }
        }
        if !self.is_loaded() {
            return;
        }
        let known = self.loaded.as_mut().and_then(|loaded| loaded.results.take()).filter(|_| !is_other);
        let read_on = known.map(|mut results| results.read_on().map(|_| results));
        let results = match read_on {
            Some(Ok(results)) => {
                self.problem = results.problem();
                Some(results)
            }
            // It may be another file by now.
            Some(Err(_)) | None => self.open_results(),
        };
        if let Some(loaded) = &mut self.loaded {
            loaded.results = results;
        }
    }

    fn open_results(&mut self) -> Option<Results> {
        match Results::open(&self.place) {
            Ok(results) => {
                self.problem = results.problem();
                Some(results)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.problem = Some(unread(&error));
                None
            }
        }
    }

    /// When it began, if `run.json` does not say so: as long before its last result as that says.
    fn began_about(&self) -> Option<u64> {
        let last = self.seen.results.changed_secs().or(self.seen.info.changed_secs())?;
        Some(last.saturating_sub(self.figures.wall_secs.unwrap_or(0.0) as u64)).filter(|began| *began <= LAST_SECOND)
    }
}

fn unread(error: &io::Error) -> String {
    format!("results.jsonl cannot be read: {error}")
}

#[cfg(test)]
mod tests;
