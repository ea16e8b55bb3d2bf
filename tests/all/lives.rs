//! A run that goes on from a checkpoint goes on with other episodes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use pronk::envs::{CartPole, TicTacToe};
use pronk::prelude::*;
use pronk::rollout::{Agents, MultiAgentSpec};
use pronk::{Checkpoint, MultiAgentConfig, MultiAgentEnv, Run};

use crate::fixtures::{iterations, only, small};

/// How the episodes of a run began: seed, and the bits of the first observation.
type Beginnings = Arc<Mutex<Vec<(u64, Vec<u32>)>>>;

/// An environment that writes down how its episodes begin.
struct Noted<E> {
    inner: E,
    beginnings: Beginnings,
}

impl Env for Noted<CartPole> {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, mut obs: ObsMut<'_>) -> Result<(), EnvError> {
        let len = obs.len();
        self.inner.reset(seed, obs.part(0, len))?;
        let first = obs.f32()?.iter().map(|number| number.to_bits()).collect();
        self.beginnings.lock().unwrap().push((seed, first));
        Ok(())
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.inner.step(action, obs)
    }
}

impl MultiAgentEnv for Noted<TicTacToe> {
    fn spec(&self) -> MultiAgentSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, agents: &mut Agents) -> Result<(), EnvError> {
        self.beginnings.lock().unwrap().push((seed, Vec::new()));
        self.inner.reset(seed, agents)
    }

    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
        self.inner.step(agents)
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> Result<(), EnvError> {
        self.inner.action_mask(agent, mask)
    }
}

/// Trains for a while and says how every episode began.
fn train(workers: usize, from: Option<&Checkpoint>) -> (Run, Vec<(u64, Vec<u32>)>) {
    let beginnings = Beginnings::default();
    let notes = Arc::clone(&beginnings);
    let make = move |_: &EnvContext| Noted { inner: CartPole::new(), beginnings: Arc::clone(&notes) };
    let trainer = match from {
        Some(checkpoint) => Trainer::builder(small(workers)).env(make).resume(checkpoint).build(),
        None => Trainer::new(small(workers), make),
    };
    let run = trainer.unwrap().run(StopWhen { env_steps: Some(3_000), ..StopWhen::default() }).unwrap();
    let beginnings = beginnings.lock().unwrap().clone();
    (run, beginnings)
}

/// No episode of one begins as one of another.
fn assert_disjoint<T: Ord + std::fmt::Debug>(lives: [BTreeSet<T>; 3]) {
    let [first, second, third] = &lives;
    for (one, other) in [(first, second), (first, third), (second, third)] {
        let again: Vec<_> = one.intersection(other).collect();
        assert!(again.is_empty(), "{} of {} episodes are played again, such as {:?}", again.len(), one.len(), again[0]);
    }
}

#[test]
fn a_resumed_run_plays_no_episode_again() {
    for workers in [0, 2] {
        let (run, first) = train(workers, None);
        assert_eq!(only(&run).life, 0);
        let saved = tempfile::tempdir().unwrap();
        run.save(saved.path()).unwrap();
        let checkpoint = Checkpoint::load(saved.path()).unwrap();
        let (resumed, second) = train(workers, Some(&checkpoint));
        assert_eq!(only(&resumed).life, 1);
        assert_eq!([&run, &resumed].map(|run| run.result.dict.get("life").unwrap().as_u64()), [Some(0), Some(1)]);
        let (_, third) = train(workers, Some(&only(&resumed)));
        assert!(first.len() > 50 && second.len() > 10, "{} and {} episodes", first.len(), second.len());
        let lives = [&first, &second, &third];
        assert_disjoint(lives.map(|life| life.iter().map(|(seed, _)| *seed).collect()));
        assert_disjoint(lives.map(|life| life.iter().map(|(_, obs)| obs.clone()).collect()));
    }
}

#[test]
fn a_run_is_resumed_in_the_same_way_each_time_without_threads() {
    let (run, _) = train(0, None);
    let again = || train(0, Some(&only(&run)));
    let ((one, episodes), (other, same_episodes)) = (again(), again());
    assert_eq!(episodes, same_episodes);
    assert_eq!(only(&one).state.params.values(), only(&other).state.params.values());
}

#[test]
fn policies_that_go_on_play_no_episode_again() {
    let life = |from: Option<&Checkpoint>| {
        let beginnings = Beginnings::default();
        let notes = Arc::clone(&beginnings);
        let make = move |_: &EnvContext| Noted { inner: TicTacToe::new(), beginnings: Arc::clone(&notes) };
        let mut agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
        if let Some(checkpoint) = from {
            // The other one begins anew; still the run goes on from somewhere.
            agents.policies.insert("crosses".into(), Some(checkpoint.clone()));
        }
        let trainer = Trainer::builder(small(0)).multi_agent_env(make, agents).build().unwrap();
        let run = trainer.run(iterations(20)).unwrap();
        let seeds: BTreeSet<u64> = beginnings.lock().unwrap().iter().map(|(seed, _)| *seed).collect();
        (run.checkpoints["crosses"].clone(), seeds)
    };
    let (crosses, first) = life(None);
    let (on, second) = life(Some(&crosses));
    assert_eq!((crosses.life, on.life), (0, 1));
    let (_, third) = life(Some(&on));
    assert!(first.len() > 10, "{} games", first.len());
    assert_disjoint([first, second, third]);
}
