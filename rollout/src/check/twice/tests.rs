#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicU32, Ordering};

use pronk_buffer::End;
use pronk_policy::Space;

use super::*;
use crate::check::check_env;
use crate::env::{ActionRef, AgentSpec, Agents, Env, EnvSpec, MultiAgentEnv, MultiAgentSpec, ObsMut, Step};
use crate::envs::{
    Acrobot, CartPole, Masked, MountainCar, MountainCarContinuous, Pendulum, Recall, Rendezvous, TicTacToe,
};

/// Episodes of five steps, with one planted leak.
#[derive(Default)]
struct Leaky {
    leak: &'static str,
    /// From 1.
    instance: u32,
    episode: u32,
    step: u32,
    first_seed: Option<u64>,
}

/// Instances made so far, for the leak of this name: tests run in parallel.
fn factory(leak: &'static str) -> impl Fn(&EnvContext) -> Leaky {
    let made = AtomicU32::new(0);
    move |_| Leaky { leak, instance: made.fetch_add(1, Ordering::Relaxed) + 1, ..Leaky::default() }
}

impl Leaky {
    fn observe(&self, mut obs: ObsMut<'_>) -> Result<(), EnvError> {
        static DRAWN: AtomicU32 = AtomicU32::new(0);
        let leak = match self.leak {
            "counter" => self.episode,
            "instance" if self.step == 2 => self.instance,
            "global" if self.step == 1 => DRAWN.fetch_add(1, Ordering::Relaxed),
            "final observation" if self.step == 5 => self.episode,
            "first seed" => self.first_seed.is_some_and(|seed| seed % 2 == 1).into(),
            _ => 0,
        };
        match self.leak {
            "byte" => {
                obs.reborrow().u8()?.copy_from_slice(&[self.step as u8, (self.step == 4) as u8 * self.episode as u8])
            }
            "sign of zero" => obs.write(&[0.0, if self.episode > 1 { -0.0 } else { 0.0 }])?,
            _ => obs.write(&[self.step as f32, leak as f32])?,
        }
        Ok(())
    }
}

impl Env for Leaky {
    fn spec(&self) -> EnvSpec {
        let floats = Space::boxed(vec![0.0; 2], vec![f32::INFINITY; 2], vec![2]).unwrap();
        EnvSpec {
            name: "Leaky".into(),
            observation: if self.leak == "byte" { Space::bytes(vec![2]).unwrap() } else { floats },
            action: Space::discrete(3).unwrap(),
            max_episode_steps: Some(if self.leak == "spec" { 5 + self.instance } else { 5 }),
            action_mask: self.leak == "mask",
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        (self.episode, self.step) = (self.episode + 1, 0);
        self.first_seed.get_or_insert(seed);
        if self.leak == "failure" && self.episode > 1 {
            return Err(EnvError::new("planted failure"));
        }
        self.observe(obs)
    }

    fn step(&mut self, _: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.step += 1;
        self.observe(obs)?;
        let later = self.episode > 1;
        let reward = if self.leak == "reward" && later && self.step == 3 { 0.25 } else { 1.0 };
        let ends = self.leak == "end" && later && self.step == 4;
        let panics = self.leak == "panic" && later && self.step == 2;
        assert!(!panics, "planted panic");
        Ok(Step { reward, end: if ends { End::Terminated } else { End::No } })
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        mask[2] = self.episode == 1;
        Ok(())
    }
}

#[test]
fn the_environments_of_the_library_pass() {
    check_env_twice(|_: &EnvContext| CartPole::new(), 3).unwrap();
    check_env_twice(|_: &EnvContext| MountainCar::new(), 3).unwrap();
    check_env_twice(|_: &EnvContext| MountainCarContinuous::new(), 3).unwrap();
    check_env_twice(|_: &EnvContext| Acrobot::new(), 3).unwrap();
    check_env_twice(|_: &EnvContext| Pendulum::new(), 3).unwrap();
    check_env_twice(|_: &EnvContext| Recall::new(3), 3).unwrap();
    check_env_twice(|_: &EnvContext| Masked::new(4, 9), 3).unwrap();
    check_env_twice(factory("none"), 3).unwrap();
    check_multi_agent_env_twice(|_: &EnvContext| Rendezvous::new(), 3).unwrap();
    check_multi_agent_env_twice(|_: &EnvContext| TicTacToe::new(), 3).unwrap();
}

#[test]
fn every_planted_leak_is_found_and_named() {
    for (leak, words) in [
        (
            "counter",
            "Leaky breaks a rule in reset with seed 0: observation element 1 is 1 in a fresh instance and 2 in one \
             that has played 1 other episode before: something survives its reset, or comes from outside the \
             environment",
        ),
        ("instance", "at step 2 of the episode with seed 0: observation element 1 is 2 in a fresh instance and 1 in"),
        ("global", "at step 1 of the episode with seed 0: observation element 1 is "),
        ("final observation", "at step 5 of the episode with seed 0: observation element 1 is 1 in a fresh instance"),
        ("sign of zero", "in reset with seed 0: observation element 1 is 0 in a fresh instance and -0 in one"),
        ("byte", "at step 4 of the episode with seed 0: observation element 1 is 1 in a fresh instance and 2 in one"),
        ("reward", "at step 3 of the episode with seed 0: the reward is 1 in a fresh instance and 0.25 in one"),
        (
            "end",
            "at step 4 of the episode with seed 0: the end of the episode is `No` in a fresh instance and `Terminated`",
        ),
        ("mask", "in reset with seed 0: action mask element 2 is true in a fresh instance and false in one"),
        ("spec", "Leaky breaks a rule: the spec is Leaky ("),
    ] {
        let found = check_env_twice(factory(leak), 5).expect_err("the leak is found").to_string();
        assert!(found.contains(words), "{leak}: {found}");
    }
}

/// What one instance alone cannot show.
#[test]
fn what_differs_between_instances_only_is_found_too() {
    let make = factory("instance");
    check_env(make(&EnvContext::default()), 5).unwrap();
    check_env_twice(make, 5).unwrap_err();
}

#[test]
fn a_seed_that_only_the_first_reset_takes_is_found_in_a_later_episode_at_the_latest() {
    for seed in 0..20 {
        let error = check_env_twice(factory("first seed"), seed);
        // All four first seeds are even, so the leak cannot show.
        let hidden = [3, 1, 2].map(|episode| derive_seed(seed, &[episode])).iter().all(|seed| seed % 2 == 0);
        assert_eq!(error.is_ok(), hidden, "{seed}: {error:?}");
    }
}

#[test]
fn a_failure_of_an_instance_that_has_played_is_named_with_its_cause() {
    for (leak, words) in [
        // Already its second episode, which is compared with the first of a fresh instance.
        (
            "failure",
            "in reset with seed 0: the outcome is no failure in a fresh instance and a failure (it failed: planted \
             failure) in one that has played 1 other episode before",
        ),
        (
            "panic",
            "at step 2 of the episode with seed 0: the outcome is no failure in a fresh instance and a failure (",
        ),
    ] {
        let found = check_env_twice(factory(leak), 5).expect_err("the failure is found").to_string();
        assert!(found.contains(words), "{leak}: {found}");
    }
}

#[test]
fn a_factory_that_fails_is_an_error() {
    let fails = |_: &EnvContext| Err::<CartPole, _>(EnvError::new("planted factory error"));
    let found = check_env_twice(fails, 0).unwrap_err().to_string();
    assert!(found.contains("it failed: planted factory error"), "{found}");
    let panics = |_: &EnvContext| -> CartPole { panic!("planted factory panic") };
    let found = check_env_twice(panics, 0).unwrap_err().to_string();
    assert!(found.contains("it panicked: planted factory panic"), "{found}");
    let second_fails = AtomicU32::new(0);
    let second_fails = |_: &EnvContext| match second_fails.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(CartPole::new()),
        _ => Err(EnvError::new("only one licence")),
    };
    let found = check_env_twice(second_fails, 0).unwrap_err().to_string();
    assert!(found.contains("it failed: only one licence"), "{found}");
}

/// Two agents that act together for four steps, with one planted leak.
struct LeakyDuet {
    leak: &'static str,
    episode: u32,
    step: u32,
}

impl LeakyDuet {
    fn observe(&self, agents: &mut Agents) -> Result<(), EnvError> {
        let leaks = |leak| self.leak == leak && self.episode > 1 && self.step == 2;
        agents.ask(0)?.write(&[self.step as f32])?;
        if leaks("turn") {
            return Ok(());
        }
        agents.ask(1)?.write(&[if leaks("observation") { 0.5 } else { 0.0 }])
    }
}

impl MultiAgentEnv for LeakyDuet {
    fn spec(&self) -> MultiAgentSpec {
        let agent = |name: &str| AgentSpec {
            name: name.into(),
            observation: Space::boxed(vec![0.0], vec![9.0], vec![1]).unwrap(),
            action: Space::discrete(3).unwrap(),
            action_mask: self.leak == "mask",
        };
        let agents = vec![agent("left"), agent("right")];
        MultiAgentSpec { name: "LeakyDuet".into(), agents, max_episode_steps: None }
    }

    fn reset(&mut self, _: u64, agents: &mut Agents) -> Result<(), EnvError> {
        (self.episode, self.step) = (self.episode + 1, 0);
        self.observe(agents)
    }

    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
        self.step += 1;
        let leaks = |leak| self.leak == leak && self.episode > 1 && self.step == 2;
        agents.reward(1, if leaks("reward") { 2.0 } else { 1.0 })?;
        if leaks("end") || self.step == 4 {
            return agents.terminate_all();
        }
        self.observe(agents)
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> Result<(), EnvError> {
        mask[0] = agent == 0 || self.episode == 1 || self.step < 2;
        Ok(())
    }
}

#[test]
fn every_planted_leak_of_several_agents_is_found_and_named() {
    let make = |leak| move |_: &EnvContext| LeakyDuet { leak, episode: 0, step: 0 };
    check_multi_agent_env_twice(make("none"), 5).unwrap();
    for (leak, words) in [
        ("observation", "observation element 0 of agent `right` is 0 in a fresh instance and 0.5 in one that has"),
        ("turn", "`acts next` of agent `right` is true in a fresh instance and false in one"),
        ("reward", "the reward of agent `right` is 1 in a fresh instance and 2 in one"),
        ("end", "`acts next` of agent `left` is true in a fresh instance and false in one"),
        ("mask", "action mask element 0 of agent `right` is true in a fresh instance and false in one"),
    ] {
        let found = check_multi_agent_env_twice(make(leak), 5).expect_err("the leak is found").to_string();
        let place = "LeakyDuet breaks a rule at step 2 of the episode with seed 0: ";
        assert!(found.starts_with(&format!("{place}{words}")), "{leak}: {found}");
    }
}
