//! Bytes that are no pixels: scaled by their bounds, and as pixels where a run, a policy or a record is of
//! before.

use pronk::config::ObservationFilter;
use pronk::policy::{CpuNetwork, NetworkSpec, ObsDtype};
use pronk::prelude::*;
use pronk::rollout::{AgentSpec, Agents, MultiAgentSpec};
use pronk::{
    ActionSelection, AlgorithmConfig, Checkpoint, DeviceSpec, MultiAgentConfig, MultiAgentEnv, Network, PolicyError,
    PpoConfig, Recording, Replay, Run, Space, TrainError, evaluate, evaluate_agents,
};
use tempfile::TempDir;

use crate::fixtures::{iterations, only, small};

/// Shows one of five codes and pays for naming it, ten times.
struct Codes {
    /// What its space says of the bytes, which go up to 4.
    highest: f32,
    code: u8,
    steps: u32,
    seed: u64,
}

impl Codes {
    /// Before bytes were scaled by their bounds, the network read these as it now reads those of pixels.
    fn before() -> Self {
        Self { highest: 255.0, code: 0, steps: 0, seed: 0 }
    }

    fn now() -> Self {
        Self { highest: 4.0, ..Self::before() }
    }

    fn show(&mut self, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.code = (self.seed >> 60) as u8 % 5;
        obs.u8()?.copy_from_slice(&[self.code, 4 - self.code]);
        Ok(())
    }
}

impl Env for Codes {
    fn spec(&self) -> EnvSpec {
        let (low, high) = (vec![0.0; 2], vec![self.highest; 2]);
        EnvSpec {
            name: "Codes".to_owned(),
            observation: Space::Box { low, high, shape: vec![2], dtype: ObsDtype::U8 },
            action: Space::Discrete { n: 5 },
            max_episode_steps: None,
            action_mask: false,
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        (self.seed, self.steps) = (seed, 0);
        self.show(obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let reward = f32::from(action.discrete()? == u32::from(self.code));
        self.steps += 1;
        self.show(obs)?;
        Ok(Step { reward, end: if self.steps == 10 { End::Terminated } else { End::No } })
    }
}

fn now(_: &EnvContext) -> Codes {
    Codes::now()
}

fn before(_: &EnvContext) -> Codes {
    Codes::before()
}

/// What `pronk config gymnasium:…` prints, smaller.
fn learning(seed: u64) -> TrainerConfig {
    let mut config = small(0);
    config.seed = seed;
    config.algorithm =
        AlgorithmConfig::Ppo(PpoConfig { gamma: 0.5, vf_clip_param: None, kl_coeff: 0.0, ..PpoConfig::default() });
    config.workers.num_envs_per_worker = 8;
    config.workers.rollout_fragment_length = 32;
    config.workers.observation_filter = ObservationFilter::MeanStdFilter;
    config.learner.train_batch_size = 256;
    config.learner.num_sgd_iter = 8;
    config.learner.sgd_minibatch_size = std::num::NonZeroUsize::new(64);
    config.learner.lr = 0.003;
    config.model.fcnet_hiddens = vec![32, 32];
    config
}

#[test]
fn codes_are_learned_in_bytes_also_with_a_filter_of_observations() {
    for seed in 0..3 {
        let run = Trainer::new(learning(seed), now).unwrap();
        let run = run.run(StopWhen { env_steps: Some(20_000), ..StopWhen::default() }).unwrap();
        let checkpoint = only(&run);
        assert!(checkpoint.obs_normalizer().is_none(), "bytes are left to the network");
        let mut policy = checkpoint.policy().unwrap();
        let played = evaluate(&mut policy, &mut ActionSelection::Mode, &now, 20, 0).unwrap();
        assert!(played.return_mean().unwrap() > 9.0, "seed {seed}: {:?}", played.return_mean());
    }
}

fn run(trainer: Result<Trainer, TrainError>) -> Run {
    trainer.unwrap().run(iterations(5)).unwrap()
}

#[test]
fn a_run_of_before_goes_on_and_acts_as_before() {
    let dir = TempDir::new().unwrap();
    run(Trainer::new(small(0), before)).save(dir.path()).unwrap();
    let saved = || Checkpoint::load(dir.path()).unwrap();
    let as_before = run(Trainer::builder(small(0)).env(before).resume(&saved()).build());
    let resumed = run(Trainer::builder(small(0)).env(now).resume(&saved()).build());
    assert_eq!(resumed.weights_digest(), as_before.weights_digest());
    let returns = |run: &Run, env: fn(&EnvContext) -> Codes| {
        let mut policy = only(run).policy().unwrap();
        evaluate(&mut policy, &mut ActionSelection::Mode, &env, 20, 0).unwrap().episodes
    };
    assert_eq!(returns(&resumed, now), returns(&as_before, before));
    // Saved and loaded once more, it still does.
    let again = TempDir::new().unwrap();
    resumed.save(again.path()).unwrap();
    let again = Checkpoint::load(again.path()).unwrap();
    assert_eq!(again.network.unwrap().obs, Codes::before().spec().observation);
    // A new run reads codes.
    assert_ne!(run(Trainer::new(small(0), now)).weights_digest(), run(Trainer::new(small(0), before)).weights_digest());
}

fn own(env: &EnvSpec, _: DeviceSpec) -> Result<Box<dyn Network>, PolicyError> {
    Ok(Box::new(CpuNetwork::new(&NetworkSpec::for_spaces(&env.observation, &env.action)?)?))
}

#[test]
fn networks_of_ones_own_are_told_how_the_run_reads_bytes() {
    let dir = TempDir::new().unwrap();
    run(Trainer::builder(small(0)).env(before).network(own).build()).save(dir.path()).unwrap();
    let saved = || Checkpoint::load(dir.path()).unwrap();
    let as_before = run(Trainer::builder(small(0)).env(before).network(own).resume(&saved()).build());
    let resumed = run(Trainer::builder(small(0)).env(now).network(own).resume(&saved()).build());
    assert_eq!(resumed.weights_digest(), as_before.weights_digest());
    // A policy is made by the program, which has to take the space from the checkpoint.
    let (saved, env) = (saved(), Codes::now().spec());
    let refusal = saved.policy_with(own(&env, DeviceSpec::Cpu).unwrap()).map(drop).unwrap_err().to_string();
    assert!(refusal.contains("`observation` of the checkpoint"), "{refusal}");
    let env = EnvSpec { observation: saved.observation.clone(), ..env };
    saved.policy_with(own(&env, DeviceSpec::Cpu).unwrap()).unwrap();
}

#[test]
fn records_of_before_are_repeated_as_before() {
    let dir = TempDir::new().unwrap();
    let recorded = |name: &str, env: fn(&EnvContext) -> Codes| {
        let path = dir.path().join(name);
        let run = run(Trainer::builder(small(1)).env(env).record(Recording::to(&path)).build());
        (path, run.weights_digest())
    };
    for (path, digest) in [recorded("before", before), recorded("now", now)] {
        let replay = Replay::open(&path).unwrap();
        let trainer = Trainer::builder(replay.config().clone()).env(now).replay(replay).build().unwrap();
        assert_eq!(trainer.run(StopWhen::default()).unwrap().weights_digest(), digest, "{}", path.display());
    }
}

/// Agents that see what [`Codes`] shows.
struct Pair(Codes);

impl MultiAgentEnv for Pair {
    fn spec(&self) -> MultiAgentSpec {
        let EnvSpec { name, observation, action, .. } = self.0.spec();
        let agent = |name: &str| AgentSpec {
            name: name.to_owned(),
            observation: observation.clone(),
            action: action.clone(),
            action_mask: false,
        };
        MultiAgentSpec { name, agents: vec![agent("one"), agent("other")], max_episode_steps: None }
    }

    fn reset(&mut self, seed: u64, agents: &mut Agents) -> Result<(), EnvError> {
        let mut obs = [0; 2];
        self.0.reset(seed, ObsMut::U8(&mut obs))?;
        (0..2).try_for_each(|agent| agents.ask(agent)?.u8().map(|row| row.copy_from_slice(&obs)))
    }

    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
        let mut obs = [0; 2];
        let step = self.0.step(agents.action(0)?, ObsMut::U8(&mut obs))?;
        agents.reward(0, step.reward)?;
        if step.end != End::No {
            return agents.terminate_all();
        }
        (0..2).try_for_each(|agent| agents.ask(agent)?.u8().map(|row| row.copy_from_slice(&obs)))
    }
}

#[test]
fn several_policies_of_before_go_on_and_play_as_before() {
    let agents = || MultiAgentConfig::separate([("one", "one"), ("other", "other")]);
    let pairs = |env: fn(&EnvContext) -> Codes| move |context: &EnvContext| Pair(env(context));
    let dir = TempDir::new().unwrap();
    run(Trainer::builder(small(0)).multi_agent_env(pairs(before), agents()).build()).save(dir.path()).unwrap();
    let resumed = |env| {
        let from = Checkpoint::load_all(dir.path()).unwrap();
        run(Trainer::builder(small(0)).multi_agent_env(pairs(env), agents()).resume(from).build())
    };
    let (as_before, now_resumed) = (resumed(before), resumed(now));
    assert_eq!(now_resumed.weights_digest(), as_before.weights_digest());
    let played = |run: &Run, env| {
        let policies = run.checkpoints.iter().map(|(id, one)| (id.clone(), one.policy().unwrap()));
        let (mut policies, mapping) = (policies.collect(), agents().policy_mapping);
        evaluate_agents(&mut policies, &mapping, &mut ActionSelection::Mode, &pairs(env), 5, 0).unwrap().agents
    };
    assert_eq!(played(&now_resumed, now), played(&as_before, before));
}
