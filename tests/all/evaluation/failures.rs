//! Evaluations that hang, fail, are interrupted, or whose policy cannot be saved.

use super::*;

#[test]
fn an_evaluation_that_hangs_is_named_and_ends_no_run() {
    let took = without_hanging("a run with an evaluation that hangs", || {
        let (open, inside, make) = gated();
        let mut trainer = Trainer::new(evaluated(small(1), 2), make).unwrap();
        // In the call itself: an evaluation that has only been ordered ends before its first step.
        until(&mut trainer, |_| inside.load(Ordering::Relaxed));
        let began = Instant::now();
        let run = trainer.finish().unwrap();
        assert_eq!(run.not_joined, ["evaluator"]);
        assert!(run.ledger_closed(), "{:?} {:?}", run.steps, run.thread_times);
        drop(open);
        began.elapsed()
    });
    // The deadline is one second. Ten leave a busy machine room.
    assert!(took < Duration::from_secs(10), "ending took {took:?}");
}

/// CartPole that falls only in training.
struct Endless(CartPole, bool, Arc<AtomicU64>);

impl Env for Endless {
    fn spec(&self) -> EnvSpec {
        EnvSpec { max_episode_steps: None, ..self.0.spec() }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        if !self.1 {
            return self.0.step(action, obs);
        }
        self.2.fetch_add(1, Ordering::Relaxed);
        obs.write(&[0.0; 4])?;
        Ok(Step { reward: 1.0, end: End::No })
    }
}

#[test]
fn the_end_of_a_run_interrupts_an_evaluation() {
    for (config, is_dropped) in [(small(0), false), (small(2), false), (deterministic(1, 0), false), (small(1), true)] {
        let took = without_hanging("a run that ends", move || {
            let steps = Arc::new(AtomicU64::new(0));
            let seen = Arc::clone(&steps);
            let make = move |_: &EnvContext| Endless(CartPole::new(), is_evaluator(), Arc::clone(&seen));
            let endless = with(evaluated(config, 3), |config| config.evaluation.max_episode_steps = Some(u32::MAX));
            let mut trainer = Trainer::new(endless, make).unwrap();
            while steps.load(Ordering::Relaxed) == 0 {
                trainer.next().unwrap().unwrap();
            }
            let began = Instant::now();
            if is_dropped {
                drop(trainer);
            } else {
                let run = trainer.finish().unwrap();
                assert!(run.not_joined.is_empty() && run.ledger_closed(), "{:?}", run.not_joined);
                assert!(run.best.is_empty(), "an evaluation without an end says nothing");
            }
            let ended = (began.elapsed(), steps.load(Ordering::Relaxed));
            assert!(is_dropped || steps.load(Ordering::Relaxed) == ended.1, "the evaluation goes on");
            ended.0
        });
        assert!(took < Duration::from_secs(10), "ending took {took:?}");
    }
}

#[test]
fn an_evaluation_that_is_interrupted_is_saved_as_not_begun() {
    without_hanging("a run that ends", || {
        let folder = tempfile::tempdir().unwrap();
        let steps = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&steps);
        let make = move |_: &EnvContext| Endless(CartPole::new(), is_evaluator(), Arc::clone(&seen));
        let config = with(evaluated(small(2), 1), |config| {
            // The last checkpoint of such a run is taken once its threads have ended.
            config.learner.admission = Admission::Free;
            config.evaluation.every = Some(Every::EnvSteps(20));
            config.evaluation.max_episode_steps = Some(u32::MAX);
        });
        let mut trainer = Trainer::builder(config).env(make).checkpoints(folder.path()).build().unwrap();
        while steps.load(Ordering::Relaxed) == 0 {
            trainer.next().unwrap().unwrap();
        }
        trainer.finish().unwrap();
        let manifest = std::fs::read(folder.path().join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let saved = &manifest["run"]["summary"]["evaluations"];
        assert_eq!((&saved["since_env_steps"], &saved["skipped"]), (&0.into(), &0.into()), "{saved}");
    });
}

#[test]
fn evaluations_that_fail_are_counted_and_later_ones_are_made() {
    let faults = [
        (Fault::Error, "the gearbox is stuck"),
        (Fault::Panic, "the gearbox exploded"),
        (Fault::NanObservation, "observation element 1 is NaN"),
        (Fault::InfiniteReward, "the reward is inf"),
    ];
    for (fault, words) in faults {
        let failing = Arc::new(AtomicU64::new(2));
        let make = move |_: &EnvContext| {
            let fails = is_evaluator()
                && failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
            Faulty::new(fault, if fails { 1 } else { u64::MAX })
        };
        without_hanging("failing evaluations", move || {
            let mut trainer = Trainer::new(evaluated(small(1), 1), make).unwrap();
            let dict = until(&mut trainer, |dict| count(dict, "made") >= 1);
            assert_eq!(count(&dict, "failed"), 2);
            let failure = dict.get("evaluation.last_failure").and_then(Value::as_str).unwrap();
            assert!(failure.contains(words) && failure.contains("of the weights: environment 0 failed"), "{failure}");
            assert!(!failure.contains("rollout"), "{failure}");
            let run = trainer.finish().unwrap();
            assert!(run.worker_failures.is_empty() && !run.best.is_empty());
        });
    }
}

#[test]
fn each_cause_of_a_failure_is_logged_once() {
    let name = "evaluation::failures::each_cause_of_a_failure_is_logged_once";
    let said = alone(name, || {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
        let make = |_: &EnvContext| Faulty::new(Fault::Error, if is_evaluator() { 1 } else { u64::MAX });
        let mut trainer = Trainer::new(evaluated(small(1), 1), make).unwrap();
        until(&mut trainer, |dict| count(dict, "failed") >= 5);
    });
    if let Some(said) = said {
        assert_eq!(said.matches("the gearbox is stuck").count(), 1, "{said}");
    }
}

#[test]
fn episodes_that_do_not_end_are_ended_at_the_limit_which_is_said_once() {
    let name = "evaluation::failures::episodes_that_do_not_end_are_ended_at_the_limit_which_is_said_once";
    let said = alone(name, || {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
        let make = |_: &EnvContext| Endless(CartPole::new(), is_evaluator(), Arc::default());
        let config = with(evaluated(small(1), 3), |config| config.evaluation.max_episode_steps = Some(50));
        let mut trainer = Trainer::new(config, make).unwrap();
        let dict = until(&mut trainer, |dict| count(dict, "made") >= 3);
        assert_eq!(number(&dict, "episode_reward_mean"), Some(50.0));
        assert_eq!(count(&dict, "episodes_cut_short_this_iter"), count(&dict, "episodes_this_iter"));
        assert!(!trainer.finish().unwrap().best.is_empty(), "what an evaluation is worth counts");
    });
    if let Some(said) = said {
        let words = "3 of 3 episodes, of 50 steps on average, were ended by `evaluation.max_episode_steps`";
        assert_eq!(said.matches(words).count(), 1, "{said}");
    }
}

#[test]
fn a_best_policy_that_cannot_be_saved_is_kept_in_memory_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("best");
    let mut trainer = scripted(&evaluated(small(0), 1), &Script::new(&[2.0, 1.0]), folder.path()).build().unwrap();
    std::fs::write(&in_the_way, "no folder").unwrap();
    let dict = until(&mut trainer, |dict| count(dict, "made") >= 1);
    let failures = dict.get("checkpoints_failed").unwrap().to_string();
    assert!(failures.contains("best"), "{failures}");
    std::fs::remove_file(&in_the_way).unwrap();
    let made = count(&dict, "made");
    until(&mut trainer, |dict| count(dict, "made") > made + 1);
    let run = trainer.finish().unwrap();
    assert_eq!(run.best[DEFAULT_POLICY].score, Checkpoint::load(&in_the_way).unwrap().score);
    assert_eq!(run.checkpoint_failures.len(), 1, "{:?}", run.checkpoint_failures);
}
