//! Whatever goes wrong in an environment's process has its message, and costs a fragment.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pronk::env_process::{Gymnasium, ProcessEnvs, Program, Wrapper};
use pronk::prelude::*;
use pronk::rollout::{CallMonitor, VectorContext, VectorEnv};
use pronk::{EnvFactory, EnvFailure, FailedRun, MultiAgentConfig, TrainError};
use serde_json::json;

use super::{Stepped, gymnasium, object, pettingzoo, python, quiet};
use crate::fixtures::{iterations, small, without_hanging};

/// A fault, and what its message says.
const FAULTS: [(&str, &[&str]); 9] = [
    ("step", &["at step 3", "ValueError: the gripper is stuck", "Traceback", "pronk_test_envs.py", "in in_step"]),
    ("reset", &["in reset", "ValueError: the gripper is stuck", "in in_reset"]),
    ("kill", &["at step 3", "was killed by signal 9 (SIGKILL"]),
    ("segfault", &["at step 3", "was killed by signal 11 (SIGSEGV", "Fatal Python error: Segmentation fault"]),
    ("exit", &["at step 3", "exited with status 3"]),
    ("hang", &["at step 3", "it has not returned for", "(last observation [2.0, "]),
    ("hang_in_c", &["at step 3", "it has not returned for"]),
    ("nan", &["at step 3", "observation element 0 is NaN"]),
    ("garbage", &["broke the protocol", "it wrote \"garbage"]),
];

/// Environments of which one goes wrong in the third step, or in the third episode; with a file, once.
fn faulty(fault: &str, file: Option<PathBuf>) -> ProcessEnvs {
    let envs = gymnasium("pronk_test_envs:Faulty-v0", json!({ "fault": fault, "at": 3, "file": file }));
    // However busy the machine is, what does not hang is not given up.
    let step_timeout = if fault.starts_with("hang") { Duration::from_secs(1) } else { Duration::from_secs(60) };
    ProcessEnvs { step_timeout, envs_per_process: 2, ..envs }
}

/// What goes wrong within forty steps.
fn failure(envs: &ProcessEnvs) -> EnvFailure {
    let mut stepped = Stepped::reset(envs, 3).unwrap();
    let failed = (0..40).find_map(|_| stepped.step(ActionRef::Discrete(&[0, 1, 0])).err());
    failed.expect("nothing went wrong in forty steps")
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

#[test]
fn every_fault_has_its_message() {
    for (fault, words) in FAULTS {
        let failure = failure(&faulty(fault, None));
        says(&failure.to_string(), words);
        says(&failure.to_string(), &["environment 0 of rollout-1", "seed"]);
        assert_eq!(failure.index, 0, "the first environment is the first to go wrong");
        let is_hang = fault.starts_with("hang");
        assert_eq!(failure.cause.key() == "env_hang", is_hang, "{fault}");
    }
}

#[test]
fn every_fault_costs_a_fragment_and_not_the_run() {
    without_hanging("runs with faults", || {
        for (fault, _) in FAULTS {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("it-has-happened");
            let mut config = small(1);
            config.workers.num_envs_per_worker = 3;
            config.learner.train_batch_size = 24;
            let mut trainer = Trainer::new(config, faulty(fault, Some(file.clone()))).unwrap();
            // What was queued before is still learned from while the worker restarts, so these may be of
            // several results.
            let mut newest_failures = None;
            let restarted = trainer.by_ref().take(200).map(Result::unwrap).find(|result| {
                let failures = result.dict.get("workers.newest_failures").map(ToString::to_string);
                newest_failures = newest_failures.take().or(failures);
                result.dict.number("num_remote_worker_restarts") != Some(0.0)
            });
            let restarted = restarted.unwrap_or_else(|| panic!("{fault}: the worker was not restarted"));
            assert!(file.exists(), "{fault}");
            assert_eq!(restarted.dict.number("num_remote_worker_restarts"), Some(1.0), "{fault}");
            assert!(!restarted.steps.lost.is_empty(), "{fault}: no step was lost");
            // Which of the two processes it was is a matter of who came first.
            says(&newest_failures.unwrap_or_default(), &["of rollout-1", "Faulty-v0", "seed"]);
            let run = trainer.run(iterations(restarted.iteration + 3)).unwrap();
            assert!(run.ledger_closed(), "{fault}: {:?}", run.steps);
            assert_eq!((run.abandoned.count, run.not_joined.len()), (0, 0), "{fault}: a thread was abandoned");
        }
    });
}

#[test]
fn a_fault_that_comes_again_and_again_ends_the_run_with_its_cause() {
    let trainer = Trainer::new(small(1), faulty("step", None)).unwrap();
    let result = trainer.run(iterations(1_000_000));
    let Err(FailedRun { cause: TrainError::Workers(causes), .. }) = &result else { panic!("{result:?}") };
    says(&causes[0].to_string(), &["rollout-1", "ValueError: the gripper is stuck"]);
}

#[test]
fn what_an_environment_prints_disturbs_nobody() {
    let mut stepped = Stepped::reset(&faulty("print", None), 3).unwrap();
    for _ in 0..50 {
        stepped.step(ActionRef::Discrete(&[0, 1, 0])).unwrap();
    }
}

#[test]
fn a_process_that_hangs_in_c_ends_with_its_parent() {
    const FILE: &str = "PRONK_TEST_HANGS";
    if let Some(file) = std::env::var_os(FILE) {
        let _ = failure(&ProcessEnvs { step_timeout: Duration::MAX, ..faulty("hang_in_c", Some(file.into())) });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("it-hangs");
    let name = "gymnasium::faults::a_process_that_hangs_in_c_ends_with_its_parent";
    let mut parent = Command::new(std::env::current_exe().unwrap());
    let mut parent = parent.args(["--exact", name]).env(FILE, &file).stdout(Stdio::null()).spawn().unwrap();
    // The file is made just before.
    assert!(within(Duration::from_secs(60), || file.exists()), "it does not hang");
    let environment = format!("{FILE}={}", file.display());
    assert_eq!(with_environment(&environment).len(), 3, "the test again, and two processes of environments");
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert!(
        within(Duration::from_secs(10), || with_environment(&environment).is_empty()),
        "a process outlives its parent"
    );
}

#[test]
fn an_environment_that_takes_its_time_to_close_may_finish() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("it-has-closed");
    let envs = gymnasium("pronk_test_envs:SlowToClose-v0", json!({ "secs": 0.8, "file": file }));
    let mut trainer = Trainer::new(small(1), ProcessEnvs { envs_per_process: 2, ..envs }).unwrap();
    trainer.next().unwrap().unwrap();
    // The one that was made to find out the spaces has closed by now.
    fs::remove_file(&file).unwrap();
    let run = trainer.finish().unwrap();
    assert_eq!((run.not_joined, run.abandoned.newest), (vec![], vec![]), "closing was taken for hanging");
    assert!(file.exists(), "it was killed before it had closed");
}

#[test]
fn every_environment_of_a_process_is_closed_even_if_closing_another_one_raises() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("closed");
    let envs = gymnasium("pronk_test_envs:SlowToClose-v0", json!({ "secs": 0.0, "file": file, "raises": true }));
    let mut trainer = Trainer::new(small(1), ProcessEnvs { envs_per_process: 2, ..envs }).unwrap();
    trainer.next().unwrap().unwrap();
    fs::remove_file(&file).unwrap();
    let run = trainer.finish().unwrap();
    assert_eq!((run.not_joined, run.abandoned.newest), (vec![], vec![]));
    assert_eq!(fs::read_to_string(&file).unwrap(), "closed\nclosed\n");
}

/// Processes that have a variable with that value.
fn with_environment(variable: &str) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    numbers.filter(has).collect()
}

fn within(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    while since.elapsed() < limit && !done() {
        #[allow(clippy::disallowed_methods)] // nothing tells what another process does: it is looked at again
        std::thread::sleep(Duration::from_millis(5));
    }
    done()
}

/// Why environments cannot be made: a run does not even begin.
fn refusal(envs: ProcessEnvs) -> String {
    match Trainer::new(small(1), envs) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("a trainer was made"),
    }
}

#[test]
fn an_interpreter_without_gymnasium_is_named_with_what_to_do() {
    // A module of that name that is not there.
    let folder = tempfile::tempdir().unwrap();
    let venv = folder.path().join("venv");
    let made = Command::new(python()).args(["-m", "venv", "--without-pip"]).arg(&venv).status();
    assert!(made.unwrap().success());
    let bare = venv.join("bin/python");
    let words = [&format!("{} -m pip install", bare.display()), "has no module", "or name another interpreter"];
    says(&refusal(quiet(Gymnasium { python: bare.clone(), ..Gymnasium::new("CartPole-v1") })), &words);
    says(
        &refusal(quiet(Gymnasium { python: "/nowhere/python".into(), ..Gymnasium::new("CartPole-v1") })),
        &["cannot start `/nowhere/python`: No such file", "install Python 3.9 or newer", "as `python`"],
    );
}

#[test]
fn environments_that_cannot_be_made_say_why() {
    let no = json!({});
    says(
        &refusal(gymnasium("CartPoule-v1", no.clone())),
        &["CartPoule-v1", "NameNotFound", "Did you mean: `CartPole`"],
    );
    says(
        &refusal(gymnasium("no_such_module:Gripper-v0", no.clone())),
        &["has no module `no_such_module`:", "modules of your own are looked for in /", "-m pip`, or name another"],
    );
    assert!(!refusal(gymnasium("no_such_module:Gripper-v0", no.clone())).contains("install no_such_module"));
    says(&refusal(gymnasium("ale_pi:Pong-v5", no.clone())), &["has no module `ale_pi`"]);
    says(
        &refusal(gymnasium("CartPole-v1", json!({ "gravity_of": "Mars" }))),
        &["CartPole-v1", "TypeError", "unexpected keyword argument 'gravity_of'"],
    );
    let wrapped = |name: &str| {
        let wrappers = vec![Wrapper::new(name)];
        quiet(Gymnasium { python: python(), wrappers, ..Gymnasium::new("CartPole-v1") })
    };
    says(&refusal(wrapped("gymnasium.wrappers:NoSuchWrapper")), &["there is no gymnasium.wrappers:NoSuchWrapper"]);
    says(
        &refusal(pettingzoo("pronk_test_parallel", no.clone())),
        &["it has several agents", "`TrainerBuilder::multi_agent_env`"],
    );
    let team = MultiAgentConfig::shared("team");
    let refused =
        Trainer::builder(small(1)).multi_agent_env(pettingzoo("no_such_game", no), team).build().err().unwrap();
    says(&refused.to_string(), &["has no module `no_such_game`"]);
}

#[test]
fn a_package_that_is_missing_is_named_with_what_to_do() {
    // As an environment says it whose simulator is not installed.
    let envs = quiet(Gymnasium {
        python: python(),
        kwargs: object(json!({ "observation": "box_f32" })),
        wrappers: vec![Wrapper::new("pronk_test_envs:needs_a_simulator")],
        ..Gymnasium::new("pronk_test_envs:Spaces-v0")
    });
    says(&refusal(envs), &["DependencyNotInstalled", "pip install simulator", "-m pip"]);
}

#[test]
fn an_environment_that_fails_while_it_is_made_has_its_traceback() {
    let refused = refusal(gymnasium("pronk_test_envs:Faulty-v0", json!({ "fault": "earthquake" })));
    says(&refused, &["ValueError: fault is 'earthquake'", "Traceback", "pronk_test_envs.py"]);
}

#[test]
fn a_worker_whose_environments_cannot_be_made_again_says_so() {
    /// Environments, and those that are made after the first have failed.
    struct Sabotaged(ProcessEnvs, ProcessEnvs);
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let good = faulty("kill", None);
    let bad = ProcessEnvs { program: Program::new("/nowhere/python"), ..good.clone() };
    impl EnvFactory for Sabotaged {
        fn make_vector(
            &self,
            context: &VectorContext,
            n_envs: usize,
            monitor: &CallMonitor,
        ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
            MADE.fetch_add(1, Ordering::Relaxed);
            let envs = if context.incarnation == 0 { &self.0 } else { &self.1 };
            envs.make_vector(context, n_envs, monitor)
        }
    }
    let result = Trainer::new(small(1), Sabotaged(good, bad)).unwrap().run(iterations(1_000_000));
    let Err(FailedRun { cause: TrainError::Workers(causes), .. }) = &result else { panic!("{result:?}") };
    says(&causes[0].to_string(), &["rollout-1", "cannot start `/nowhere/python`"]);
    assert!(MADE.load(Ordering::Relaxed) > 2, "it was tried again");
}

#[test]
fn agents_of_a_process_that_fails_say_so() {
    let envs = pettingzoo("pronk_test_parallel", json!({ "fault": "step", "at": 2 }));
    let agents = MultiAgentConfig::separate([("runner", "runner"), ("chaser", "chaser")]);
    let result = Trainer::builder(small(1)).multi_agent_env(envs, agents).build().unwrap().run(iterations(1_000_000));
    let Err(FailedRun { cause: TrainError::Workers(causes), .. }) = &result else { panic!("{result:?}") };
    says(&causes[0].to_string(), &["at step 2", "ValueError: the gripper is stuck", "Traceback"]);
}
