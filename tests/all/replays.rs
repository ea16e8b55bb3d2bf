//! A recorded run is replayed to the same weights, and the first difference is named.

use std::path::Path;
use std::time::Duration;

use pronk::config::Admission;
use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::wrappers::ChaosConfig;
use pronk::{
    AppoConfig, Digest, EnvFactory, EnvSpec, LearnError, Learner, PpoConfig, RecordError, Recording, Replay, Run,
    StopReason, TrainError,
};

use crate::fixtures::{Hooked, small, with, without_hanging};

/// Free admission, with three workers: no two runs are the same.
fn config() -> TrainerConfig {
    with(small(3), |config| {
        config.learner.train_batch_size = 48;
        config.learner.num_sgd_iter = 2;
        config.results.min_sample_timesteps_per_iteration = 200;
        config.supervision.num_consecutive_worker_failures_tolerance = 1_000;
        config.supervision.max_num_worker_restarts = 100_000;
    })
}

fn cartpole(_: &EnvContext) -> CartPole {
    CartPole::new()
}

/// Panics, errors and NaN, and steps that take longer.
fn chaos() -> impl EnvFactory + 'static {
    let chaos = ChaosConfig {
        seed: 3,
        panic: 0.004,
        error: 0.004,
        non_finite: 0.004,
        slow: 0.02,
        slow_for: Duration::from_micros(300),
        ..ChaosConfig::default()
    };
    chaos.wrap(cartpole)
}

fn record(config: TrainerConfig, env: impl EnvFactory + 'static, recording: Recording) -> Run {
    let trainer = Trainer::builder(config).env(env).record(recording).build().unwrap();
    trainer.run(StopWhen { env_steps: Some(6_000), ..StopWhen::default() }).unwrap()
}

fn replay(replay: Replay, env: impl EnvFactory + 'static) -> Result<Run, TrainError> {
    let trainer = Trainer::builder(replay.config().clone()).env(env).replay(replay).build()?;
    without_hanging("a replay", move || trainer.run(StopWhen::default()).map_err(|failed| failed.cause))
}

fn check_replayed(what: &str, run: &Run, path: &Path, env: impl EnvFactory + 'static) {
    let read = Replay::open(path).unwrap();
    assert!(read.is_whole() && read.fragments() > 100, "{what}: {} fragments", read.fragments());
    let again = replay(read, env).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(again.reason, Some(StopReason::Replayed), "{what}");
    assert_eq!(again.weights_digest(), run.weights_digest(), "{what}");
    assert!(again.ledger_closed(), "{what}: {:?}", again.steps);
}

#[test]
fn free_runs_are_replayed_to_the_same_weights() {
    type Change = fn(&mut TrainerConfig);
    let cases: [(&str, Change); 7] = [
        ("impala", |_| {}),
        ("appo", |config| config.algorithm = AppoConfig::default().into()),
        ("ppo", |config| config.algorithm = PpoConfig::default().into()),
        ("max_lag", |config| config.learner.max_lag = Some(2)),
        ("replay and a ring", |config| {
            config.learner.minibatch_buffer_size = 2;
            config.learner.replay_proportion = 0.5;
            config.learner.replay_buffer_num_slots = 4;
        }),
        ("without threads", |config| config.workers.num_rollout_workers = 0),
        ("deterministic admission", |config| {
            config.learner.admission = Admission::Deterministic { lag: 2 };
            config.learner.learner_queue_size = None;
        }),
    ];
    for (what, change) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.rec");
        let run = record(with(config(), change), cartpole, Recording::to(&path));
        check_replayed(what, &run, &path, cartpole);
    }
}

#[test]
fn a_run_with_failures_is_replayed_from_environments_and_from_its_fragments() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    let run = record(config(), chaos(), Recording::to(&path).with_fragments());
    assert!(run.steps.lost.values().map(|steps| steps.env).sum::<u64>() > 100, "{:?}", run.steps);
    check_replayed("chaos", &run, &path, chaos());
    let from_fragments = Replay::open(&path).unwrap().from_fragments();
    let again = replay(from_fragments, chaos()).unwrap();
    assert_eq!(again.weights_digest(), run.weights_digest());
}

#[test]
fn a_run_whose_fragments_have_no_room_goes_on_and_its_record_ends_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    let fragments = folder.path().join("run.rec.fragments");
    // A disk that is always full, for them alone.
    std::os::unix::fs::symlink("/dev/full", &fragments).unwrap();
    let run = record(config(), cartpole, Recording::to(&path).with_fragments());
    assert!(run.ledger_closed(), "{:?}", run.steps);
    let failure = run.result.dict.get("record_failed").unwrap().to_string();
    assert!(failure.contains("No space left on device"), "{failure}");
    let read = Replay::open(&path).unwrap();
    assert!(!read.is_whole());
    assert_eq!(replay(read, cartpole).unwrap().reason, Some(StopReason::Replayed), "the beginning of the run");
}

#[test]
fn fragments_that_end_before_the_record_are_an_error_that_says_how_far_they_reach() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    record(config(), cartpole, Recording::to(&path).with_fragments());
    let (fragments, whole) = (folder.path().join("run.rec.fragments"), Replay::open(&path).unwrap());
    let bytes = std::fs::read(&fragments).unwrap();
    for (len, least) in [(bytes.len() / 2, 10), (bytes.len() * 9 / 10, whole.updates() / 2), (0, 0)] {
        std::fs::write(&fragments, &bytes[..len]).unwrap();
        let error = replay(Replay::open(&path).unwrap().from_fragments(), cartpole).unwrap_err();
        let error = error.to_string();
        let updates = error.split_once("enough for ").and_then(|(_, rest)| rest.split_once(" updates; replay until"));
        let updates: u64 = updates.unwrap_or_else(|| panic!("{error}")).0.parse().unwrap();
        assert!(updates >= least && updates < whole.updates(), "{updates} of {}", whole.updates());
        if updates > 0 {
            let part = Replay::open(&path).unwrap().until(updates).from_fragments();
            assert_eq!(replay(part, cartpole).unwrap().reason, Some(StopReason::Replayed));
        }
    }
}

#[test]
fn the_results_of_a_replay_end_with_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    let run = record(config(), cartpole, Recording::to(&path));
    for is_async in [false, true] {
        let read = Replay::open(&path).unwrap();
        let mut trainer = Trainer::builder(read.config().clone()).env(cartpole).replay(read).build().unwrap();
        let again = without_hanging("the results of a replay", move || {
            if is_async {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async { while trainer.next_result().await.transpose().unwrap().is_some() {} });
            } else {
                trainer.by_ref().for_each(|result| drop(result.unwrap()));
            }
            trainer.finish().unwrap()
        });
        assert_eq!(again.weights_digest(), run.weights_digest(), "async: {is_async}");
        assert_eq!(again.steps.trained_once, run.steps.trained_once, "async: {is_async}");
    }
}

#[test]
fn a_replay_ends_where_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    record(config(), cartpole, Recording::to(&path).with_fragments());
    let whole = Replay::open(&path).unwrap();
    assert!(whole.updates() > 50);
    let digest = |until, from_fragments: bool| -> Digest {
        let part = Replay::open(&path).unwrap().until(until);
        let part = if from_fragments { part.from_fragments() } else { part };
        assert_eq!(part.updates(), until);
        let run = replay(part, cartpole).unwrap();
        assert_eq!(run.checkpoints["default_policy"].state.updates, until);
        run.weights_digest()
    };
    for until in [1, 7, 20] {
        assert_eq!(digest(until, false), digest(until, true), "until update {until}");
    }
    assert_ne!(digest(7, false), digest(8, false));
}

/// CartPole whose cart has another place in one step of one episode of one environment.
struct Moved {
    inner: CartPole,
    is_moved: bool,
    episode: u64,
}

impl Env for Moved {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.episode += 1;
        self.inner.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, mut obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let len = obs.len();
        let step = self.inner.step(action, obs.part(0, len))?;
        if self.is_moved && self.episode == 4 {
            obs.f32()?[0] += 0.001;
        }
        Ok(step)
    }
}

#[test]
fn the_first_difference_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    record(config(), cartpole, Recording::to(&path));
    let moved = |context: &EnvContext| Moved {
        inner: CartPole::new(),
        is_moved: (context.worker, context.index) == (2, 1),
        episode: 0,
    };
    let error = replay(Replay::open(&path).unwrap(), moved).unwrap_err().to_string();
    for words in ["of rollout-2 (incarnation 0,", "environment 1, in its episode "] {
        assert!(error.contains(words), "{error}");
    }

    let noisy = |mut learner: Box<dyn Learner>| {
        let mut passes = 0;
        learner = Hooked::boxed(learner, move |_| {
            passes += 1;
            if passes == 9 {
                Err(LearnError::NonFinite { what: "the loss", at: "in a test".to_owned() })
            } else {
                Ok(())
            }
        });
        Ok(learner)
    };
    let read = Replay::open(&path).unwrap();
    let trainer = Trainer::builder(read.config().clone()).env(cartpole).learner(noisy).replay(read).build().unwrap();
    let error = trainer.run(StopWhen::default()).unwrap_err().cause.to_string();
    assert!(error.contains("update 8 differs from the record"), "{error}");
}

#[test]
fn a_record_of_another_run_is_refused_and_says_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    record(config(), cartpole, Recording::to(&path));
    let refused = |change: fn(&mut TrainerConfig)| {
        let read = Replay::open(&path).unwrap();
        let config = with(read.config().clone(), change);
        Trainer::builder(config).env(cartpole).replay(read).build().map(drop).unwrap_err().to_string()
    };
    for (change, words) in [
        (
            (|config| config.seed = 8) as fn(&mut TrainerConfig),
            "the setting `seed` differs from the record: 0 was recorded, and this run has 8",
        ),
        (|config| config.learner.lr = 0.5, "`learner.lr`"),
        (|config| config.workers.num_rollout_workers = 2, "`workers.num_rollout_workers`"),
    ] {
        let error = refused(change);
        assert!(error.contains(words), "{error}");
    }
    let read = Replay::open(&path).unwrap().from_fragments();
    let error = replay(read, cartpole).unwrap_err().to_string();
    assert!(error.contains("where fragments come from differs"), "{error}");
    let exists = Trainer::builder(config()).env(cartpole).record(Recording::to(&path)).build().map(drop).unwrap_err();
    assert!(matches!(exists, TrainError::Record(error) if matches!(*error, RecordError::Io { .. })));
}

#[test]
fn a_torn_record_is_replayed_as_far_as_it_goes_and_a_flipped_bit_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("run.rec"), folder.path().join("other.rec"));
    record(config(), cartpole, Recording::to(&path));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&other, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let torn = Replay::open(&other).unwrap();
    assert!(!torn.is_whole() && torn.updates() < Replay::open(&path).unwrap().updates());
    assert_eq!(replay(torn, cartpole).unwrap().reason, Some(StopReason::Replayed));

    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 4;
    std::fs::write(&other, &damaged).unwrap();
    let error = Replay::open(&other).unwrap_err().to_string();
    assert!(error.contains("that begins at byte") && error.contains("is damaged"), "{error}");
    std::fs::write(&other, b"no record").unwrap();
    assert!(Replay::open(&other).is_err());
}
