//! [`RunParts`]: what a run is made of, environments aside, and how it starts.

use std::path::PathBuf;
use std::sync::Arc;

use pronk_learner::{Algorithm, LearnError, Learner};
use pronk_metrics::{ByPolicy, PolicyId, ReportError};

use super::begin::{self, FoundRun};
use super::handle::Trainer;
use super::hosts_plan::HostsPlan;
use super::networks::{MakeNetwork, available_threads, helpers};
use super::run_spec::RunSpec;
use super::saves::Saves;
use super::wiring::{self, Lineage};
use crate::checkpoint::Checkpoint;
use crate::config::{ConfigError, TrainerConfig};
use crate::error::TrainError;
use crate::record::{Recording, Replay};
use crate::resume::{Agreement, Resume, ResumeError};
use crate::run_folder::resolved;

type ReplaceLearner = dyn FnOnce(Box<dyn Learner>) -> Result<Box<dyn Learner>, TrainError>;
type Observe = dyn FnOnce(&mut Trainer) -> Result<(), ReportError>;

/// What a builder has collected beside the environments.
pub(super) struct RunParts {
    pub(super) config: TrainerConfig,
    pub(super) network: Option<Arc<MakeNetwork>>,
    pub(super) learner: Option<Box<ReplaceLearner>>,
    pub(super) recording: Option<Recording>,
    pub(super) replay: Option<Replay>,
    pub(super) checkpoints: Option<PathBuf>,
    pub(super) videos: Option<PathBuf>,
    pub(super) resume: Option<Resume>,
    pub(super) listen: Option<HostsPlan>,
    /// Whether the program handles signals itself.
    pub(super) without_signals: bool,
    /// Whether it goes on with a saved run, if there is one.
    goes_on: bool,
    /// Applied to the trainer once it exists.
    pub(super) observers: Vec<Box<Observe>>,
}

impl RunParts {
    /// Of a run with these settings and nothing else.
    pub(super) fn new(config: TrainerConfig) -> Self {
        Self {
            config,
            network: None,
            learner: None,
            recording: None,
            replay: None,
            checkpoints: None,
            videos: None,
            resume: None,
            listen: None,
            without_signals: false,
            goes_on: false,
            observers: Vec::new(),
        }
    }

    /// Finds what the run resumes from, and returns the policies of it.
    pub(super) fn look_for_a_run(&mut self) -> Result<(ByPolicy<Checkpoint>, Option<FoundRun>), TrainError> {
        let resume = self.resume.take();
        self.goes_on = resume.as_ref().is_some_and(Resume::is_of_a_run);
        for dir in [&mut self.checkpoints, &mut self.videos].into_iter().flatten() {
            *dir = resolved(dir);
        }
        if self.replay.is_some() && self.checkpoints.is_some() {
            let reason = "a replay repeats a run that was; save what it ends with by Run::save";
            return Err(ConfigError::caused_by("checkpoints", "a replay", &reason).into());
        }
        let found = begin::look_for_a_run(resume, self.checkpoints.as_deref())?;
        if found.1.is_some() && (self.recording.is_some() || self.replay.is_some()) {
            return Err(ResumeError::Recorded.into());
        }
        Ok(found)
    }

    /// Wires and starts the run.
    pub(super) fn start(
        mut self,
        mut spec: RunSpec,
        found: Option<FoundRun>,
        algorithm: impl FnMut(&PolicyId) -> Result<Box<dyn Algorithm>, LearnError>,
    ) -> Result<Trainer, TrainError> {
        if self.listen.is_some() {
            HostsPlan::check(&self.config, self.replay.is_some())?;
            spec.listens = true;
            // The learner has this machine for itself, or shares it with workers that have threads too.
            self.config.learner.num_learner_threads.get_or_insert(available_threads());
        }
        let found = found.map(|found| found.read(&self.config, &mut spec)).transpose()?;
        let helpers = helpers(&self.config)?;
        let mut learner = spec.learner(&self.config, &helpers, algorithm)?;
        if let Some(replace) = self.learner {
            learner = replace(learner)?;
        }
        let trained = learner.weights().into_iter().map(|(policy, params)| (policy, params.clone())).collect();
        let agreement = Agreement::of(&self.config, &spec.env, &trained, spec.frozen());
        if let Some(found) = &found {
            agreement.check(&found.agreement, &found.path, found.resumed.is_exact)?;
        }
        let found_in = found.as_ref().and_then(|found| found.path.parent()?.canonicalize().ok());
        let (resumed, report) = found.map(begin::ReadRun::split).unzip();
        let saves = match &self.checkpoints {
            Some(dir) => {
                let env_steps = resumed.as_ref().map_or(0, |resumed| resumed.state.trainer.steps.sampled.env);
                let goes_on = found_in.is_some() && found_in == dir.canonicalize().ok();
                Some(Saves::start((dir, goes_on), &self.config.checkpoint, agreement, env_steps)?)
            }
            None => None,
        };
        let lineage = Lineage {
            recording: self.recording,
            replay: self.replay,
            saves_into: self.checkpoints,
            videos_into: self.videos,
            resumed,
        };
        let wired = wiring::connect(&self.config, spec, (learner, helpers.helper()), lineage, self.listen)?;
        let mut trainer = begin::trainer(self.config, wired, saves, (self.goes_on, report));
        if !self.without_signals {
            trainer.listen_for_signals();
        }
        self.observers.into_iter().try_for_each(|observe| observe(&mut trainer))?;
        Ok(trainer)
    }
}
