#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::End;
use pronk_policy::Space;

use super::*;
use crate::env::{ActionRef, EnvError, ObsMut, Step};
use crate::testing::{Counter, Fault};

/// An environment that keeps the rules but for one planted fault.
struct Walk {
    fault: &'static str,
    position: f32,
    steps: u32,
    calls: u32,
}

fn walk(fault: &'static str) -> Walk {
    Walk { fault, position: 0.0, steps: 0, calls: 0 }
}

impl Walk {
    fn observe(&self, obs: ObsMut<'_>) -> Result<(), EnvError> {
        match self.fault {
            "short write" => obs.f32()?[..1].fill(self.position),
            "short write, checked" => obs.write(&[self.position])?,
            "long write" => obs.f32()?.copy_from_slice(&[0.0; 3]),
            "bytes" => obs.u8()?.fill(0),
            "nan" => obs.write(&[self.position, f32::NAN])?,
            "infinite" => obs.write(&[f32::NEG_INFINITY, 0.0])?,
            "out of bounds" => obs.write(&[self.position, 1.5])?,
            _ => obs.write(&[self.position, 0.0])?,
        }
        Ok(())
    }
}

impl Env for Walk {
    fn spec(&self) -> EnvSpec {
        let spec = EnvSpec {
            name: "Walk".into(),
            observation: Space::boxed(vec![-1.0; 2], vec![1.0; 2], vec![2]).unwrap(),
            action: Space::multi_discrete(vec![3, 2]).unwrap(),
            max_episode_steps: None,
            action_mask: self.fault.starts_with("mask"),
        };
        match self.fault {
            "no name" => EnvSpec { name: String::new(), ..spec },
            "no step" => EnvSpec { max_episode_steps: Some(0), ..spec },
            "no action" => EnvSpec { action: Space::Discrete { n: 0 }, ..spec },
            "endless, limited" => EnvSpec { max_episode_steps: Some(7), ..spec },
            "mask of numbers" => {
                EnvSpec { action: Space::boxed(vec![-1.0; 2], vec![1.0; 2], vec![2]).unwrap(), ..spec }
            }
            "changing" => EnvSpec { name: format!("Walk{}", self.calls), ..spec },
            "panicking spec" => panic!("planted spec panic"),
            _ => spec,
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        let zero_is_no_seed = self.fault == "zero is no seed" && seed == 0;
        self.position = if zero_is_no_seed { self.calls as f32 / 1e6 } else { (seed % 100) as f32 / 1000.0 };
        self.steps = 0;
        self.calls += 1;
        self.observe(obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let ActionRef::Discrete(&[first, second]) = action else {
            return Err(EnvError::new("two indices expected"));
        };
        assert!(first < 3 && second < 2, "the action is in its space");
        let walled = self.fault.starts_with("mask") && self.steps.is_multiple_of(2);
        assert!(!walled || (first != 1 && second != 0), "the action is possible");
        self.calls += 1;
        self.steps += 1;
        let endless = self.fault.starts_with("endless");
        assert!(endless || self.steps <= 20, "a step after the end");
        self.position = (self.position + first as f32 / 1000.0) % 1.0;
        if self.fault == "random" {
            self.position = self.calls as f32 / 1e6;
        }
        self.observe(obs)?;
        Ok(Step {
            reward: if self.fault == "reward" && self.steps == 3 { f32::NAN } else { 1.0 },
            end: if self.steps < 20 || endless { End::No } else { End::Terminated },
        })
    }

    /// In every other state, 1 of the first choice and 0 of the second are impossible.
    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        assert!(self.fault.starts_with("mask"), "a mask that is not announced is not asked for");
        assert!(self.steps < 20, "nothing is to be done after the end");
        match self.fault {
            "mask error" => return Err(EnvError::new("planted mask error")),
            "mask panic" => panic!("planted mask panic"),
            "mask without a way" if self.steps == 3 => mask[3..].fill(false),
            "mask, random" if self.calls.is_multiple_of(4) => mask[0] = false,
            _ => {}
        }
        if self.steps.is_multiple_of(2) {
            (mask[1], mask[3]) = (false, false);
        }
        Ok(())
    }

    fn save(&self) -> Option<Vec<u8>> {
        let state = [self.position.to_bits(), self.steps].map(u32::to_le_bytes);
        self.fault.contains("save").then(|| state.concat())
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        if self.fault == "save, refused" {
            return Err(EnvError::new("planted refusal"));
        }
        let number = |at: usize| u32::from_le_bytes(state[at..at + 4].try_into().unwrap());
        self.position = f32::from_bits(number(0));
        if self.fault != "save without the steps" {
            self.steps = number(4);
        }
        Ok(())
    }
}

fn fault_of(env: impl Env) -> String {
    check_env(env, 5).expect_err("the fault is found").to_string()
}

#[test]
fn an_environment_that_keeps_the_rules_passes() {
    check_env(walk("none"), 0).unwrap();
    check_env(walk("endless, limited"), 0).unwrap();
    check_env(walk("mask"), 0).unwrap();
    check_env(walk("save"), 0).unwrap();
    check_env(walk("mask and save"), 0).unwrap();
}

#[test]
fn every_planted_fault_is_found_and_named() {
    for (fault, words) in [
        ("short write", "in reset with seed 0: observation element 1 was not written"),
        (
            "short write, checked",
            "in reset with seed 0: it failed: the environment writes 1 observation values but its space has 2",
        ),
        ("long write", "in reset with seed 0: it panicked: "),
        (
            "bytes",
            "in reset with seed 0: it failed: the environment writes u8 observations but its space has f32 elements",
        ),
        ("nan", "in reset with seed 0: observation element 1 is NaN"),
        ("infinite", "in reset with seed 0: observation element 0 is -inf"),
        ("out of bounds", "in reset with seed 0: observation element 1 is 1.5, outside its bounds -1 to 1"),
        ("reward", "at step 3 of the episode with seed 0: the reward is NaN"),
        ("random", "at step 1 of the episode with seed 0: the same seed and actions gave another episode"),
        (
            "save, refused",
            "at step 10 of the episode with seed 0: it refused the state that it had saved after 10 steps",
        ),
        ("save without the steps", "with seed 0: saved after 10 steps and loaded, the episode went on otherwise"),
        ("zero is no seed", "in reset with seed 0: the same seed and actions gave another episode"),
        ("endless", "at step 10000 of the episode with seed 0: the episode did not end in 10000 steps"),
        ("no name", "the spec is invalid: the name is empty"),
        ("no step", "the spec is invalid: max_episode_steps is 0"),
        ("no action", "the spec is invalid: action space"),
        (
            "mask of numbers",
            "the spec is invalid: action_mask is set, but actions of Box(-1..=1, [2], f32) are continuous",
        ),
        ("mask error", "in reset with seed 0: it failed: planted mask error"),
        ("mask panic", "in reset with seed 0: it panicked: planted mask panic"),
        ("mask without a way", "at step 3 of the episode with seed 0: action_mask leaves nothing possible of choice 1"),
        ("mask, random", "the same seed and actions gave another episode"),
        ("changing", "the spec changed"),
        ("panicking spec", "it panicked: planted spec panic"),
    ] {
        let found = fault_of(walk(fault));
        assert!(found.contains(words), "{fault}: {found}");
    }
}

#[test]
fn a_byte_that_is_not_written_is_found() {
    struct HalfAnImage;
    impl Env for HalfAnImage {
        fn spec(&self) -> EnvSpec {
            EnvSpec {
                name: "HalfAnImage".into(),
                observation: Space::bytes(vec![2, 2]).unwrap(),
                action: Space::boxed(vec![-1.0], vec![f32::INFINITY], vec![1]).unwrap(),
                max_episode_steps: Some(3),
                action_mask: false,
            }
        }
        fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
            obs.u8()?.fill(7);
            Ok(())
        }
        fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
            assert!(action.continuous()?[0] >= -1.0);
            obs.u8()?[..2].fill(7);
            Ok(Step { reward: 0.0, end: End::No })
        }
    }
    let found = fault_of(HalfAnImage);
    assert!(found.contains("at step 1") && found.contains("the observation is not written whole"), "{found}");
}

#[test]
fn errors_and_panics_are_faults() {
    let found = fault_of(Counter::of_three().with_fault(Fault::StepErr(2)));
    assert!(
        found.contains("Counter breaks a rule at step 2") && found.contains("it failed: planted step error"),
        "{found}"
    );
    let found = fault_of(Counter::of_three().with_fault(Fault::ResetPanic(2)));
    assert!(found.contains("in reset") && found.contains("it panicked: planted reset panic"), "{found}");
}
