//! Observations that carry who made them, and the learner that counts them: the proof that no step comes
//! twice.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pronk::buffer::MultiAgentBatch;
use pronk::learner::{Learned, LearnerState, TrainBatch};
use pronk::policy::{ObsDtype, ObsLoader};
use pronk::prelude::*;
use pronk::{ByPolicy, LearnError, Learner, Params, Space};

use crate::pause;

/// Numbers of an observation: the process, the environment in it, the worker, and the count of observations.
const NUMBERS: usize = 4;

/// Observations lie between 0 and 1, and 32-bit floats hold all multiples of this between them exactly.
const UNIT: f32 = 1.0 / (1 << 24) as f32;

/// Steps of an episode, so that fragments contain ends.
const EPISODE: u32 = 50;

/// An environment whose observations are never the same, in no process of a repetition.
pub(crate) struct Numbered {
    process: u32,
    made: u32,
    worker: u32,
    next: u32,
    left: u32,
    width: usize,
    pace: Duration,
}

impl Numbered {
    /// An environment of process number `process`, whose observations have `width` more numbers and whose
    /// steps take `pace`.
    pub(crate) fn new(context: &EnvContext, process: u32, width: usize, pace: Duration) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        Self { process, made, worker: context.worker, next: 0, left: EPISODE, width, pace }
    }

    fn write(&mut self, mut obs: ObsMut<'_>) -> Result<(), EnvError> {
        let numbers = [self.process, self.made, self.worker, self.next].map(|number| number as f32 * UNIT);
        self.next += 1;
        obs.reborrow().part(0, NUMBERS).write(&numbers)
    }
}

impl Env for Numbered {
    fn spec(&self) -> EnvSpec {
        let len = NUMBERS + self.width;
        EnvSpec {
            name: "Numbered".to_owned(),
            observation: Space::Box {
                low: vec![0.0; len],
                high: vec![1.0; len],
                shape: vec![len],
                dtype: ObsDtype::F32,
            },
            action: Space::Discrete { n: 2 },
            max_episode_steps: None,
            action_mask: false,
        }
    }

    fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.left = EPISODE;
        self.write(obs)
    }

    fn step(&mut self, _action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        pause(self.pace);
        self.left -= 1;
        self.write(obs)?;
        Ok(Step { reward: 1.0, end: if self.left == 0 { End::Terminated } else { End::No } })
    }
}

/// What a learner has been given to train on.
#[derive(Default)]
pub(crate) struct Seen {
    /// Of this process of the learner.
    steps: HashSet<[u32; 3]>,
    /// Of the processes of the learner before it.
    before: HashSet<[u32; 3]>,
    log: Option<File>,
    /// Steps of each process that acts.
    pub(crate) by_process: BTreeMap<u32, u64>,
    /// Which process has each worker number.
    workers: BTreeMap<u32, u32>,
    /// What must not happen.
    pub(crate) wrong: Vec<String>,
}

impl Seen {
    /// Also compares with what the learners before it were given, which is in the file `log`.
    pub(crate) fn after(log: Option<&Path>) -> Self {
        let Some(path) = log else { return Self::default() };
        let bytes = fs::read(path).unwrap_or_default();
        let number = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let before = bytes.chunks_exact(12).map(|step| [number(step), number(&step[4..]), number(&step[8..])]);
        let log = OpenOptions::new().create(true).append(true).open(path).unwrap();
        Self { before: before.collect(), log: Some(log), ..Self::default() }
    }

    /// Different steps that this learner was given.
    pub(crate) fn distinct(&self) -> usize {
        self.steps.len()
    }

    fn take(&mut self, batch: &MultiAgentBatch) {
        let mut bytes = Vec::new();
        for (_, samples) in batch.policies() {
            let len = samples.shape().obs_len;
            for t in 0..samples.shape().steps {
                let Some(row) = samples.obs_row(t).as_f32() else { panic!("observations are floats") };
                for obs in row.chunks_exact(len) {
                    let [process, made, worker, count] = [0, 1, 2, 3].map(|i| (obs[i] / UNIT) as u32);
                    self.note([process, made, count], worker);
                    bytes.extend([process, made, count].map(u32::to_le_bytes).concat());
                }
            }
        }
        // Before it is trained, so that the file has at least what a killed learner was given.
        if let Some(log) = &mut self.log {
            log.write_all(&bytes).unwrap();
        }
    }

    fn note(&mut self, step: [u32; 3], worker: u32) {
        if !self.steps.insert(step) {
            self.wrong.push(format!("step {step:?} came twice"));
        }
        if self.before.contains(&step) {
            self.wrong.push(format!("step {step:?} came to a learner before this one, too"));
        }
        let [process, ..] = step;
        *self.by_process.entry(process).or_default() += 1;
        let owner = *self.workers.entry(worker).or_insert(process);
        if owner != process {
            self.wrong.push(format!("processes {owner} and {process} both have worker {worker}"));
        }
    }
}

/// The run's own learner, whose batches are looked at first.
pub(crate) struct Watched {
    pub(crate) inner: Box<dyn Learner>,
    pub(crate) seen: Arc<Mutex<Seen>>,
}

impl Learner for Watched {
    fn learn(&mut self, batch: TrainBatch<'_>) -> Result<Learned, LearnError> {
        self.seen.lock().unwrap().take(batch.samples);
        self.inner.learn(batch)
    }

    fn weights(&self) -> ByPolicy<&Params> {
        self.inner.weights()
    }

    fn save(&self, spare: ByPolicy<LearnerState>) -> ByPolicy<LearnerState> {
        self.inner.save(spare)
    }

    fn load(&mut self, state: ByPolicy<LearnerState>) -> Result<(), LearnError> {
        self.inner.load(state)
    }

    fn advance(&mut self, env_steps: u64) {
        self.inner.advance(env_steps);
    }

    fn obs_loaders(&self) -> ByPolicy<Arc<dyn ObsLoader>> {
        self.inner.obs_loaders()
    }

    fn published(&mut self, version: u64) {
        self.inner.published(version);
    }
}
