//! Processes end with their parent, and leave nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pronk_buffer::{End, FinalObs, ObsKind};
use pronk_env_process::{ChildOutput, ProcessEnvs};
use pronk_metrics::{ThreadTime, TimeLedger};
use pronk_rollout::{
    ActionRef, CallMonitor, EnvFactory, EnvFailure, FailurePlace, ObsMut, Reaper, VectorEnv, VectorStep,
};
use serde_json::json;

use crate::corridor::{CONTEXT, corridors, liars, shell};

/// Set for a test that runs again, in a process of its own.
const ALONE: &str = "PRONK_TEST_ALONE";

fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs the test of that name in a process of its own.
fn alone(name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([&format!("endings::{name}"), "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The processes that a process has started and not waited for, those that have ended included.
fn children_of(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Its name, in parentheses, may hold anything.
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        after_name.split_whitespace().nth(1).and_then(|ppid| ppid.parse().ok()) == Some(parent)
    };
    let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(is_child).collect()
}

fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn within(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    while since.elapsed() < limit {
        if done() {
            return true;
        }
        #[allow(clippy::disallowed_methods)]
        // nothing tells when a process ends that is not our child: it is looked at again
        std::thread::sleep(Duration::from_millis(5));
    }
    done()
}

/// A reset, and a step that does not end in this test.
fn hang(envs: &mut dyn VectorEnv) {
    envs.reset_all(ObsMut::F32(&mut vec![0.0; 2 * envs.n_envs()])).unwrap();
    let _ = step(envs);
}

/// A step to the right.
fn step(envs: &mut dyn VectorEnv) -> Result<(), EnvFailure> {
    let n = envs.n_envs();
    let (mut obs, mut rewards, mut ends) = (vec![0.0; 2 * n], vec![0.0; n], vec![End::No; n]);
    let mut final_obs = FinalObs::new(ObsKind::F32, 2);
    let out = VectorStep {
        t: 0,
        obs: ObsMut::F32(&mut obs),
        rewards: &mut rewards,
        ends: &mut ends,
        final_obs: &mut final_obs,
    };
    envs.step(ActionRef::Discrete(&vec![1; n]), out)
}

#[test]
fn a_parent_that_is_killed_takes_a_child_along_that_hangs() {
    if is_alone() {
        let shown = ProcessEnvs { output: ChildOutput::Shown, ..liars("late") };
        return hang(&mut *shown.make_vector(&CONTEXT, 3, &CallMonitor::new()).unwrap());
    }
    let mut parent = alone("a_parent_that_is_killed_takes_a_child_along_that_hangs");
    // It says so as it begins to hang; before, it would hear of its parent's end by its pipe.
    let mut said = BufReader::new(parent.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line == "late"), "the child does not hang");
    let children = children_of(parent.id());
    assert_eq!(children.len(), 1, "one process of three environments");
    parent.kill().unwrap();
    parent.wait().unwrap();
    // They would hang for ten seconds.
    let gone = within(Duration::from_secs(5), || !children.iter().any(|pid| is_there(*pid)));
    assert!(gone, "an environment process outlives its parent");
}

#[test]
fn dropped_environments_leave_no_process_no_zombie_and_no_descriptor() {
    if !is_alone() {
        let output = alone("dropped_environments_leave_no_process_no_zombie_and_no_descriptor").wait_with_output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let made = || corridors(json!({})).make_vector(&CONTEXT, 6, &CallMonitor::new()).unwrap();
    drop(made());
    let before = descriptors();
    for _ in 0..3 {
        let envs = made();
        assert_eq!(children_of(std::process::id()).len(), 2);
        drop(envs);
    }
    // Those that cannot be made leave nothing either, nor one that is asked no more in the middle of a step.
    assert!(liars("size").make_vector(&CONTEXT, 6, &CallMonitor::new()).is_err());
    assert!(shell("exit 1").make_vector(&CONTEXT, 6, &CallMonitor::new()).is_err());
    let impatient = ProcessEnvs { step_timeout: Duration::from_secs(1), ..liars("late") };
    hang(&mut *impatient.make_vector(&CONTEXT, 6, &CallMonitor::new()).unwrap());
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new());
    assert_eq!(descriptors(), before);
}

#[test]
fn processes_that_cannot_be_made_are_given_up_together() {
    // None of them listens, so each has a second before it is killed.
    let envs = ProcessEnvs { envs_per_process: 1, start_timeout: Duration::from_millis(100), ..shell("sleep 60") };
    let since = Instant::now();
    assert!(envs.make_vector(&CONTEXT, 30, &CallMonitor::new()).is_err());
    assert!(since.elapsed() < Duration::from_secs(20), "one waited for the other: {:?}", since.elapsed());
}

/// Made for a run: it has their time in its ledger and waits for their end.
fn made_for_a_run(envs: &ProcessEnvs, time: &TimeLedger, reaper: &Reaper) -> Box<dyn VectorEnv> {
    let mut made = envs.make_vector(&CONTEXT, 6, &CallMonitor::new().of_run(time, &reaper.handle())).unwrap();
    made.reset_all(ObsMut::F32(&mut [0.0; 12])).unwrap();
    made
}

/// The state that each process is in, by the time ledger.
fn states(time: &TimeLedger) -> Vec<Option<&'static str>> {
    time.read().iter().map(|process| process.current).collect()
}

#[test]
fn closing_is_left_to_the_reaper_and_may_finish() {
    if !is_alone() {
        let output = alone("closing_is_left_to_the_reaper_and_may_finish").wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(errors.lines().filter(|line| *line == "closed").count(), 2, "each process has closed: {errors}");
        return;
    }
    let (time, reaper) = (TimeLedger::new(), Reaper::new());
    let envs = made_for_a_run(&ProcessEnvs { output: ChildOutput::Shown, ..liars("slow") }, &time, &reaper);
    assert_eq!(states(&time), [Some("waiting"); 2]);
    drop(envs);
    assert_eq!(reaper.wait(), Vec::<String>::new());
    assert_eq!(states(&time), [None; 2]);
    assert!(time.is_closed());
    let closing = |process: &ThreadTime| process.states.iter().find(|(state, _)| *state == "closing").unwrap().1;
    assert!(time.read().iter().all(|process| closing(process) >= 0.8), "{:?}", time.read());
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new());
}

#[test]
fn a_close_that_hangs_is_killed_after_its_limit() {
    if !is_alone() {
        let output = alone("a_close_that_hangs_is_killed_after_its_limit").wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let (time, reaper) = (TimeLedger::new(), Reaper::new());
    let limit = Duration::from_millis(300);
    let envs = made_for_a_run(&ProcessEnvs { close_timeout: limit, ..liars("stuck") }, &time, &reaper);
    let children = children_of(std::process::id());
    assert_eq!(children.len(), 2);
    drop(envs);
    assert_eq!(reaper.wait(), Vec::<String>::new(), "killed, they end");
    assert!(!children.iter().any(|pid| is_there(*pid)));
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new(), "no zombie is left");
    // Without a run, the thread that drops them waits as long.
    let envs = ProcessEnvs { close_timeout: limit, ..liars("stuck") };
    let since = Instant::now();
    drop(envs.make_vector(&CONTEXT, 6, &CallMonitor::new()).unwrap());
    assert!(since.elapsed() >= limit);
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new());
}

#[test]
fn processor_time_is_counted_while_a_child_runs_and_after_its_end() {
    const STEPS: u32 = 50;
    let (time, reaper) = (TimeLedger::new(), Reaper::new());
    let used = || time.read().iter().filter_map(|process| process.processor_secs).sum::<f64>();
    let mut least = 0.0;
    for _ in 0..2 {
        let mut envs = made_for_a_run(&liars("busy"), &time, &reaper);
        for _ in 0..STEPS {
            step(&mut *envs).unwrap();
        }
        // Two processes, each with two milliseconds a step. Of each the system says how long it was in its
        // own code and how long in the kernel's, both rounded down to a hundredth of a second.
        least += 2.0 * (f64::from(STEPS) * 0.002 - 0.02) - 1e-6;
        let running = used();
        assert!(running >= least, "{running} s of {least} s");
        drop(envs);
        reaper.wait();
        assert!(used() >= running.max(least), "{} s of {least} s are left", used());
    }
    let names: Vec<_> = time.read().into_iter().map(|process| (process.thread, process.n_threads)).collect();
    assert_eq!(names, [("env-process-1".to_owned(), 2), ("env-process-2".to_owned(), 2)]);
    assert!(time.is_closed(), "{:?}", time.read());
}

#[test]
fn a_child_that_dies_between_two_steps_is_not_blamed_for_the_last() {
    if !is_alone() {
        let output =
            alone("a_child_that_dies_between_two_steps_is_not_blamed_for_the_last").wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let mut envs = corridors(json!({})).make_vector(&CONTEXT, 6, &CallMonitor::new()).unwrap();
    envs.reset_all(ObsMut::F32(&mut [0.0; 12])).unwrap();
    step(&mut *envs).unwrap();
    // The one that was started last.
    let child = children_of(std::process::id()).into_iter().max().expect("two processes of three environments");
    assert!(Command::new("kill").args(["-9", &child.to_string()]).status().unwrap().success());
    assert!(within(Duration::from_secs(5), || !is_there(child)));
    let failure = step(&mut *envs).unwrap_err();
    assert!(failure.to_string().contains("was killed by signal 9"), "{failure}");
    // It had not taken the second step, and that of the others is not waited for.
    assert!(matches!(failure.place, FailurePlace::Step { step: 2, .. }), "{failure}");
    assert_eq!((failure.index, failure.steps_made), (3, 0));
}

#[test]
fn a_death_is_seen_although_somebody_else_holds_the_pipes() {
    // A process in a group of its own, with all the descriptors, that lives on.
    let marker = format!("620.{}", std::process::id());
    let envs = ProcessEnvs {
        start_timeout: Duration::from_secs(600),
        ..shell(&format!("setsid sleep {marker} & kill -9 $$"))
    };
    let since = Instant::now();
    let text = envs.make_vector(&CONTEXT, 1, &CallMonitor::new()).err().unwrap().to_string();
    assert!(text.contains("was killed by signal 9"), "{text}");
    assert!(since.elapsed() < Duration::from_secs(60), "the caller waited until start_timeout");
    let _ = Command::new("pkill").args(["-f", &format!("sleep {marker}")]).status();
}

#[test]
fn what_a_child_has_started_ends_with_it() {
    let marker = format!("61.{}", std::process::id());
    // It starts a process that would stay for a minute, and is none of the protocol.
    let error =
        shell(&format!("sleep {marker} & echo hello; sleep {marker}")).make_vector(&CONTEXT, 1, &CallMonitor::new());
    assert!(error.is_err());
    let is_sleeping = |pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(&format!("sleep\0{marker}"))
    };
    let left = || {
        let numbers = fs::read_dir("/proc").unwrap().flatten();
        numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_sleeping).count()
    };
    assert!(within(Duration::from_secs(5), || left() == 0), "{} processes are left", left());
}
