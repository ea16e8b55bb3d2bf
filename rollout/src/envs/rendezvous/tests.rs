#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::End;

use super::*;
use crate::check::check_multi_agent_env;
use crate::env::ActionRef;
use crate::vector::MultiAgentSlot;

const STAY: u32 = 0;

const LEFT: u32 = 3;

const RIGHT: u32 = 4;

/// A game that begins with the agents on the given cells.
fn begin(cells: [(i64, i64); 2]) -> MultiAgentSlot {
    struct Placed(Rendezvous, [(i64, i64); 2]);
    impl MultiAgentEnv for Placed {
        fn spec(&self) -> MultiAgentSpec {
            self.0.spec()
        }
        fn reset(&mut self, _: u64, agents: &mut Agents) -> Result<(), EnvError> {
            self.0.cells = self.1;
            self.0.observe(agents)
        }
        fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
            self.0.step(agents)
        }
    }
    let spec = Rendezvous::new().spec();
    let mut slot = MultiAgentSlot::new(Box::new(Placed(Rendezvous::new(), cells)), &spec);
    slot.reset(0).unwrap();
    slot
}

/// One step. Whether the episode is over.
fn act(slot: &mut MultiAgentSlot, actions: [u32; 2]) -> bool {
    for (agent, action) in actions.iter().enumerate() {
        assert!(slot.agents().states()[agent].acts_next, "both act in every step");
        slot.agents_mut().set_action(agent, ActionRef::Discrete(std::slice::from_ref(action))).unwrap();
    }
    slot.step(Some(30)).unwrap()
}

fn rewards(slot: &MultiAgentSlot) -> [f32; 2] {
    [0, 1].map(|agent| slot.agents().states()[agent].reward)
}

fn seen(slot: &MultiAgentSlot, agent: usize) -> Vec<f32> {
    slot.agents().states()[agent].obs.view().as_f32().unwrap().to_vec()
}

#[test]
fn rendezvous_keeps_the_rules_of_an_environment() {
    check_multi_agent_env(Rendezvous::new(), 1).unwrap();
}

#[test]
fn who_meet_both_earn_one_and_the_episode_ends() {
    let mut slot = begin([(2, 0), (2, 2)]);
    assert!(act(&mut slot, [RIGHT, LEFT]));
    assert_eq!(rewards(&slot), [1.0, 1.0]);
    assert_eq!([0, 1].map(|agent| slot.agents().states()[agent].end), [End::Terminated; 2]);
    assert!(act(&mut begin([(2, 0), (2, 1)]), [RIGHT, STAY]), "one of them is enough");
}

#[test]
fn to_swap_cells_is_not_to_meet_and_costs_both() {
    let mut slot = begin([(2, 0), (2, 1)]);
    assert!(!act(&mut slot, [RIGHT, LEFT]));
    assert_eq!(rewards(&slot), [-0.01, -0.01]);
    assert_eq!(seen(&slot, 0), [0.0, -0.5, 0.0, -1.0], "its own cell, then the other's");
    assert_eq!(seen(&slot, 1), [0.0, -1.0, 0.0, -0.5]);
}

#[test]
fn walls_stop_and_thirty_steps_cut_off() {
    let mut slot = begin([(0, 0), (4, 4)]);
    for step in 1..=30 {
        assert_eq!(act(&mut slot, [LEFT, RIGHT]), step == 30);
    }
    assert_eq!(seen(&slot, 0), [-1.0, -1.0, 1.0, 1.0]);
    assert_eq!([0, 1].map(|agent| slot.agents().states()[agent].end), [End::Truncated; 2]);
}

#[test]
fn every_seed_begins_apart_and_all_cells_are_begun_on() {
    let mut env = Rendezvous::new();
    let mut agents = Agents::new(&env.spec());
    let mut seen = [[false; 25]; 2];
    for seed in 0..500 {
        env.reset(seed, &mut agents).unwrap();
        assert_ne!(env.cells[0], env.cells[1]);
        for (agent, (row, column)) in env.cells.iter().enumerate() {
            seen[agent][(row * 5 + column) as usize] = true;
        }
    }
    assert_eq!(seen, [[true; 25]; 2]);
}
