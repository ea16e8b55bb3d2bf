//! Evaluations beside a run: what they say, what they keep, and that training does not notice them.

mod agents;
mod failures;
mod videos;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use pronk::config::{Admission, ObservationFilter, Selection};
use pronk::envs::CartPole;
use pronk::hosts::{MemoryNetwork, Terms};
use pronk::prelude::*;
use pronk::trainer::OneAgent;
use pronk::{
    ActionSelection, Checkpoint, DEFAULT_POLICY, EnvPurpose, Every, ResultDict, Resume, Rng, Run, TrainerBuilder,
    evaluate,
};
use serde_json::Value;

use crate::deterministic::{deterministic, recurrent};
use crate::fixtures::{Before, Fault, Faulty, alone, iterations, only, small, with, without_hanging};
use crate::normalized::badly_scaled;

/// Evaluates all the time, `episodes` in each evaluation.
fn evaluated(config: TrainerConfig, episodes: usize) -> TrainerConfig {
    with(config, |config| {
        config.evaluation.every = Some(Every::Time(Duration::ZERO));
        config.evaluation.episodes = episodes;
    })
}

/// Whether an environment is made for an evaluation.
fn is_evaluator() -> bool {
    std::thread::current().name() == Some("evaluator")
}

/// The first result for which this holds.
fn until(trainer: &mut Trainer, holds: impl Fn(&ResultDict) -> bool) -> ResultDict {
    trainer.map(|result| result.unwrap().dict).find(holds).unwrap()
}

fn count(dict: &ResultDict, key: &str) -> u64 {
    dict.get(&format!("evaluation.{key}")).and_then(Value::as_u64).unwrap_or_else(|| panic!("{key} in {dict:?}"))
}

fn number(dict: &ResultDict, key: &str) -> Option<f64> {
    dict.number(&format!("evaluation.{key}"))
}

/// What the policy of a checkpoint does in the episodes of the run's evaluations.
fn play(checkpoint: &Checkpoint) -> f64 {
    let config = &checkpoint.config;
    let mut choice = match config.evaluation.selection {
        Selection::Mode => ActionSelection::Mode,
        Selection::Sample => ActionSelection::Sample(Rng::seed_from(config.seed)),
    };
    let mut policy = checkpoint.policy().unwrap();
    evaluate(&mut policy, &mut choice, &badly_scaled, config.evaluation.episodes, config.seed)
        .unwrap()
        .return_mean()
        .unwrap()
}

#[test]
fn a_factory_is_told_what_each_environment_is_for() {
    for workers in [0, 2] {
        let made = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&made);
        let make = move |context: &EnvContext| {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            seen.lock().unwrap().push((context.purpose, thread, context.worker));
            CartPole::new()
        };
        let mut trainer = Trainer::new(evaluated(small(workers), 1), make).unwrap();
        until(&mut trainer, |dict| count(dict, "made") >= 1);
        trainer.finish().unwrap();
        let made = made.lock().unwrap();
        assert_eq!((made[0].0, made[0].2), (EnvPurpose::Probe, 0), "the spaces are looked at first");
        for (purpose, thread, worker) in &made[1..] {
            let evaluates = thread == "evaluator";
            let due = if evaluates { EnvPurpose::Evaluation } else { EnvPurpose::Training };
            assert_eq!(*purpose, due, "{workers} workers: {made:?}");
            let workers = u32::from(workers > 0)..=workers as u32;
            assert!(evaluates || workers.contains(worker), "{made:?}");
        }
        let evaluates = made.iter().any(|(purpose, ..)| *purpose == EnvPurpose::Evaluation);
        assert!(evaluates && made.iter().filter(|(purpose, ..)| *purpose == EnvPurpose::Training).count() >= 2);
    }
}

#[test]
fn an_evaluation_can_be_repeated_with_the_weights_that_are_kept() {
    type Change = fn(&mut TrainerConfig);
    let cases: [(&str, TrainerConfig, Change); 5] = [
        ("without threads", small(0), |_| {}),
        ("free workers", small(2), |_| {}),
        ("turns", deterministic(1, 1), |config| config.evaluation.selection = Selection::Sample),
        ("normalised", small(1), |config| config.workers.observation_filter = ObservationFilter::MeanStdFilter),
        ("recurrent", small(1), recurrent),
    ];
    for (what, config, change) in cases {
        let folder = tempfile::tempdir().unwrap();
        let config = with(evaluated(TrainerConfig { seed: 5, ..config }, 7), change);
        let run = without_hanging(what, {
            let dir = folder.path().to_owned();
            move || {
                let mut trainer = Trainer::builder(config).env(badly_scaled).checkpoints(dir).build().unwrap();
                let first = trainer.next().unwrap().unwrap().dict;
                assert_eq!(number(&first, "failed"), Some(0.0), "the keys are there before there are figures");
                let dict = until(&mut trainer, |dict| count(dict, "made") >= 4);
                let of = |key: &str| number(&dict, key).unwrap();
                assert!(of("episode_reward_min") <= of("episode_reward_mean"), "{dict:?}");
                assert!(of("episode_reward_mean") <= of("episode_reward_max"), "{dict:?}");
                // A step of CartPole is a reward of 1.
                assert_eq!(of("episode_len_mean"), of("episode_reward_mean"));
                assert!(of("took_s") > 0.0 && of("at_env_steps") > 0.0 && of("weights_version") > 0.0, "{dict:?}");
                assert!(of("best.episode_reward_mean") >= of("episode_reward_mean"), "{dict:?}");
                assert_eq!((count(&dict, "failed"), dict.get("evaluation.last_failure")), (0, Some(&Value::Null)));
                trainer.finish().unwrap()
            }
        });
        assert!(run.ledger_closed() && run.not_joined.is_empty(), "{what}: {:?}", run.not_joined);
        let best = &run.best[DEFAULT_POLICY];
        let score = best.score.unwrap();
        assert_eq!((score.episodes, play(best)), (7, score.return_mean), "{what}");
        let saved = Checkpoint::load(folder.path().join("best")).unwrap();
        assert_eq!((saved.score, play(&saved)), (Some(score), score.return_mean), "{what}");
        assert!(saved.state.params.values() == best.state.params.values(), "{what}");
        assert!(only(&run).score.is_none() && run.checkpoint_failures.is_empty(), "{what}");
        let Some(time) = run.thread_times.iter().find(|time| time.thread == "evaluator") else { panic!("{what}") };
        assert!(time.states.iter().all(|(_, secs)| *secs > 0.0) && time.states.len() == 3, "{what}: {time:?}");
    }
}

#[test]
fn every_result_says_what_has_come_in_and_nothing_is_counted_twice() {
    let mut trainer = Trainer::new(evaluated(small(0), 3), |_: &EnvContext| CartPole::new()).unwrap();
    let (mut episodes, mut env_steps) = (0, 0);
    let last = until(&mut trainer, |dict| {
        // Without threads, an evaluation begins between two results, so each has one at most.
        let (now, steps) = (count(dict, "episodes_this_iter"), count(dict, "num_env_steps_sampled_this_iter"));
        assert!(now == 0 && steps == 0 || now == 3 && steps as f64 == 3.0 * number(dict, "episode_len_mean").unwrap());
        count(dict, "made") >= 5
    });
    drop(trainer);
    assert!(count(&last, "made") == 5 && number(&last, "running_s").is_none());
    // The same again, summed up.
    let mut trainer = Trainer::new(evaluated(small(0), 3), |_: &EnvContext| CartPole::new()).unwrap();
    for result in trainer.by_ref() {
        let dict = result.unwrap().dict;
        episodes += count(&dict, "episodes_this_iter");
        env_steps += count(&dict, "num_env_steps_sampled_this_iter");
        if count(&dict, "made") == 3 {
            break;
        }
    }
    assert!(episodes == 9 && env_steps >= 9 * 8, "{episodes} episodes of {env_steps} env-steps");
}

/// CartPole whose every episode in the evaluation `k`, from 0, is one step with the return `returns[k]`.
#[derive(Clone)]
struct Script {
    returns: Arc<[f32]>,
    made: Arc<AtomicU64>,
}

struct Scripted {
    inner: CartPole,
    /// In evaluations.
    reward: Option<f32>,
}

impl Script {
    fn new(returns: &[f32]) -> Self {
        Self { returns: returns.into(), made: Arc::default() }
    }

    fn make(&self) -> Scripted {
        let reward = is_evaluator().then(|| {
            let evaluation = self.made.fetch_add(1, Ordering::Relaxed) as usize;
            *self.returns.get(evaluation).unwrap_or(&-1000.0)
        });
        Scripted { inner: CartPole::new(), reward }
    }
}

impl Env for Scripted {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.inner.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let step = self.inner.step(action, obs)?;
        Ok(self.reward.map_or(step, |reward| Step { reward, end: End::Terminated }))
    }
}

fn scripted(config: &TrainerConfig, script: &Script, folder: &Path) -> TrainerBuilder<OneAgent> {
    let script = script.clone();
    Trainer::builder(config.clone()).env(move |_: &EnvContext| script.make()).checkpoints(folder)
}

#[test]
fn the_best_is_the_first_with_the_highest_mean_return() {
    let folder = tempfile::tempdir().unwrap();
    let returns = [-3.0, 1.0, 0.5, 2.5, 2.5, 2.5, 2.0];
    let script = Script::new(&returns);
    let config = evaluated(small(0), 1);
    let mut trainer = scripted(&config, &script, folder.path()).build().unwrap();
    let mut before = (0, f64::NEG_INFINITY, 0);
    // A result may have several evaluations, and has the figures of the newest.
    for result in trainer.by_ref() {
        let dict = result.unwrap().dict;
        if count(&dict, "episodes_this_iter") > 0 {
            let made = count(&dict, "made") as usize;
            let best = (number(&dict, "best.episode_reward_mean").unwrap(), count(&dict, "best.weights_version"));
            let highest = returns.iter().take(made).copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(best.0, f64::from(highest), "after {made} evaluations");
            if best.0 == before.1 {
                assert_eq!(best.1, before.2, "the earliest of equals, after {made} evaluations");
            } else if made == before.0 + 1 {
                assert_eq!(best.1, count(&dict, "weights_version"), "after {made} evaluations");
            }
            before = (made, best.0, best.1);
        }
        if before.0 >= returns.len() {
            break;
        }
    }
    let run = trainer.finish().unwrap();
    let saved = Checkpoint::load(folder.path().join("best")).unwrap();
    for best in [&run.best[DEFAULT_POLICY], &saved] {
        let score = best.score.unwrap();
        assert_eq!((score.return_mean, score.version), (2.5, before.2));
    }
}

#[test]
fn a_run_goes_on_with_the_evaluations_that_it_had() {
    for config in [deterministic(1, 1), with(small(1), |config| config.learner.admission = Admission::Free)] {
        let folder = tempfile::tempdir().unwrap();
        let config = evaluated(config, 1);
        let script = Script::new(&[1.0, 4.0, 2.0]);
        let mut trainer = scripted(&config, &script, folder.path()).build().unwrap();
        until(&mut trainer, |dict| count(dict, "made") >= 3);
        let before = trainer.finish().unwrap();
        let kept = before.best[DEFAULT_POLICY].clone();
        assert_eq!(kept.score.unwrap().return_mean, 4.0);

        // All that follows are worse.
        let resume = |config: &TrainerConfig| {
            scripted(config, &Script::new(&[3.0]), folder.path()).resume(Resume::auto()).build().unwrap()
        };
        let never = with(config.clone(), |config| config.evaluation.every = None);
        let run = resume(&never).run(iterations(before.result.iteration + 3)).unwrap();
        assert!(run.best.is_empty() && run.result.dict.get("evaluation").is_none());

        let mut trainer = resume(&config);
        let first = trainer.next().unwrap().unwrap().dict;
        assert!(count(&first, "made") >= 3 && number(&first, "best.episode_reward_mean") == Some(4.0), "{first:?}");
        let made = count(&first, "made");
        until(&mut trainer, |dict| count(dict, "made") > made);
        let run = trainer.finish().unwrap();
        let saved = Checkpoint::load(folder.path().join("best")).unwrap();
        for best in [&run.best[DEFAULT_POLICY], &saved] {
            assert!(best.score == kept.score && best.state.params.values() == kept.state.params.values());
        }

        // A new run in the folder does not begin with the best of another.
        let mut trainer = scripted(&config, &Script::new(&[0.5]), folder.path()).build().unwrap();
        until(&mut trainer, |dict| count(dict, "made") >= 1);
        assert_eq!(trainer.finish().unwrap().best.remove(DEFAULT_POLICY).unwrap().score.unwrap().return_mean, 0.5);
    }
}

#[test]
fn the_best_goes_into_the_folder_of_the_run_that_goes_on() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = evaluated(small(0), 1);
    let mut trainer = scripted(&config, &Script::new(&[4.0]), old.path()).build().unwrap();
    until(&mut trainer, |dict| count(dict, "made") >= 1);
    let kept = trainer.finish().unwrap().best.remove(DEFAULT_POLICY).unwrap();
    let builder = scripted(&config, &Script::new(&[1.0]), new.path()).resume(Resume::from(old.path()));
    let mut trainer = builder.build().unwrap();
    let first = until(&mut trainer, |_| true);
    until(&mut trainer, |dict| count(dict, "made") > count(&first, "made"));
    drop(trainer);
    assert_eq!(Checkpoint::load(new.path().join("best")).unwrap().score, kept.score);
}

#[test]
fn the_best_of_a_run_that_goes_on_counts_its_updates_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = evaluated(small(0), 1);
    let mut trainer = scripted(&config, &Script::new(&[1.0]), folder.path()).build().unwrap();
    until(&mut trainer, |dict| count(dict, "made") >= 10);
    trainer.finish().unwrap();
    let builder = scripted(&config, &Script::new(&[2.0]), folder.path()).resume(Resume::auto());
    let mut trainer = builder.build().unwrap();
    until(&mut trainer, |dict| number(dict, "best.episode_reward_mean") == Some(2.0));
    let run = trainer.finish().unwrap();
    let (best, last) = (&run.best[DEFAULT_POLICY].state, &only(&run).state);
    assert!(best.updates <= last.updates, "{} updates of {}", best.updates, last.updates);
    assert!(best.global_step <= last.global_step, "{} env-steps of {}", best.global_step, last.global_step);
}

/// CartPole that waits in evaluations: each step takes one message, until the sender is dropped. Also whether
/// a step has begun.
fn gated() -> (Sender<()>, Arc<AtomicBool>, impl Fn(&EnvContext) -> Before<Gate> + Clone) {
    let (open, gate) = unbounded::<()>();
    let inside = Arc::new(AtomicBool::new(false));
    let gate = (gate, Arc::clone(&inside));
    (open, inside, move |_: &EnvContext| Before(CartPole::new(), gate_of(is_evaluator().then(|| gate.clone()))))
}

type Gate = Box<dyn FnMut() -> Result<(), EnvError> + Send>;

fn gate_of(gate: Option<(Receiver<()>, Arc<AtomicBool>)>) -> Gate {
    Box::new(move || {
        if let Some((gate, inside)) = &gate {
            inside.store(true, Ordering::Relaxed);
            let _ = gate.recv();
        }
        Ok(())
    })
}

#[test]
fn training_does_not_wait_for_an_evaluation_and_nothing_queues_up() {
    for config in [small(0), small(2), deterministic(2, 1)] {
        without_hanging("training beside a slow evaluation", move || {
            let (open, _, make) = gated();
            let config = with(evaluated(config, 1), |config| config.evaluation.every = Some(Every::EnvSteps(500)));
            let mut trainer = Trainer::new(config, make).unwrap();
            let began = until(&mut trainer, |dict| number(dict, "running_s").is_some());
            let from = count(&began, "skipped");
            // The evaluation does not go on, and five more become due.
            let later = until(&mut trainer, |dict| count(dict, "skipped") >= from + 4);
            assert_eq!((count(&later, "made"), number(&later, "episode_reward_mean")), (0, None));
            assert!(number(&later, "running_s") > number(&began, "running_s"));
            drop(open);
            // It ends, and the one that was due begins, with newer weights.
            let first = until(&mut trainer, |dict| count(dict, "made") >= 1);
            let second = until(&mut trainer, |dict| count(dict, "made") >= 2);
            assert!(count(&second, "weights_version") > count(&first, "weights_version"));
            let run = trainer.finish().unwrap();
            assert!(run.ledger_closed() && run.not_joined.is_empty());
        });
    }
}

/// A run of so many iterations that waits, at the tenth, for evaluations to have begun, if it makes any.
fn run_to(config: &TrainerConfig, n: u64) -> Run {
    let begun = Arc::new(Mutex::new(0_u64));
    let seen = Arc::clone(&begun);
    let make = move |_: &EnvContext| {
        *seen.lock().unwrap() += u64::from(is_evaluator());
        CartPole::new()
    };
    let mut trainer = Trainer::new(config.clone(), make).unwrap();
    for _ in 0..10 {
        trainer.next().unwrap().unwrap();
    }
    while config.evaluation.every.is_some() && *begun.lock().unwrap() == 0 {
        std::thread::yield_now();
    }
    trainer.run(iterations(n)).unwrap()
}

#[test]
fn weights_and_fragments_are_the_same_with_and_without_evaluations() {
    for config in [with(small(0), |config| config.results.weights_digest = true), deterministic(2, 1)] {
        let without = run_to(&config, 30);
        let with = run_to(&evaluated(config, 4), 30);
        assert_eq!(with.weights_digest(), without.weights_digest());
        assert_eq!(with.result.dict.get("digest_chain"), without.result.dict.get("digest_chain"));
        assert_eq!(with.steps.sampled, without.steps.sampled);
        assert!(with.result.dict.get("evaluation.made").is_some() && without.result.dict.get("evaluation").is_none());
    }
}

#[test]
fn a_run_that_repeats_evaluates_what_it_has_between_two_iterations() {
    let mut trainer = Trainer::new(evaluated(deterministic(2, 1), 1), |_: &EnvContext| CartPole::new()).unwrap();
    // Env-steps at the end of each iteration, before which there was none.
    let mut ends = vec![0];
    for result in trainer.by_ref() {
        let dict = result.unwrap().dict;
        if count(&dict, "made") > 0 {
            let began = count(&dict, "at_env_steps");
            assert!(ends.contains(&began), "{began} is in the middle of an iteration: {ends:?}");
        }
        if count(&dict, "made") >= 10 {
            break;
        }
        ends.push(dict.number("num_env_steps_sampled").unwrap() as u64);
    }
}

#[test]
fn the_same_weights_are_not_evaluated_again() {
    let config = with(evaluated(small(1), 1), |config| config.learner.broadcast_interval = 1_000_000);
    let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
    let first = until(&mut trainer, |dict| count(dict, "made") >= 1);
    assert_eq!(count(&first, "weights_version"), 0);
    let later = trainer.by_ref().take(100).map(|result| result.unwrap().dict).last().unwrap();
    assert_eq!(count(&later, "made"), 1);
}

#[test]
fn a_run_that_listens_evaluates_on_its_own_machine() {
    without_hanging("a run with a host", || {
        let network = MemoryNetwork::new();
        let run = || Trainer::builder(evaluated(small(0), 2)).env(|_: &EnvContext| CartPole::new());
        let mut trainer = run().listen(network.listen(), Terms::default()).build().unwrap();
        let host = run().connect(network.dial("host-a")).workers(1);
        let host = std::thread::spawn(|| host.run());
        let dict =
            until(&mut trainer, |dict| count(dict, "made") >= 2 && dict.get("ledger.time.host-a/rollout").is_some());
        let threads = dict.get("ledger.time").and_then(Value::as_object).unwrap();
        let evaluators: Vec<_> = threads.keys().filter(|thread| thread.contains("evaluator")).collect();
        assert_eq!(evaluators, ["evaluator"]);
        trainer.finish().unwrap();
        host.join().unwrap().unwrap();
    });
}
