//! How a trainer begins: what it resumes from, and its state before the first iteration.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pronk_hosts::Over;
use pronk_learner::PolicyLag;
use pronk_metrics::{ByPolicy, LearnerInfo, ResultDict, Steps, TimerStat};
use pronk_rollout::AbandonedThreads;

use super::env_failures::EnvFailures;
use super::episodes::EpisodeHistory;
use super::handle::{FINISH_DEADLINE, Trainer};
use super::iteration::Iteration;
use super::processors::ProcessorTime;
use super::promise::Promise;
use super::remains::Remains;
use super::reporters::Reporters;
use super::resume_report::ResumeReport;
use super::run_spec::RunSpec;
use super::saves::{Saves, progress};
use super::turn_reports::TurnReports;
use super::wiring::Wired;
use crate::checkpoint::{Checkpoint, LoadedRun, RunPart, holds_checkpoints, load_newest, load_whole};
use crate::config::TrainerConfig;
use crate::error::TrainError;
use crate::result::TrainResult;
use crate::resume::{Agreement, Resume, ResumeError, ResumeFrom, Resumed, SavedTrainer};
use crate::run_folder::CHECKPOINTS;

/// A run that was found in a checkpoint.
pub(super) struct FoundRun {
    run: RunPart,
    checkpoints: ByPolicy<Checkpoint>,
    path: PathBuf,
    /// Newer checkpoints, which are damaged.
    passed_over: Vec<String>,
}

/// The same, read.
pub(super) struct ReadRun {
    pub(super) resumed: Resumed,
    pub(super) agreement: Agreement,
    pub(super) path: PathBuf,
    report: ResumeReport,
}

/// The policies to begin with, and the run to continue, if `resume` names one.
pub(super) fn look_for_a_run(
    resume: Option<Resume>,
    checkpoints: Option<&Path>,
) -> Result<(ByPolicy<Checkpoint>, Option<FoundRun>), TrainError> {
    let (loaded, passed_over) = match resume.map(|Resume(from)| from) {
        None => (None, Vec::new()),
        Some(ResumeFrom::Weights(checkpoints)) => return Ok((checkpoints, None)),
        Some(ResumeFrom::Auto) => {
            let dir = checkpoints.ok_or(ResumeError::NoFolder)?;
            newest(dir)?
        }
        Some(ResumeFrom::Path(path)) if path.is_dir() => match newest(&folder_of_checkpoints(&path))? {
            (None, _) => return Err(ResumeError::Nothing { path }.into()),
            found => found,
        },
        Some(ResumeFrom::Path(path)) if path.exists() => (Some(load_whole(&path)?), Vec::new()),
        Some(ResumeFrom::Path(path)) => return Err(ResumeError::Nothing { path }.into()),
    };
    Ok(match loaded {
        None => (ByPolicy::new(), None),
        Some(LoadedRun { checkpoints, run: None, .. }) => (checkpoints, None),
        Some(LoadedRun { mut checkpoints, run: Some(run), path }) => {
            let found = FoundRun { run, checkpoints: checkpoints.clone(), path, passed_over };
            found.set_publications(&mut checkpoints)?;
            (checkpoints, Some(found))
        }
    })
}

/// The folder of checkpoints in that of a run, if it has any, or `path` itself.
fn folder_of_checkpoints(path: &Path) -> PathBuf {
    let below = path.join(CHECKPOINTS);
    if holds_checkpoints(&below) { below } else { path.to_owned() }
}

/// The newest whole checkpoint of a folder, and the newer ones, which are damaged. An error if all are.
fn newest(dir: &Path) -> Result<(Option<LoadedRun>, Vec<String>), TrainError> {
    let (loaded, damaged) = load_newest(dir);
    for error in &damaged {
        tracing::warn!(%error, "this checkpoint is passed over");
    }
    let passed_over = damaged.iter().map(ToString::to_string).collect();
    match (loaded, damaged.into_iter().next()) {
        // A run must not begin anew over the remains of another.
        (None, Some(error)) => Err(error.into()),
        (loaded, _) => Ok((loaded, passed_over)),
    }
}

impl FoundRun {
    fn resumed(&self) -> Result<Resumed, ResumeError> {
        let RunPart { summary, state, fragments, .. } = &self.run;
        let learners = self.checkpoints.iter().map(|(policy, one)| (policy.clone(), one.state.params.clone()));
        let resumed = Resumed::decode(&self.path, state, fragments.clone(), learners.collect(), summary.exact)?;
        // Those of a run with one agent; with several, nothing is normalised.
        let obs_len = self.checkpoints.values().next().map_or(0, |one| one.observation.obs_len());
        resumed.check_moments(&self.path, obs_len)?;
        Ok(Resumed { evaluations: summary.evaluations.clone(), ..resumed })
    }

    fn set_publications(&self, checkpoints: &mut ByPolicy<Checkpoint>) -> Result<(), ResumeError> {
        let mut publications = self.resumed()?.state.publications;
        for (policy, checkpoint) in checkpoints {
            checkpoint.state.publications = publications.remove(policy).unwrap_or_default();
        }
        Ok(())
    }

    /// Reads the run, and sets its life.
    pub(super) fn read(self, config: &TrainerConfig, spec: &mut RunSpec) -> Result<ReadRun, TrainError> {
        let resumed = self.resumed()?;
        let Self { run: RunPart { summary, agrees, .. }, checkpoints, path, passed_over } = self;
        // The same run with other workers or admission cannot go on exactly.
        let n_seats = config.workers.num_rollout_workers.max(1);
        let is_exact = summary.exact && resumed.state.seats.len() == n_seats && !spec.listens;
        let mut resumed = Resumed { is_exact, ..resumed };
        if !is_exact && config.learner.admission.is_deterministic() {
            resumed.drop_what_is_ahead();
        }
        let length = agrees.get("config").and_then(|saved| saved["workers"]["rollout_fragment_length"].as_u64());
        if length != Some(config.workers.rollout_fragment_length as u64) {
            resumed.drop_fragments();
        }
        // In another life nothing is drawn again that was drawn before.
        let life = if is_exact { summary.life } else { summary.life + 1 };
        let moments = checkpoints.values().next().map(|one| one.normalizer.clone()).unwrap_or_default();
        spec.continue_in(life, moments);
        let had_come_to = path.parent().and_then(progress).map_or(0, |(_, env_steps)| env_steps);
        let in_flight = resumed.state.trainer.steps.in_flight.env;
        let report = ResumeReport {
            count: summary.resumes + 1,
            is_exact,
            from_iteration: summary.iteration,
            rewound_env_steps: had_come_to.saturating_sub(summary.env_steps),
            outside_turns: if is_exact { resumed.state.trainer.outside_turns } else { summary.env_steps },
            lost_env_steps: in_flight.saturating_sub(resumed.in_flight().env),
            passed_over,
            restarted: (0, Vec::new()),
            marks: resumed.state.trainer.marks.clone(),
            evaluations: resumed.evaluations.clone(),
        };
        Ok(ReadRun { resumed, agreement: Agreement(agrees), path, report })
    }
}

impl ReadRun {
    pub(super) fn split(self) -> (Resumed, ResumeReport) {
        (self.resumed, self.report)
    }
}

/// The trainer of a wired run, before its first iteration.
pub(super) fn trainer(
    config: TrainerConfig,
    wired: Wired,
    mut saves: Option<Saves>,
    (goes_on, resumed): (bool, Option<ResumeReport>),
) -> Trainer {
    let Wired { started, spec, engine, reaper, shutdown, notifier, learner_metrics, steps, time, clock, .. } = wired;
    let processors = ProcessorTime::now(&time.read());
    let is_deterministic = config.learner.admission.is_deterministic();
    if let Some(saves) = &mut saves {
        time.add(saves.thread().clock());
        saves.thread().written().spare = wired.storage;
        // What it goes on from is as good as saved: a worse checkpoint must not take its place.
        let exact = resumed.as_ref().filter(|resumed| resumed.is_exact);
        saves.resumed_from = exact.map(|resumed| resumed.from_iteration);
    }
    let mut trainer = Trainer {
        spec,
        engine: Some(engine),
        reaper,
        shutdown,
        notifier,
        learner_metrics,
        steps,
        time,
        clock,
        reporters: Reporters::default(),
        info: Vec::new(),
        history: EpisodeHistory::new(config.results.metrics_num_episodes_for_smoothing),
        started,
        iterations: 0,
        training_iteration: TimerStat::new(),
        reporting: TimerStat::new(),
        worker_restarts: 0,
        env_failures: EnvFailures::default(),
        worker_failures: Vec::new(),
        abandoned: AbandonedThreads::default(),
        fragments_added: Steps::default(),
        first_update: None,
        source_ended: false,
        failure: None,
        version: 0,
        weights: wired.weights,
        begun: wired.begun,
        log: wired.log,
        updates: 0,
        turn_reports: is_deterministic.then(TurnReports::default),
        promise: if is_deterministic { Promise::Kept } else { Promise::None },
        iteration: Iteration::first(started, processors),
        is_under_way: false,
        last: None,
        saves,
        evaluations: wired.evaluations,
        goes_on,
        resumed,
        time_before: Duration::ZERO,
        interrupts: None,
        signalled: None,
        over: Over::Stopped,
        finish_deadline: FINISH_DEADLINE,
        remains: Remains::default(),
        config,
    };
    if let Some(saved) = wired.saved {
        trainer.load(saved);
    }
    trainer
}

impl Trainer {
    /// Continues with what the trainer of a saved run knew.
    fn load(&mut self, saved: SavedTrainer) {
        let granted = self.engine.as_ref().and_then(|engine| engine.turn_position()).map_or(0, |at| at.granted);
        let is_exact = self.resumed.as_ref().is_some_and(|resumed| resumed.is_exact);
        let SavedTrainer { iterations, updates, worker_restarts, fragments_added, time_total, .. } = saved;
        (self.iterations, self.updates, self.worker_restarts) = (iterations, updates, worker_restarts);
        (self.fragments_added, self.time_before) = (fragments_added, time_total);
        self.version = self.weights.version();
        // The learner's counters include what the run had done before.
        for begun in self.begun.values_mut() {
            begun.updates = begun.updates.saturating_sub(updates);
            begun.env_steps = begun.env_steps.saturating_sub(saved.steps.trained_once.env);
        }
        self.history.load(saved.episodes, saved.policy_returns);
        if let (Promise::Kept, until) = (&self.promise, saved.promise_ended) {
            let seatless = || format!("until iteration {iterations}: resumed without the positions of workers");
            let until = if is_exact { until } else { Some(until.unwrap_or_else(seatless)) };
            self.promise = until.map_or(Promise::Kept, Promise::Ended);
        }
        (self.abandoned.count, self.abandoned.newest) = saved.abandoned;
        if self.turn_reports.is_some() {
            self.turn_reports = Some(TurnReports::resumed(granted));
        }
        let result = saved.result;
        let steps = self.steps.snapshot();
        let processors = ProcessorTime::now(&self.time.read());
        let last = TrainResult {
            iteration: iterations,
            env_steps_sampled: steps.sampled.env,
            env_steps_trained: steps.trained_passes.env,
            env_steps_trained_once: steps.trained_once.env,
            episodes_this_iteration: 0,
            episode_return_mean: result.episode_return_mean,
            episode_len_mean: result.episode_len_mean,
            episodes_covered: result.episodes_covered,
            enough_episodes: result.enough_episodes,
            policy_returns: result.policy_returns,
            episodes_asked: self.config.results.metrics_num_episodes_for_smoothing as u64,
            time_total,
            time_this_iteration: Duration::ZERO,
            learner_info: LearnerInfo::default(),
            policy_lag: PolicyLag::default(),
            effective_sample_size: None,
            bottleneck: None,
            steps,
            time: Vec::new(),
            dict: ResultDict::from_json_line(&result.dict).unwrap_or_default(),
        };
        self.iteration = Iteration::after(&last, self.started, processors);
        self.last = Some(last).filter(|last| last.iteration > 0);
    }
}
