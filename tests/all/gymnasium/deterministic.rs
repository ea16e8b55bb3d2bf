//! Environments in processes that honour their seeds are part of the promise of deterministic admission.

use pronk::config::Admission;
use pronk::env_process::{Gymnasium, ProcessEnvs};
use pronk::prelude::*;
use pronk::{MultiAgentConfig, Resume, Run, check_env_twice};
use serde_json::json;

use super::{gymnasium, pettingzoo, python, quiet};
use crate::deterministic::deterministic;
use crate::fixtures::{small, with, without_hanging};
use crate::resume_exact;

fn trained(envs: ProcessEnvs, env_steps: u64) -> Run {
    let config = with(small(2), |config| {
        config.learner.admission = Admission::Deterministic { lag: 1 };
        config.learner.learner_queue_size = None;
        config.learner.train_batch_size = 32;
        config.results.min_sample_timesteps_per_iteration = 100;
        config.results.weights_digest = true;
    });
    let stop = StopWhen { env_steps: Some(env_steps), ..StopWhen::default() };
    without_hanging("a run of processes", move || Trainer::new(config, envs).unwrap().run(stop).unwrap())
}

fn check_repeats(what: &str, make: impl Fn() -> ProcessEnvs, env_steps: u64) {
    let (one, other) = (trained(make(), env_steps), trained(make(), env_steps));
    assert_eq!(one.steps.sampled.env, other.steps.sampled.env, "{what}");
    assert_eq!(one.result.dict.get("digest_chain"), other.result.dict.get("digest_chain"), "{what}");
    assert_eq!(one.weights_digest(), other.weights_digest(), "{what}");
}

#[test]
fn runs_of_processes_repeat() {
    check_repeats("CartPole-v1", || gymnasium("CartPole-v1", json!({})), 1_600);
    let pong = || quiet(Gymnasium { python: python(), ..Gymnasium::atari("Pong") });
    check_repeats("Pong", pong, 320);
}

#[test]
fn runs_of_processes_go_on_in_the_middle_of_episodes() {
    let one_process = ProcessEnvs { envs_per_process: 4, ..gymnasium("CartPole-v1", json!({})) };
    resume_exact::check_env("CartPole-v1", &deterministic(2, 1), &one_process);
    let builder = || {
        let agents = MultiAgentConfig::separate([("runner", "runner"), ("chaser", "chaser")]);
        Trainer::builder(deterministic(1, 1)).multi_agent_env(pettingzoo("pronk_test_parallel", json!({})), agents)
    };
    resume_exact::check(
        "a game of tag",
        || builder().build(),
        |folder| builder().checkpoints(folder).resume(Resume::auto()).build().unwrap(),
    );
}

#[test]
fn what_survives_a_reset_in_a_process_is_named() {
    let envs = gymnasium("CartPole-v1", json!({}));
    check_env_twice(|_: &EnvContext| envs.env().map_err(EnvError::new), 3).unwrap();
    // Its observation has the number of its episode.
    let envs = gymnasium("pronk_test_envs:Faulty-v0", json!({}));
    let error = check_env_twice(|_: &EnvContext| envs.env().map_err(EnvError::new), 3).unwrap_err().to_string();
    assert!(error.contains("in a fresh instance and"), "{error}");
}
