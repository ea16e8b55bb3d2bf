//! A learner that follows a script, for runs of the learner's loop.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use pronk_buffer::{ActionKind, BatchShape, ObsKind, SampleBatch, Tag};
use pronk_learner::{Clock, LearnError, Learned, Learner, LearnerState, TrainBatch};
use pronk_metrics::{ByPolicy, LearnerInfo, LearnerInfoBuilder};
use pronk_policy::{ObsLoader, Params};

/// A batch of `rows` agent-steps; the scripted learner looks at nothing else.
pub(crate) fn blank(rows: usize, tag: Tag) -> Result<SampleBatch> {
    let shape = BatchShape {
        steps: rows,
        columns: 1,
        obs_len: 1,
        obs_kind: ObsKind::F32,
        act_len: 1,
        act_kind: ActionKind::U32,
        dist_len: 1,
        state_len: 0,
    };
    shape.check()?;
    Ok(SampleBatch::blank(shape, tag))
}

/// What one step will read from the clock and hear from the learner, and which batch the learner saw.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<Lines>>);

impl Script {
    pub(crate) fn write(&self, clock: Vec<f64>, learned: Option<LearnerInfo>) {
        *self.lines() = Lines { readings: clock.into(), learned, seen: None };
    }

    pub(super) fn readings_left(&self) -> usize {
        self.lines().readings.len()
    }

    /// Sequence number of the batch that was learned from since the last write.
    pub(crate) fn seen(&self) -> Option<u64> {
        self.lines().seen
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for Script {
    fn now_secs(&mut self) -> f64 {
        // One reading too many is NaN, and the timer then lacks a sample that the expected mean has.
        self.lines().readings.pop_front().unwrap_or(f64::NAN)
    }
}

pub(crate) struct ScriptedLearner {
    script: Script,
    n_devices: usize,
}

impl ScriptedLearner {
    pub(crate) fn new(script: Script, n_devices: usize) -> Self {
        Self { script, n_devices }
    }
}

impl Learner for ScriptedLearner {
    fn learn(&mut self, batch: TrainBatch<'_>) -> Result<Learned, LearnError> {
        let refuse = |reason: String| LearnError::Config { reason };
        let learned = {
            let mut lines = self.script.lines();
            let tags = batch.samples.policies().flat_map(|(_, part)| part.tags());
            lines.seen = tags.map(|tag| tag.slot).next();
            lines.learned.take().ok_or_else(|| refuse("the script has no result for this step".to_owned()))?
        };
        let mut builder = LearnerInfoBuilder::new(self.n_devices);
        builder.add_multi_agent(learned).map_err(|error| refuse(error.to_string()))?;
        let info = builder.finalize().map_err(|error| refuse(error.to_string()))?;
        Ok(Learned { info, updates: 1 })
    }

    // It has no weights, and the script knows no schedule and asks for no version.
    fn weights(&self) -> ByPolicy<&Params> {
        ByPolicy::new()
    }

    fn save(&self, _: ByPolicy<LearnerState>) -> ByPolicy<LearnerState> {
        ByPolicy::new()
    }

    fn load(&mut self, _state: ByPolicy<LearnerState>) -> Result<(), LearnError> {
        Ok(())
    }

    fn advance(&mut self, _env_steps: u64) {}

    fn published(&mut self, _version: u64) {}

    fn obs_loaders(&self) -> ByPolicy<Arc<dyn ObsLoader>> {
        ByPolicy::new()
    }
}

#[derive(Default)]
pub(crate) struct Lines {
    readings: VecDeque<f64>,
    learned: Option<LearnerInfo>,
    seen: Option<u64>,
}
