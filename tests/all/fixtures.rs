//! Small runs, and environments and learners that go wrong on purpose.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use pronk::envs::CartPole;
use pronk::learner::{Learned, LearnerState, TrainBatch};
use pronk::policy::ObsLoader;
use pronk::prelude::*;
use pronk::{ByPolicy, Checkpoint, DEFAULT_POLICY, Every, LearnError, Learner, Params, Run, TrainError};

/// A run that needs milliseconds: tiny network, small batches, a result after every update, and a checkpoint
/// after every result if it has a folder for them.
pub(crate) fn small(workers: usize) -> TrainerConfig {
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = workers;
    config.workers.num_envs_per_worker = 2;
    config.workers.rollout_fragment_length = 8;
    config.learner.train_batch_size = 16;
    config.learner.learner_queue_size = Some(2);
    config.model.fcnet_hiddens = vec![8];
    config.results.min_time_s_per_iteration = 0.0;
    config.checkpoint.every = Every::Time(Duration::ZERO);
    config.supervision.worker_restart_backoff = Duration::from_micros(100);
    config.supervision.worker_restart_backoff_max = Duration::from_millis(1);
    config.supervision.num_consecutive_worker_failures_tolerance = 3;
    config
}

/// The settings with a change.
pub(crate) fn with(mut config: TrainerConfig, change: impl FnOnce(&mut TrainerConfig)) -> TrainerConfig {
    change(&mut config);
    config
}

pub(crate) fn iterations(n: u64) -> StopWhen {
    StopWhen { iterations: Some(n), ..StopWhen::default() }
}

/// Checks that each config is refused for the field, with the words in the reason.
pub(crate) fn are_refused<const N: usize>(cases: [(TrainerConfig, &str, &str); N]) {
    for (config, field, words) in cases {
        let error = Trainer::new(config, |_: &EnvContext| CartPole::new()).map(drop).unwrap_err();
        let TrainError::Config(error) = error else { panic!("{error} is not about a setting") };
        assert!(error.field == field && error.reason.contains(words), "{error}");
    }
}

/// A learner whose passes `hook` sees first: it receives the number of the pass, from 1.
pub(crate) struct Hooked<F> {
    inner: Box<dyn Learner>,
    passes: u64,
    hook: F,
    /// Called before its state is saved, once there was a pass.
    on_save: fn(),
}

impl<F: FnMut(u64) -> Result<(), LearnError> + Send + 'static> Hooked<F> {
    pub(crate) fn boxed(inner: Box<dyn Learner>, hook: F) -> Box<dyn Learner> {
        Self::boxed_with(inner, hook, || {})
    }

    pub(crate) fn boxed_with(inner: Box<dyn Learner>, hook: F, on_save: fn()) -> Box<dyn Learner> {
        Box::new(Self { inner, passes: 0, hook, on_save })
    }
}

impl<F: FnMut(u64) -> Result<(), LearnError> + Send> Learner for Hooked<F> {
    fn learn(&mut self, batch: TrainBatch<'_>) -> Result<Learned, LearnError> {
        self.passes += 1;
        (self.hook)(self.passes)?;
        self.inner.learn(batch)
    }

    fn weights(&self) -> ByPolicy<&Params> {
        self.inner.weights()
    }

    fn save(&self, spare: ByPolicy<LearnerState>) -> ByPolicy<LearnerState> {
        if self.passes > 0 {
            (self.on_save)();
        }
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

/// Runs `test`, which is called `name`, in a process of its own: for what threads of other tests would
/// change, such as the processor time of the process. What it wrote to its standard error; `None` in that
/// process.
pub(crate) fn alone(name: &str, test: impl FnOnce()) -> Option<String> {
    const ALONE: &str = "PRONK_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        test();
        return None;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
    Some(errors.into_owned())
}

/// What a run with one agent trained.
pub(crate) fn only(run: &Run) -> Checkpoint {
    run.checkpoints[DEFAULT_POLICY].clone()
}

/// How an environment goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    Error,
    Panic,
    NanObservation,
    InfiniteReward,
}

/// CartPole that goes wrong at one step of some of its episodes.
pub(crate) struct Faulty {
    inner: CartPole,
    fault: Fault,
    /// One episode in this many goes wrong.
    one_in: u64,
    /// Steps until this episode goes wrong.
    left: Option<u64>,
}

impl Faulty {
    pub(crate) fn new(fault: Fault, one_in: u64) -> Self {
        Self { inner: CartPole::new(), fault, one_in, left: None }
    }
}

impl Env for Faulty {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.left = seed.is_multiple_of(self.one_in).then_some(seed / self.one_in % 8);
        self.inner.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let now = self.left == Some(0);
        self.left = self.left.map(|left| left.saturating_sub(1));
        if now && self.fault == Fault::NanObservation {
            obs.write(&[0.0, f32::NAN, 0.0, 0.0])?;
            return Ok(Step { reward: 0.0, end: End::No });
        }
        let step = self.inner.step(action, obs)?;
        match self.fault {
            Fault::Error if now => Err(EnvError::new("the gearbox is stuck")),
            Fault::Panic if now => panic!("the gearbox exploded"),
            Fault::InfiniteReward if now => Ok(Step { reward: f32::INFINITY, ..step }),
            _ => Ok(step),
        }
    }
}

/// CartPole, and what happens before each of its steps.
pub(crate) struct Before<F>(pub(crate) CartPole, pub(crate) F);

impl<F: FnMut() -> Result<(), EnvError> + Send> Env for Before<F> {
    fn spec(&self) -> EnvSpec {
        self.0.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        (self.1)()?;
        self.0.step(action, obs)
    }
}

/// Runs `body` on a thread of its own and fails the test when it takes longer than ten minutes: a hang,
/// however busy the machine is.
pub(crate) fn without_hanging<R: Send + 'static>(what: &str, body: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, result) = mpsc::channel();
    let thread = std::thread::Builder::new().name(what.to_owned()).spawn(move || done.send(body())).unwrap();
    match result.recv_timeout(Duration::from_secs(600)) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("a thread that sent nothing has panicked"),
        },
    }
}

pub(crate) fn has_words(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "'{word}' is missing in: {text}");
    }
}
