//! Runs that go on: what free runs promise, logs without gap or repeat, and what is refused.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pronk::config::{Admission, ObservationFilter};
use pronk::envs::{CartPole, Masked, Pendulum};
use pronk::prelude::*;
use pronk::trainer::OneAgent;
use pronk::{AsyncEnvs, Checkpoint, Every, Gather, Recording, Resume, ResumeError, Run, TrainError, TrainerBuilder};
use serde_json::Value;

use crate::deterministic::deterministic;
use crate::fixtures::{iterations, small, with, without_hanging};
use crate::remote::{RemoteCartPole, serve};

fn cart_pole(config: &TrainerConfig) -> TrainerBuilder<OneAgent> {
    Trainer::builder(config.clone()).env(|_: &EnvContext| CartPole::new())
}

fn saves_into(folder: &Path) -> PathBuf {
    folder.join("checkpoints")
}

/// A free run with a replay buffer and results of a few milliseconds.
fn free() -> TrainerConfig {
    with(small(2), |config| {
        config.learner.admission = Admission::Free;
        config.learner.replay_proportion = 0.5;
        config.learner.replay_buffer_num_slots = 10;
        config.results.min_time_s_per_iteration = 0.005;
    })
}

/// Plays until the iteration and ends as a kill does; returns the env-steps sampled until then.
fn play_and_drop(mut trainer: Trainer, until: u64) -> u64 {
    let last = trainer.by_ref().map(Result::unwrap).find(|result| result.iteration == until).unwrap();
    last.env_steps_sampled
}

fn results(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn numbers(results: &[Value]) -> Vec<u64> {
    results.iter().map(|result| result["training_iteration"].as_u64().unwrap()).collect()
}

#[test]
fn a_free_run_goes_on_and_accounts_for_what_was_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    // Often enough for one checkpoint, and too seldom for one of the last result.
    let config = with(free(), |config| config.checkpoint.every = Every::EnvSteps(500));
    let checkpoints = saves_into(folder.path());
    let start = || cart_pole(&config).checkpoints(&checkpoints).resume(Resume::auto()).log_to(folder.path());
    let came_to = play_and_drop(start().build().unwrap(), 30);
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(saves_into(folder.path()).join("manifest.json")).unwrap()).unwrap();
    let saved = manifest["run"]["summary"]["env_steps"].as_u64().unwrap();
    let from = manifest["run"]["summary"]["iteration"].as_u64().unwrap();
    assert!((1..=30).contains(&from));

    let run = start().build().unwrap().run(iterations(40)).unwrap();
    let of = |key: &str| run.result.dict.number(key).unwrap() as u64;
    assert!(run.ledger_closed(), "{:?}", run.steps);
    assert_eq!((of("resume.count"), of("resume.from_iteration")), (1, from));
    assert_eq!(of("resume.rewound_env_steps"), came_to - saved);
    let lost = run.steps.lost.get("resume").map_or(0, |steps| steps.env);
    assert_eq!(of("resume.lost_env_steps"), lost);
    assert_eq!(run.result.dict.get("resume.exact"), Some(&Value::Bool(false)));
    assert_eq!(run.result.dict.number("life"), Some(1.0));

    let log = results(&folder.path().join("results.jsonl"));
    assert_eq!(numbers(&log), (1..=40).collect::<Vec<_>>());
    let steps: Vec<_> = log.iter().map(|result| result["num_env_steps_sampled"].as_u64().unwrap()).collect();
    assert!(steps.is_sorted(), "{steps:?}");
    let times: Vec<_> = log.iter().map(|result| result["time_total_s"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    if from < 30 {
        let tail = results(&folder.path().join("results.jsonl.life-1"));
        assert_eq!(numbers(&tail), (from + 1..=30).collect::<Vec<_>>(), "what came after the checkpoint is kept");
    }
    let table = std::fs::read_to_string(folder.path().join("progress.csv")).unwrap();
    let column = table.lines().next().unwrap().split(',').position(|name| name == "training_iteration").unwrap();
    let rows = table.lines().skip(1).map(|row| row.split(',').nth(column).unwrap().parse().unwrap());
    assert_eq!(rows.collect::<Vec<u64>>(), (1..=40).collect::<Vec<_>>());
    assert!(folder.path().join("report.html").exists());
}

#[test]
fn a_free_run_goes_on_with_fragments_of_another_length() {
    let folder = tempfile::tempdir().unwrap();
    let config = with(free(), |config| config.learner.train_batch_size *= 3);
    let start = |config: &TrainerConfig| {
        cart_pole(config).checkpoints(saves_into(folder.path())).resume(Resume::auto()).build().unwrap()
    };
    start(&config).run(iterations(20)).unwrap();
    let run = start(&with(config, |config| config.workers.rollout_fragment_length *= 2)).run(iterations(40)).unwrap();
    assert!(run.ledger_closed() && !run.steps.dropped.contains_key("shape_mismatch"), "{:?}", run.steps);
}

#[test]
fn a_run_that_has_ended_is_at_its_goal_when_resumed() {
    for config in [deterministic(2, 1), free()] {
        let folder = tempfile::tempdir().unwrap();
        let start =
            || cart_pole(&config).checkpoints(saves_into(folder.path())).resume(Resume::auto()).build().unwrap();
        let stop = StopWhen { env_steps: Some(2_000), ..StopWhen::default() };
        let run = start().run(stop.clone()).unwrap();
        let again = start().run(stop).unwrap();
        assert_eq!(again.weights_digest(), run.weights_digest());
        assert_eq!(again.steps.trained_once, run.steps.trained_once);
        assert_eq!(again.result.iteration, run.result.iteration, "no empty one follows");
        assert!(again.ledger_closed());
    }
}

#[test]
fn the_folder_of_a_run_stands_for_its_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let config = free();
    let start = |from: Option<&Path>| {
        let builder = cart_pole(&config).checkpoints(saves_into(folder.path())).log_to(folder.path());
        match from {
            Some(from) => builder.resume(Resume::from(from)),
            None => builder,
        }
    };
    let run = start(None).build().unwrap().run(iterations(3)).unwrap();
    // The weights that it ended with, which are no run to go on with, are beside them.
    run.save(folder.path()).unwrap();
    for (life, path) in [folder.path().to_owned(), folder.path().join("checkpoints/manifest.json")].iter().enumerate() {
        let until = 4 + life as u64;
        start(Some(path)).build().unwrap().run(iterations(until)).unwrap();
        assert_eq!(numbers(&results(&folder.path().join("results.jsonl"))), (1..=until).collect::<Vec<_>>());
    }
}

#[test]
fn an_exact_checkpoint_stays_when_the_next_process_has_nothing_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let config = deterministic(2, 1);
    let start = || cart_pole(&config).checkpoints(saves_into(folder.path())).resume(Resume::auto()).build().unwrap();
    let manifest = || std::fs::read(saves_into(folder.path()).join("manifest.json")).unwrap();
    start().run(iterations(3)).unwrap();
    let before = manifest();
    let run = start().run(iterations(3)).unwrap();
    assert!(run.checkpoint_failures.is_empty(), "{:?}", run.checkpoint_failures);
    assert_eq!((run.result.iteration, manifest() == before), (3, true), "nothing was new");
    start().finish().unwrap();
    assert!(manifest() == before);
    let run = start().run(iterations(4)).unwrap();
    assert_eq!(run.result.dict.get("resume.exact"), Some(&Value::Bool(true)));
}

/// An environment that saves no state, and whose instances show other observations: its episodes cannot be
/// played again.
struct Unfaithful<E> {
    env: E,
    instance: f32,
}

impl<E> Unfaithful<E> {
    fn new(env: E) -> Self {
        static INSTANCES: AtomicU32 = AtomicU32::new(0);
        Self { env, instance: INSTANCES.fetch_add(1, Ordering::Relaxed) as f32 }
    }

    fn show(&self, obs: &mut ObsMut<'_>) {
        if let ObsMut::F32([first, ..]) = obs {
            *first += self.instance / 1000.0;
        }
    }
}

impl<E: Env> Env for Unfaithful<E> {
    fn spec(&self) -> EnvSpec {
        self.env.spec()
    }

    fn reset(&mut self, seed: u64, mut obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, obs.reborrow())?;
        self.show(&mut obs);
        Ok(())
    }

    fn step(&mut self, action: ActionRef<'_>, mut obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let step = self.env.step(action, obs.reborrow())?;
        self.show(&mut obs);
        Ok(step)
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        self.env.action_mask(mask)
    }
}

/// Plays three iterations, and goes on in another process until the iteration.
fn go_on(
    what: &str,
    (config, until): (&TrainerConfig, u64),
    envs: impl Fn(TrainerBuilder) -> TrainerBuilder<OneAgent>,
) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let builder = envs(Trainer::builder(config.clone()));
        builder.checkpoints(folder.path()).resume(Resume::auto()).build().unwrap()
    };
    play_and_drop(start(), 3);
    let run = start().run(iterations(until)).unwrap();
    assert!(run.ledger_closed() && run.checkpoint_failures.is_empty(), "{what}: {:?}", run.checkpoint_failures);
    assert_eq!((run.result.iteration, run.result.dict.number("resume.count")), (until, Some(1.0)), "{what}");
    // No count has gone below zero.
    let counts = [run.steps.sampled.env, run.steps.in_flight.env].into_iter();
    let counts = counts.chain(run.steps.dropped.values().chain(run.steps.lost.values()).map(|steps| steps.env));
    assert!(counts.max() < Some(1_000_000), "{what}: {:?}", run.steps);
    run
}

#[test]
fn environments_that_cannot_get_back_begin_new_episodes() {
    let groups = |gather| {
        move |config: &mut TrainerConfig| {
            config.workers.num_envs_per_worker = 4;
            config.workers.num_env_groups = 2;
            config.workers.gather = gather;
        }
    };
    let configs = [
        ("together", deterministic(2, 1)),
        ("all groups", with(deterministic(2, 1), groups(Gather::All))),
        ("groups in turn", with(deterministic(2, 1), groups(Gather::InTurn))),
        ("without threads", with(deterministic(0, 0), groups(Gather::InTurn))),
    ];
    for (what, config) in configs {
        let check = |what: &str, run: &Run| {
            let of = |key: &str| run.result.dict.number(key).unwrap();
            assert!(of("resume.restarted") > 0.0, "{what}");
            assert_eq!(run.result.dict.get("resume.exact"), Some(&Value::Bool(false)), "{what}");
            let why = run.result.dict.get("resume.restarted_why").unwrap().to_string();
            assert!(why.contains("played again"), "{what}: {why}");
            assert!(
                run.worker_failures.is_empty() && run.result.dict.number("workers.restarts") == Some(0.0),
                "{what}"
            );
        };
        check(
            what,
            &go_on(what, (&config, 8), |builder| builder.env(|_: &EnvContext| Unfaithful::new(CartPole::new()))),
        );
        check(
            what,
            &go_on(what, (&config, 8), |builder| builder.env(|_: &EnvContext| Unfaithful::new(Masked::new(5, 13)))),
        );
        let normalized = with(config, |config| {
            config.workers.observation_filter = ObservationFilter::MeanStdFilter;
            config.workers.normalize_rewards = true;
        });
        check(
            what,
            &go_on(what, (&normalized, 8), |builder| builder.env(|_: &EnvContext| Unfaithful::new(Pendulum::new()))),
        );
    }
}

/// CartPole whose second group of two takes its time: it steps while checkpoints are taken.
struct Slow {
    env: CartPole,
    index: u32,
    steps: u32,
}

/// The most steps that an environment of the second group has taken.
static MOST_SLOW_STEPS: AtomicU32 = AtomicU32::new(0);

impl Env for Slow {
    fn spec(&self) -> EnvSpec {
        self.env.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let is_slow = self.index >= 2;
        if is_slow {
            self.steps += 1;
            MOST_SLOW_STEPS.fetch_max(self.steps, Ordering::Relaxed);
        }
        #[allow(clippy::disallowed_methods)] // as a slow environment does
        std::thread::sleep(Duration::from_micros(if is_slow { 2_000 } else { 200 }));
        self.env.step(action, obs)
    }
}

#[test]
fn groups_that_act_as_they_come_go_on_without_threads_too() {
    let one = NonZeroUsize::MIN;
    let gathers = [Gather::Adaptive, Gather::AtLeast(one), Gather::Within(Duration::from_millis(1))];
    for gather in gathers {
        let config = with(small(0), |config| {
            config.workers.num_envs_per_worker = 4;
            config.workers.num_env_groups = 2;
            config.workers.gather = gather;
        });
        let what = format!("{gather:?}");
        let run = without_hanging("groups that act as they come", move || {
            let slow = |context: &EnvContext| Slow { env: CartPole::new(), index: context.index, steps: 0 };
            go_on("as they come", (&config, 30), |builder| builder.env(slow))
        });
        // An iteration is sixteen steps of the other group, and so about two of this one.
        let steps = MOST_SLOW_STEPS.swap(0, Ordering::Relaxed);
        assert!(steps >= 10, "{what}: the slow group has stopped after {steps} steps");
        assert_eq!(run.result.dict.get("resume.exact"), Some(&Value::Bool(false)), "{what}: it depends on time");
        assert_eq!(run.result.dict.number("life"), Some(1.0), "{what}");
    }
}

#[test]
fn environments_that_are_tasks_begin_new_episodes() {
    let run = without_hanging("environments that are tasks", || {
        let address = serve(|_, _| Some(Duration::ZERO)).unwrap();
        let envs = move || AsyncEnvs::new(move |_: EnvContext| RemoteCartPole::connect(address));
        go_on("tasks", (&small(0), 8), |builder| builder.env(envs()))
    });
    assert_eq!(run.result.dict.get("resume.exact"), Some(&Value::Bool(false)));
}

#[test]
fn turns_begin_anew_with_other_workers_and_end_at_the_limit() {
    for (lag, others) in [(0, 3), (1, 1), (3, 3)] {
        let folder = tempfile::tempdir().unwrap();
        let start = |workers: usize| {
            let builder = cart_pole(&deterministic(workers, lag)).log_to(folder.path());
            builder.checkpoints(saves_into(folder.path())).resume(Resume::auto()).build().unwrap()
        };
        let what = format!("lag {lag}, {others} workers");
        play_and_drop(start(2), 3);
        // Another number of workers cannot go on exactly, and the same number can.
        play_and_drop(start(others), 6);
        let stop = StopWhen { env_steps: Some(5_000), ..StopWhen::default() };
        let run = without_hanging("turns that begin anew", {
            let trainer = start(others);
            move || trainer.run(stop).unwrap()
        });
        assert!(run.ledger_closed() && run.worker_failures.is_empty(), "{what}: {:?}", run.steps);
        assert_eq!(run.result.dict.number("resume.count"), Some(2.0), "{what}");
        assert_eq!(run.result.dict.get("resume.exact"), Some(&Value::Bool(true)), "{what}");
        // As many fragments of 16 env-steps as the limit has room for.
        assert!((5_000..5_000 + 16).contains(&run.steps.sampled.env), "{what}: {:?}", run.steps);
        let results = results(&folder.path().join("results.jsonl"));
        let lags = results.iter().filter_map(|result| result["policy_lag"]["max"].as_f64());
        assert!(lags.fold(0.0, f64::max) <= lag as f64, "{what}: nothing is older than it may be");
    }
}

#[test]
fn the_log_of_another_run_is_moved_aside() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = deterministic(1, 0);
    let build = |folder: &Path| cart_pole(&config).checkpoints(saves_into(folder)).log_to(folder);
    build(one.path()).build().unwrap().run(iterations(3)).unwrap();
    build(other.path()).build().unwrap().run(iterations(5)).unwrap();
    let resumed = build(other.path()).resume(Resume::from(saves_into(one.path())));
    resumed.build().unwrap().run(iterations(6)).unwrap();
    assert_eq!(numbers(&results(&other.path().join("life-1/results.jsonl"))), [1, 2, 3, 4, 5]);
    assert_eq!(numbers(&results(&other.path().join("results.jsonl"))), [4, 5, 6]);
}

#[test]
fn a_run_of_a_newer_version_is_refused_and_not_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let config = deterministic(1, 0);
    let start = || cart_pole(&config).checkpoints(folder.path()).resume(Resume::auto()).build();
    start().unwrap().run(iterations(4)).unwrap();
    let path = folder.path().join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    manifest["run"]["format"] = 99.into();
    manifest.as_object_mut().unwrap().remove("crc32c");
    std::fs::write(&path, manifest.to_string()).unwrap();
    let refused = start().map(drop).unwrap_err().to_string();
    assert!(refused.contains("version 99 of the state of a run"), "{refused}");
}

#[test]
fn a_new_run_replaces_the_checkpoints_of_another_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let config = with(deterministic(0, 0), |config| config.checkpoint.keep = 100);
    cart_pole(&config).checkpoints(folder.path()).build().unwrap().run(iterations(9)).unwrap();
    let other = with(config, |config| config.seed += 1);
    cart_pole(&other).checkpoints(folder.path()).build().unwrap().run(iterations(2)).unwrap();
    let of_other = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let manifests: Vec<_> = of_other.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    assert!((2..=3).contains(&manifests.len()), "{manifests:?}");
    for manifest in &manifests {
        assert_eq!(Checkpoint::load(manifest).unwrap().config.seed, other.seed, "{manifest:?}");
    }
    let run = cart_pole(&other).resume(Resume::from(folder.path())).build().unwrap().run(iterations(3)).unwrap();
    assert_eq!(run.result.dict.get("resume.exact"), Some(&Value::Bool(true)));
}

#[test]
fn a_kill_before_the_first_checkpoint_begins_anew_and_keeps_the_old_log() {
    let folder = tempfile::tempdir().unwrap();
    let config = with(free(), |config| config.checkpoint.every = Duration::from_secs(3600).into());
    let checkpoints = saves_into(folder.path());
    let start = || cart_pole(&config).checkpoints(&checkpoints).resume(Resume::auto()).log_to(folder.path());
    play_and_drop(start().build().unwrap(), 3);
    let run = start().build().unwrap().run(iterations(2)).unwrap();
    assert_eq!(run.result.dict.get("resume.count"), None);
    assert_eq!(numbers(&results(&folder.path().join("results.jsonl"))), [1, 2]);
    assert_eq!(numbers(&results(&folder.path().join("life-1/results.jsonl"))), [1, 2, 3]);
}

#[test]
fn another_run_is_refused_by_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let config = deterministic(2, 1);
    cart_pole(&config).checkpoints(saves_into(folder.path())).build().unwrap().run(iterations(3)).unwrap();
    let path = saves_into(folder.path());
    let refusal = |builder: TrainerBuilder<OneAgent>| match builder.build().map(drop).unwrap_err() {
        TrainError::Resume(error) => *error,
        other => panic!("{other}"),
    };
    let differs = |builder| match refusal(builder) {
        ResumeError::Other { what, saved, own, .. } => (what, saved, own),
        other => panic!("{other}"),
    };
    let (what, saved, own) =
        differs(cart_pole(&with(config.clone(), |c| c.learner.lr *= 2.0)).resume(Resume::from(&path)));
    assert!(what.contains("learner.lr") && saved != own, "{what}: {saved} {own}");
    let (what, ..) = differs(cart_pole(&with(config.clone(), |c| c.seed += 1)).resume(Resume::from(&path)));
    assert!(what.contains("seed"), "{what}");

    let nowhere = refusal(cart_pole(&config).resume(Resume::from(folder.path().join("nothing"))));
    assert!(matches!(nowhere, ResumeError::Nothing { .. }), "{nowhere}");
    assert!(matches!(refusal(cart_pole(&config).resume(Resume::auto())), ResumeError::NoFolder));
    let record = Recording::to(folder.path().join("record"));
    let recorded = refusal(cart_pole(&config).resume(Resume::from(&path)).record(record));
    assert!(matches!(recorded, ResumeError::Recorded), "{recorded}");
    let pendulum = Trainer::builder(config.clone()).env(|_: &EnvContext| Pendulum::new());
    let error = pendulum.resume(Resume::from(&path)).build().map(drop).unwrap_err().to_string();
    assert!(error.contains("Pendulum") || error.contains("space"), "{error}");

    // What cannot change the run may differ.
    let other = with(config, |c| c.supervision.worker_restart_backoff *= 2);
    let run = cart_pole(&other).resume(Resume::from(&path)).build().unwrap().run(iterations(4)).unwrap();
    assert_eq!(run.result.dict.get("resume.exact"), Some(&Value::Bool(true)));
}

#[test]
fn a_damaged_newest_checkpoint_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let config = deterministic(1, 0);
    let start = || cart_pole(&config).checkpoints(saves_into(folder.path())).resume(Resume::auto());
    start().build().unwrap().run(iterations(6)).unwrap();
    let dir = saves_into(folder.path());
    let manifest: Value = serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    let newest = manifest["run"]["summary"]["iteration"].as_u64().unwrap();
    // One bit in the state that only the newest has.
    let name = manifest["run"]["state"]["file"].as_str().unwrap();
    let mut bytes = std::fs::read(dir.join(name)).unwrap();
    bytes[7] ^= 1;
    std::fs::write(dir.join(name), bytes).unwrap();
    let run = start().build().unwrap().run(iterations(8)).unwrap();
    let from = run.result.dict.number("resume.from_iteration").unwrap() as u64;
    assert!(from >= 1 && from < newest, "{from} {newest}");
    let passed_over = run.result.dict.get("resume.passed_over").unwrap().as_array().unwrap();
    assert!(passed_over.len() == 1 && passed_over[0].as_str().unwrap().contains(name), "{passed_over:?}");
    assert_eq!(run.result.dict.get("resume.exact"), Some(&Value::Bool(true)));
}

#[test]
fn a_policy_is_read_while_its_run_saves() {
    let folder = tempfile::tempdir().unwrap();
    let config = with(free(), |config| config.checkpoint.keep = 1);
    let mut trainer = cart_pole(&config).checkpoints(saves_into(folder.path())).build().unwrap();
    let dir = saves_into(folder.path());
    while !dir.join("manifest.json").exists() {
        trainer.next().unwrap().unwrap();
    }
    let reader = std::thread::spawn(move || (0..200).map(|_| Checkpoint::load(&dir).unwrap().life).sum::<u64>());
    while !reader.is_finished() {
        trainer.next().unwrap().unwrap();
    }
    assert_eq!(reader.join().unwrap(), 0);
}
