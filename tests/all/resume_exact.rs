//! A run that was killed and gone on equals the one that was not, under deterministic admission and without
//! threads: results, digest chains and weights.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;

use pronk::buffer::SampleBatch;
use pronk::config::{Admission, ObservationFilter, OptType};
use pronk::envs::{CartPole, Masked, Pendulum, Recall, TicTacToe};
use pronk::learner::{Impala, LossInputs};
use pronk::metrics::Info;
use pronk::policy::OutputGrads;
use pronk::prelude::*;
use pronk::rollout::{Agents, MultiAgentSpec};
use pronk::trainer::OneAgent;
use pronk::{
    Algorithm, AppoConfig, EnvFactory, Gather, ImpalaConfig, LearnError, MultiAgentConfig, MultiAgentEnv, PpoConfig,
    ResultDict, Resume, TrainerBuilder, Vectorised, reporter_fn,
};
use serde_json::Value;

use crate::crash::own_network;
use crate::deterministic::{deterministic, recurrent, without_times};
use crate::fixtures::{Fault, Faulty, with};

/// After how many iterations processes end in turn, and how many the run has.
const KILLS: [u64; 3] = [2, 5, 6];
const ALL: u64 = 9;

/// Results from one iteration on, by iteration, and the digest of the weights at the end.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    results: Vec<Value>,
    weights: String,
}

/// Plays the iterations up to `until`; `None` ends as a kill does, without the end of a run.
fn play(mut trainer: Trainer, until: u64, is_killed: bool) -> Outcome {
    let (results, seen) = std::sync::mpsc::channel();
    trainer.add_reporter(reporter_fn("results", move |result: &ResultDict| {
        let _ = results.send(without_times(serde_json::to_value(result).unwrap(), ""));
        Ok(())
    }));
    let seen = || seen.try_iter().map(of_any_process).collect();
    if is_killed {
        assert!(trainer.by_ref().map(|result| result.unwrap().iteration).any(|iteration| iteration == until));
        drop(trainer);
        return Outcome { results: seen(), ..Outcome::default() };
    }
    let run = trainer.run(StopWhen { iterations: Some(until), ..StopWhen::default() }).unwrap();
    assert!(run.ledger_closed(), "{:?}", run.steps);
    assert!(run.checkpoint_failures.is_empty(), "{:?}", run.checkpoint_failures);
    Outcome { results: seen(), weights: run.weights_digest().to_string() }
}

/// A result without what is different after a resume.
fn of_any_process(mut result: Value) -> Value {
    let keys = result.as_object_mut().unwrap();
    keys.remove("checkpoint");
    if let Some(resume) = keys.remove("resume") {
        assert_eq!(resume["exact"], true, "{resume}");
    }
    result
}

/// The same run once in one process and once in several.
pub(crate) fn check(
    what: &str,
    start: impl Fn() -> Result<Trainer, pronk::TrainError>,
    resume: impl Fn(&Path) -> Trainer,
) {
    let whole = play(start().unwrap(), ALL, false);
    assert_eq!(whole.results.len() as u64, ALL, "{what}");
    let folder = tempfile::tempdir().unwrap();
    for until in KILLS.into_iter().chain([ALL]) {
        let part = play(resume(folder.path()), until, until < ALL);
        let first = part.results[0]["training_iteration"].as_u64().unwrap();
        // A checkpoint is skipped while the one before is being written: a process may repeat an iteration.
        for (n, (whole, part)) in (first..).zip(whole.results[first as usize - 1..].iter().zip(&part.results)) {
            for (key, value) in whole.as_object().unwrap() {
                assert_eq!(Some(value), part.get(key), "{what}: `{key}` of result {n}, until {until}");
            }
            assert_eq!(whole, part, "{what}");
        }
        assert!(until == KILLS[0] || first > 1, "{what}: it began anew");
        assert!(until < ALL || whole.weights == part.weights, "{what}");
    }
}

pub(crate) fn check_env<E: EnvFactory + Clone + 'static>(what: &str, config: &TrainerConfig, env: &E) {
    let builder = || -> TrainerBuilder<OneAgent> { Trainer::builder(config.clone()).env(env.clone()) };
    check(what, || builder().build(), |folder| builder().checkpoints(folder).resume(Resume::auto()).build().unwrap());
}

type Change = fn(&mut TrainerConfig);

fn cart_pole(what: &str, workers: usize, lag: usize, change: Change) {
    check_env(what, &with(deterministic(workers, lag), change), &|_: &EnvContext| CartPole::new());
}

#[test]
fn for_any_number_of_workers_and_lag() {
    for (workers, lag) in [(0, 0), (1, 0), (1, 3), (2, 1), (3, 2), (4, 4)] {
        cart_pole(&format!("{workers} workers, lag {lag}"), workers, lag, |_| {});
    }
}

#[test]
fn with_workers_that_have_not_had_a_turn_yet() {
    let config = with(deterministic(4, 0), |config| {
        // A fragment an iteration: after two of them, two of the four workers have made one.
        config.learner.train_batch_size = 16;
        config.results.min_sample_timesteps_per_iteration = 16;
    });
    for groups in [1, 2] {
        let config = with(config.clone(), |config| config.workers.num_env_groups = groups);
        check_env(&format!("{groups} groups"), &config, &|_: &EnvContext| CartPole::new());
    }
}

#[test]
fn for_every_algorithm_and_way_of_training() {
    let cases: [(&str, Change); 10] = [
        ("appo", |config| config.algorithm = AppoConfig::default().into()),
        ("ppo, minibatches", |config| {
            config.algorithm = PpoConfig::default().into();
            config.learner.num_sgd_iter = 3;
            config.learner.sgd_minibatch_size = NonZeroUsize::new(16);
        }),
        ("a ring of 2, 3 passes", |config| {
            config.learner.minibatch_buffer_size = 2;
            config.learner.num_sgd_iter = 3;
        }),
        ("lstm", recurrent),
        ("replay", |config| {
            config.learner.replay_proportion = 0.7;
            config.learner.replay_buffer_num_slots = 5;
        }),
        ("stacks", |config| {
            config.learner.num_multi_gpu_tower_stacks = 2;
            config.learner.num_sgd_iter = 2;
        }),
        ("stacks, ring, replay", |config| {
            config.learner.num_multi_gpu_tower_stacks = 3;
            config.learner.minibatch_buffer_size = 2;
            config.learner.num_sgd_iter = 3;
            config.learner.replay_proportion = 0.7;
            config.learner.replay_buffer_num_slots = 5;
        }),
        ("two devices", |config| config.learner.devices = vec![pronk::DeviceSpec::Cpu; 2]),
        ("broadcast_interval 3", |config| config.learner.broadcast_interval = 3),
        ("rmsprop", |config| config.learner.opt_type = OptType::RmsProp),
    ];
    for (what, change) in cases {
        cart_pole(what, 2, 2, change);
        // Stacks are loaded by threads.
        if with(deterministic(0, 0), change).learner.num_multi_gpu_tower_stacks == 0 {
            cart_pole(&format!("{what}, without threads"), 0, 0, change);
        }
    }
}

#[test]
fn with_groups_of_environments() {
    let cases: [(&str, Change); 3] = [
        ("all", |config| config.workers.num_env_groups = 2),
        ("in turn", |config| {
            config.workers.num_env_groups = 2;
            config.workers.gather = Gather::InTurn;
        }),
        ("in turn, lstm", |config| {
            config.workers.num_env_groups = 2;
            config.workers.gather = Gather::InTurn;
            recurrent(config);
        }),
    ];
    for (what, change) in cases {
        cart_pole(what, 2, 1, change);
    }
}

#[test]
fn with_environments_of_every_kind() {
    let config = || deterministic(2, 1);
    check_env("continuous actions", &config(), &|_: &EnvContext| Pendulum::new());
    check_env("vectorised", &config(), &Vectorised::<CartPole>::new());
    check_env("action masks", &config(), &|_: &EnvContext| Masked::new(5, 13));
    check_env("an environment that needs memory", &with(config(), recurrent), &|_: &EnvContext| Recall::new(5));
    let normalized = with(config(), |config| {
        config.workers.observation_filter = ObservationFilter::MeanStdFilter;
        config.workers.normalize_rewards = true;
        config.learner.broadcast_interval = 2;
    });
    check_env("normalised", &normalized, &|_: &EnvContext| Pendulum::new());
    let groups = with(normalized, |config| {
        config.workers.num_env_groups = 2;
        config.workers.gather = Gather::InTurn;
    });
    check_env("normalised groups in turn", &groups, &|_: &EnvContext| Pendulum::new());
}

/// CartPole that saves no state: its episodes are played again.
pub(crate) struct Forgetful(CartPole);

impl Forgetful {
    pub(crate) fn new() -> Self {
        Self(CartPole::new())
    }
}

impl Env for Forgetful {
    fn spec(&self) -> pronk::EnvSpec {
        self.0.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.0.step(action, obs)
    }
}

#[test]
fn with_environments_whose_episodes_are_played_again() {
    for groups in [1, 2] {
        let config = with(deterministic(2, 1), |config| config.workers.num_env_groups = groups);
        check_env("without snapshots", &config, &|_: &EnvContext| Forgetful::new());
    }
}

#[test]
fn with_failing_environments() {
    for groups in [1, 2] {
        let config = with(deterministic(2, 2), |config| {
            config.workers.num_env_groups = groups;
            config.supervision.num_consecutive_worker_failures_tolerance = 1_000;
        });
        check_env(&format!("{groups} groups"), &config, &|_: &EnvContext| Faulty::new(Fault::Error, 7));
    }
}

/// IMPALA whose updates become smaller and smaller.
struct Fading {
    impala: Impala,
    updates: f64,
}

impl Fading {
    fn new() -> Self {
        Self { impala: Impala::new(ImpalaConfig::default()).unwrap(), updates: 0.0 }
    }
}

impl Algorithm for Fading {
    fn name(&self) -> &'static str {
        "fading"
    }

    fn loss(
        &mut self,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<Info, LearnError> {
        let info = self.impala.loss(batch, inputs, grads)?;
        let share = 0.99_f64.powf(self.updates) as f32;
        grads.logits.iter_mut().chain(&mut grads.values).for_each(|grad| *grad *= share);
        Ok(info)
    }

    fn updated(&mut self, _target_updated: bool) {
        self.updates += 1.0;
    }

    fn save(&self) -> BTreeMap<String, f64> {
        [("updates".to_owned(), self.updates)].into()
    }

    fn load(&mut self, numbers: &BTreeMap<String, f64>) -> Result<(), LearnError> {
        self.updates = numbers["updates"];
        Ok(())
    }
}

#[test]
fn with_a_network_and_an_algorithm_of_ones_own() {
    for workers in [0, 2] {
        let builder = || {
            let builder = Trainer::builder(deterministic(workers, workers)).env(|_: &EnvContext| CartPole::new());
            builder.network(own_network).algorithm(Fading::new())
        };
        check(
            &format!("{workers} workers"),
            || builder().build(),
            |folder| builder().checkpoints(folder).resume(Resume::auto()).build().unwrap(),
        );
    }
}

/// Noughts and crosses that saves no state.
struct ForgetfulGame(TicTacToe);

impl MultiAgentEnv for ForgetfulGame {
    fn spec(&self) -> MultiAgentSpec {
        self.0.spec()
    }

    fn reset(&mut self, seed: u64, agents: &mut Agents) -> Result<(), EnvError> {
        self.0.reset(seed, agents)
    }

    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
        self.0.step(agents)
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> Result<(), EnvError> {
        self.0.action_mask(agent, mask)
    }
}

fn check_game<E: MultiAgentEnv + 'static>(what: &str, lag: usize, make: fn() -> E) {
    let builder = || {
        let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
        Trainer::builder(deterministic(3, lag)).multi_agent_env(move |_: &EnvContext| make(), agents)
    };
    check(
        &format!("{what}, lag {lag}"),
        || builder().build(),
        |folder| builder().checkpoints(folder).resume(Resume::auto()).build().unwrap(),
    );
}

#[test]
fn with_several_agents() {
    for lag in [0, 2] {
        check_game("two policies", lag, TicTacToe::new);
        check_game("two policies, played again", lag, || ForgetfulGame(TicTacToe::new()));
    }
}

#[test]
fn a_run_without_threads_goes_on_exactly_under_free_admission_too() {
    let config = with(deterministic(0, 0), |config| {
        config.learner.admission = Admission::Free;
        // An iteration is as long as its first pass.
        config.results.min_sample_timesteps_per_iteration = 0;
    });
    check_env("inline", &config, &|_: &EnvContext| CartPole::new());
}
