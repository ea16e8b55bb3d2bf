//! Whatever a program does that is not as agreed is an error that says what, where and what to do.

use std::time::{Duration, Instant};

use pronk_buffer::{End, FinalObs, ObsKind};
use pronk_env_process::{ProcessEnvs, Program};
use pronk_rollout::{
    ActionRef, CallMonitor, EnvFactory, EnvFailure, EnvFailureCause, FailurePlace, ObsMut, VectorEnv, VectorStep,
};
use serde_json::json;

use crate::corridor::{CONTEXT, corridors, liars, shell};

const N_ENVS: usize = 5;

/// Why they cannot be made.
fn refusal(envs: &ProcessEnvs) -> String {
    match envs.make_vector(&CONTEXT, N_ENVS, &CallMonitor::new()) {
        Err(failure) => {
            assert_eq!(failure.place, FailurePlace::Make);
            failure.to_string()
        }
        Ok(_) => panic!("it was made"),
    }
}

fn step(envs: &mut dyn VectorEnv) -> Result<(), EnvFailure> {
    step_with(envs, &[1; N_ENVS])
}

fn step_with(envs: &mut dyn VectorEnv, actions: &[u32]) -> Result<(), EnvFailure> {
    let mut final_obs = FinalObs::new(ObsKind::F32, 2);
    let (mut obs, mut rewards, mut ends) = ([0.0; 2 * N_ENVS], [0.0; N_ENVS], [End::No; N_ENVS]);
    let out = VectorStep {
        t: 0,
        obs: ObsMut::F32(&mut obs),
        rewards: &mut rewards,
        ends: &mut ends,
        final_obs: &mut final_obs,
    };
    envs.step(ActionRef::Discrete(actions), out)
}

/// What goes wrong in the first step.
fn failure(envs: &ProcessEnvs) -> EnvFailure {
    let mut envs = envs.make_vector(&CONTEXT, N_ENVS, &CallMonitor::new()).unwrap();
    envs.reset_all(ObsMut::F32(&mut [0.0; 2 * N_ENVS])).unwrap();
    let failure = step(&mut *envs).unwrap_err();
    assert!(matches!(failure.place, FailurePlace::Step { step: 1, .. }), "{failure}");
    assert_eq!((failure.worker, failure.incarnation, failure.env.as_str()), (3, 1, "Corridor"));
    failure
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

#[test]
fn a_program_that_is_not_there_cannot_be_started() {
    says(
        &refusal(&ProcessEnvs::new(Program::new("/nowhere/simulator"))),
        &["environment 0 of rollout-3", "cannot start `/nowhere/simulator`: No such file", "check the path"],
    );
}

#[test]
fn a_program_that_is_no_child_is_found_out() {
    says(&refusal(&shell("echo hello")), &["`/bin/sh` broke the protocol", r#"it wrote "hello" where a line of JSON"#]);
    says(&refusal(&shell("printf hello")), &[r#"it wrote "hello" where a line of JSON was due, and ended"#]);
    says(&refusal(&shell("echo no licence >&2; exit 3")), &["exited with status 3; its last words:\nno licence"]);
    says(&refusal(&shell("kill -11 $$")), &["was killed by signal 11 (SIGSEGV"]);
    says(&refusal(&shell("exec 1>&-; sleep 60")), &["closed its standard input or output and continued"]);
}

#[test]
fn a_program_that_does_not_answer_is_waited_for_so_long() {
    let asked = Instant::now();
    let envs = ProcessEnvs { start_timeout: Duration::from_millis(700), ..shell("echo thinking >&2; sleep 600") };
    let words = [
        "has said nothing for",
        "while it made its environments, and was killed: raise `start_timeout`",
        "`env_options.start_timeout`",
        "0.7 s for each environment",
        "thinking",
    ];
    says(&refusal(&envs), &words);
    assert!(asked.elapsed() < Duration::from_secs(60), "the caller waited until the program ended");
}

#[test]
fn limits_are_for_each_environment_and_not_for_all_of_a_process() {
    // Three environments of a process take 3.6 s to be made, and again to begin; the one of the next process
    // has answered long before it is looked at.
    let limit = Duration::from_secs(3);
    let envs = ProcessEnvs { start_timeout: limit, step_timeout: limit, ..liars("naps") };
    let mut envs = envs.make_vector(&CONTEXT, 4, &CallMonitor::new()).unwrap();
    envs.reset_all(ObsMut::F32(&mut [0.0; 2 * 4])).unwrap();
}

#[test]
fn a_wait_ends_when_the_worker_has_to_give_up() {
    let asked = Instant::now();
    let monitor = CallMonitor::new();
    monitor.give_up_at(Instant::now() + Duration::from_millis(500));
    // The earlier of two times counts.
    monitor.give_up_at(Instant::now() + Duration::from_secs(3600));
    let made = shell("sleep 600").make_vector(&CONTEXT, N_ENVS, &monitor);
    says(&made.err().unwrap().to_string(), &["was killed with the end of the run, while it made its environments"]);
    assert!(asked.elapsed() < Duration::from_secs(60), "the caller waited for the program");
}

#[test]
fn a_child_that_does_not_listen_holds_nobody_up() {
    let mut envs = shell("sleep 60");
    // More than a pipe takes.
    envs.program.config = [("text".to_owned(), json!("x".repeat(1 << 20)))].into_iter().collect();
    envs.start_timeout = Duration::from_millis(200);
    says(&refusal(&envs), &["has said nothing for"]);
}

#[test]
fn lies_of_the_handshake_are_named() {
    says(&refusal(&liars("protocol")), &["it speaks version 2 of the protocol, this is version 1"]);
    says(&refusal(&liars("json")), &[r#"it wrote "hello" where a line of JSON was due"#]);
    says(&refusal(&liars("size")), &["the memory has 65984 bytes, it computed 64"]);
    says(&refusal(&liars("long")), &["its line is longer than 67108864 bytes and begins \"xxx"]);
    says(&refusal(&corridors(json!({ "length": 1 }))), &["length must be a whole number from 3", "correct the config"]);
}

#[test]
fn lies_of_the_conversation_are_named() {
    let lies: [(&str, &[&str]); 6] = [
        ("answer", &["broke the protocol: it answered 'x' where `k` or `e` was due"]),
        ("extra", &[r#"it wrote "kk" where one byte was due"#]),
        ("ends", &["it wrote 7 where an end was due: 0 to 3"]),
        ("message", &["its message is said to have 4000000000 bytes"]),
        ("env", &["environment 0 of rollout-3", ": lost"]),
        ("quiet", &["closed its standard input or output and continued"]),
    ];
    for (lie, words) in lies {
        let failure = failure(&liars(lie));
        says(&failure.to_string(), words);
        assert_eq!(failure.cause.key(), "env_error");
    }
}

#[test]
fn an_answer_that_nobody_asked_for_is_not_taken_for_the_next() {
    let mut envs = liars("unasked").make_vector(&CONTEXT, N_ENVS, &CallMonitor::new()).unwrap();
    envs.reset_all(ObsMut::F32(&mut [0.0; 2 * N_ENVS])).unwrap();
    // However slow the child is, its answer to the reset is one more than was due.
    let failed = (0..5).find_map(|_| step(&mut *envs).err()).expect("it was taken for an answer");
    let text = failed.to_string();
    assert!(text.contains("it wrote \"k\" before it was asked") || text.contains("where one byte was due"), "{text}");
}

#[test]
fn numbers_that_are_none_and_masks_without_a_way_are_found() {
    assert!(matches!(failure(&liars("nan")).cause, EnvFailureCause::NonFiniteReward { value } if value.is_nan()));
    let mut envs = liars("mask").make_vector(&CONTEXT, N_ENVS, &CallMonitor::new()).unwrap();
    envs.reset_all(ObsMut::F32(&mut [0.0; 2 * N_ENVS])).unwrap();
    step(&mut *envs).unwrap();
    let failure = envs.action_masks(&mut [true; 2 * N_ENVS]).unwrap_err();
    assert!(matches!(failure.cause, EnvFailureCause::NothingPossible { choice: 0 }), "{failure}");
    assert!(matches!(failure.place, FailurePlace::Mask { step: 1, .. }), "{failure}");
}

#[test]
fn a_child_that_hangs_is_given_up_with_what_it_was_last_seen_in() {
    // Both of two processes hang, and print something before or do not.
    for (lie, last_words) in [("late", "; its last words:\nlate"), ("mute", "")] {
        let envs = ProcessEnvs { step_timeout: Duration::from_secs(1), ..liars(lie) };
        let asked = Instant::now();
        let failure = failure(&envs);
        assert!(asked.elapsed() < Duration::from_secs(60), "{lie}: the caller waited for the answer");
        assert_eq!(failure.cause.key(), "env_hang", "{lie}");
        let why = "while its environments took a step, and was killed: raise `step_timeout`";
        says(&failure.to_string(), &["it has not returned for", "(last observation [", why, last_words]);
    }
}

#[test]
fn the_memory_cannot_be_taken_away() {
    says(&failure(&liars("resize")).to_string(), &["refused"]);
}

#[test]
fn an_action_that_is_none_is_refused_in_the_words_of_the_child() {
    let mut envs = corridors(json!({})).make_vector(&CONTEXT, N_ENVS, &CallMonitor::new()).unwrap();
    envs.reset_all(ObsMut::F32(&mut [0.0; 2 * N_ENVS])).unwrap();
    let failure = step_with(&mut *envs, &[1, 1, 1, 1, 9]).unwrap_err();
    // The last environment of the second process: four had made their step.
    assert_eq!((failure.index, failure.steps_made), (4, 4));
    says(&failure.to_string(), &["environment 4", "action 9 is neither 0 (left) nor 1 (right)"]);
}

#[test]
fn settings_that_cannot_work_are_refused() {
    says(&refusal(&ProcessEnvs { envs_per_process: 0, ..liars("") }), &["envs_per_process is 0"]);
    says(&refusal(&ProcessEnvs { clip_rewards: Some(-1.0), ..liars("") }), &["clip_rewards is -1"]);
    let none = corridors(json!({})).make_vector(&CONTEXT, 0, &CallMonitor::new());
    says(&none.err().unwrap().to_string(), &["at least one environment"]);
}
