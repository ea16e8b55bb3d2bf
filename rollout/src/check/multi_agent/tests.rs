#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_policy::Space;

use super::*;
use crate::env::{AgentSpec, Agents, EnvError};

/// Two agents in turns, in episodes of ten steps, with one planted fault.
struct Duet {
    fault: &'static str,
    step: u32,
    calls: u32,
}

fn duet(fault: &'static str) -> Duet {
    Duet { fault, step: 0, calls: 0 }
}

impl Duet {
    fn observe(&self, agents: &mut Agents) -> Result<(), EnvError> {
        let (turn, other) = (self.step as usize % 2, (self.step as usize + 1) % 2);
        let third = self.step == 3;
        let value = match self.fault {
            "nan" if third => f32::NAN,
            "out of bounds" if third => 2.0,
            "random" => self.calls as f32 / 1e6,
            _ => self.step as f32 / 1e6,
        };
        match self.fault {
            "nobody" if third => return Ok(()),
            "no such agent" if third => return agents.ask(2)?.write(&[value]),
            "short write" if third => return agents.ask(turn).map(|_| ()),
            "wrong type" if third => agents.ask(turn)?.u8()?.fill(0),
            _ => agents.ask(turn)?.write(&[value])?,
        }
        if self.fault != "blind" { agents.show(other)?.write(&[value]) } else { Ok(()) }
    }
}

impl MultiAgentEnv for Duet {
    fn spec(&self) -> MultiAgentSpec {
        let agent = |name: &str| AgentSpec {
            name: name.into(),
            observation: Space::boxed(vec![-1.0], vec![1.0], vec![1]).unwrap(),
            action: Space::discrete(3).unwrap(),
            action_mask: self.fault.starts_with("mask"),
        };
        let limit = (self.fault == "limited" || self.fault == "blind").then_some(7);
        let spec = MultiAgentSpec {
            name: "Duet".into(),
            agents: vec![agent("left"), agent("right")],
            max_episode_steps: limit,
        };
        match self.fault {
            "no name" => MultiAgentSpec { name: String::new(), ..spec },
            "no agent" => MultiAgentSpec { agents: Vec::new(), ..spec },
            "two of a name" => MultiAgentSpec { agents: vec![agent("left"), agent("left")], ..spec },
            "no step" => MultiAgentSpec { max_episode_steps: Some(0), ..spec },
            "changing" => MultiAgentSpec { name: format!("Duet{}", self.calls), ..spec },
            "panicking spec" => panic!("planted spec panic"),
            _ => spec,
        }
    }

    fn reset(&mut self, _seed: u64, agents: &mut Agents) -> Result<(), EnvError> {
        self.step = 0;
        self.calls += 1;
        if self.fault == "end in reset" {
            agents.terminate(0)?;
        }
        self.observe(agents)
    }

    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
        let turn = self.step as usize % 2;
        let action = agents.action(if self.fault == "out of turn" { 1 - turn } else { turn })?.discrete()?;
        assert!(action < 3, "the action is in its space");
        assert!(!self.fault.starts_with("mask") || action != self.step % 3, "the action is possible");
        self.step += 1;
        self.calls += 1;
        let third = self.step == 3;
        match self.fault {
            "error" if third => return Err(EnvError::new("planted step error")),
            "panic" if third => panic!("planted step panic"),
            "reward" if third => agents.reward(0, f32::NAN)?,
            "asked after its end" if third => agents.terminate(1)?,
            "shown after its end" | "paid after its end" | "ends twice" | "alone" if self.step == 2 => {
                agents.terminate(1)?;
                return agents.ask(0)?.write(&[0.0]);
            }
            "alone" if third => return agents.truncate(0),
            "shown after its end" if third => return agents.show(1)?.write(&[0.0]),
            "paid after its end" if third => agents.reward(1, 1.0)?,
            "ends twice" if third => agents.truncate(1)?,
            _ => agents.reward(turn, 1.0)?,
        }
        if self.step == 10 && self.fault != "endless" {
            return agents.terminate_all();
        }
        self.observe(agents)
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> Result<(), EnvError> {
        assert_eq!(agent, self.step as usize % 2, "only who is asked to act has a mask");
        mask[self.step as usize % 3] = false;
        match (self.fault, self.step) {
            ("mask error", 3) => return Err(EnvError::new("planted mask error")),
            ("mask without a way", 3) => mask.fill(false),
            _ => {}
        }
        Ok(())
    }
}

#[test]
fn an_environment_that_keeps_the_rules_passes() {
    for fault in ["none", "limited", "mask"] {
        check_multi_agent_env(duet(fault), 0).unwrap();
    }
}

#[test]
fn every_planted_fault_is_found_and_named() {
    for (fault, words) in [
        ("nan", "at step 3 of the episode with seed 0: agent `left`: observation element 0 is NaN"),
        ("out of bounds", "at step 3 of the episode with seed 0: agent `left`: observation element 0 is 2, outside"),
        ("short write", "at step 3 of the episode with seed 0: agent `right`: observation element 0 was not written"),
        ("wrong type", "it failed: the environment writes u8 observations but its space has f32 elements"),
        ("random", "the same seed and actions gave another episode"),
        (
            "nobody",
            "at step 3 of the episode with seed 0: it failed: no agent is asked to act, and `left`, `right` did not",
        ),
        ("no such agent", "it failed: there is no agent 2: they are numbered from 0, and there are 2"),
        ("blind", "at step 7 of the episode with seed 0: agent `left`: it failed: it is truncated, but was shown no"),
        ("end in reset", "in reset with seed 0: it failed: agent `left` ends in the reset"),
        ("out of turn", "at step 1 of the episode with seed 0: it failed: agent `right` does not act in this step"),
        ("error", "at step 3 of the episode with seed 0: it failed: planted step error"),
        ("panic", "at step 3 of the episode with seed 0: it panicked: planted step panic"),
        ("reward", "at step 3 of the episode with seed 0: agent `left`: the reward is NaN"),
        (
            "asked after its end",
            "at step 3 of the episode with seed 0: it failed: agent `right` is asked to act after its",
        ),
        (
            "shown after its end",
            "at step 3 of the episode with seed 0: it failed: agent `right` is shown an observation after",
        ),
        (
            "paid after its end",
            "at step 3 of the episode with seed 0: it failed: agent `right` is rewarded after its end",
        ),
        ("ends twice", "at step 3 of the episode with seed 0: it failed: agent `right` ends a second time"),
        ("alone", "agent `left`: it failed: it is truncated, but was shown no observation since it last acted"),
        ("endless", "the episode did not end in 10000 steps and max_episode_steps is None"),
        ("mask error", "at step 3 of the episode with seed 0: agent `right`: it failed: planted mask error"),
        ("mask without a way", "agent `right`: action_mask leaves nothing possible of choice 0"),
        ("no name", "the spec is invalid: the name is empty"),
        ("no agent", "the spec is invalid: there is no agent"),
        ("two of a name", "the spec is invalid: two agents are called `left`"),
        ("no step", "the spec is invalid: agent `left`: max_episode_steps is 0"),
        ("changing", "the spec changed"),
        ("panicking spec", "it panicked: planted spec panic"),
    ] {
        let found = check_multi_agent_env(duet(fault), 5).expect_err("the fault is found").to_string();
        assert!(found.contains(words), "{fault}: {found}");
    }
}
