//! What only the deadline of the learner shows, which is a minute outside of here.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use pronk_learner::{LearnError, Learned, Learner, LearnerState, TrainBatch};
use pronk_metrics::ByPolicy;
use pronk_policy::{ObsLoader, Params};
use pronk_rollout::EnvContext;

use super::*;
use crate::config::TrainerConfig;
use crate::envs::CartPole;

/// A learner that hangs in its third update until the other end is dropped.
struct Late {
    inner: Box<dyn Learner>,
    updates: u64,
    entered: mpsc::Sender<()>,
    hang: mpsc::Receiver<()>,
}

impl Learner for Late {
    fn learn(&mut self, batch: TrainBatch<'_>) -> Result<Learned, LearnError> {
        self.updates += 1;
        if self.updates == 3 {
            let _ = self.entered.send(());
            let _ = self.hang.recv();
        }
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

#[test]
fn a_learner_that_takes_too_long_is_named_and_the_published_weights_are_handed_back() {
    let (entered, inside) = mpsc::channel();
    let (let_go, hang) = mpsc::channel();
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = 1;
    config.results.min_time_s_per_iteration = 0.0;
    let make = |_: &EnvContext| CartPole::new();
    let late = |inner| Ok(Box::new(Late { inner, updates: 0, entered, hang }) as Box<dyn Learner>);
    let mut trainer = Trainer::builder(config).env(make).learner(late).build().unwrap();
    trainer.finish_deadline = Duration::from_millis(50);
    assert!(trainer.next().unwrap().is_ok());
    inside.recv().unwrap();

    let failed = trainer.finish().unwrap_err();
    let text = failed.to_string();
    for words in
        ["`learner`", "did not end within 50ms", "`learning`", "train_batch_size", "published weights are intact"]
    {
        assert!(text.contains(words), "'{words}' is missing in: {text}");
    }
    assert!(!text.contains("already"), "{text}");
    assert_eq!((failed.cause.thread(), &failed.run.not_joined[..]), (Some("learner"), &["learner".to_owned()][..]));
    assert_eq!(failed.run.whole, Whole::PublishedWeights);
    assert_eq!(failed.run.checkpoints["default_policy"].state.updates, 2);
    drop(let_go);
}
