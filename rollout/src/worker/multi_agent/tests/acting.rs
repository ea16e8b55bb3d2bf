use std::collections::BTreeMap;

use pronk_buffer::{ActionView, End, SampleBatch};
use pronk_metrics::{PolicyId, Steps};
use pronk_policy::{
    CpuNetwork, Input, Memory, Network, NetworkShape, NetworkSpec, ObsRef, OutputGrads, Outputs, ParamLayout,
    PolicyError, Space,
};

use super::*;
use crate::act::{Inference, WorkerPolicy};
use crate::env::{AgentSpec, Agents, EnvContext, EnvError};
use crate::envs::{Rendezvous, TicTacToe};
use crate::testing::script::N_AGENTS;
use crate::worker::Collected;

/// A policy of a network that is made for the first agent of an environment, and its weights.
fn made_for(env: &dyn MultiAgentEnv, change: impl Fn(NetworkSpec) -> NetworkSpec) -> (WorkerPolicy, Params) {
    let AgentSpec { observation, action, .. } = env.spec().agents[0].clone();
    let spec = change(NetworkSpec::for_spaces(&observation, &action).unwrap());
    let params = spec.init_params(1).unwrap();
    let inference = Box::new(CpuNetwork::new(&spec).unwrap()).into();
    (WorkerPolicy { inference, observation, action, gaussian: GaussianConfig::default(), frozen: None }, params)
}

fn size(config: MultiAgentWorkerConfig, n_envs: usize, length: usize) -> MultiAgentWorkerConfig {
    let n = |n| NonZeroUsize::new(n).unwrap();
    MultiAgentWorkerConfig { num_envs_per_worker: n(n_envs), rollout_fragment_length: n(length), ..config }
}

fn tic_tac_toe(n_fragments: usize) -> (Vec<MultiAgentBatch>, RolloutWorker) {
    let (policy, params) = made_for(&TicTacToe::new(), |spec| spec);
    let (other, _) = made_for(&TicTacToe::new(), |spec| spec);
    let weights: ByPolicy<_> = [("px".into(), params.clone()), ("po".into(), params)].into();
    let weights = Versioned::new(0, weights);
    let policies = ByPolicy::from([("px".into(), policy), ("po".into(), other)]);
    let (links, _steps, _guard) = links();
    let config = size(config(policies, PolicyMapping::fixed([("x", "px"), ("o", "po")])), 4, 7);
    let mut worker = RolloutWorker::multi_agent(config, Arc::new(|_: &EnvContext| TicTacToe::new()), links).unwrap();
    let fragments = (0..n_fragments).map(|_| worker.sample(&weights, &mut clock()).unwrap()).collect();
    (fragments, worker)
}

/// Every cell of a batch, as `(t, b, cell)`.
fn cells(batch: &SampleBatch) -> impl Iterator<Item = (usize, usize, usize)> {
    let width = batch.shape().columns;
    (0..batch.shape().steps * width).map(move |cell| (cell / width, cell % width, cell))
}

#[test]
fn a_move_that_ends_the_game_pays_the_opponents_last_move_too() {
    let (fragments, mut worker) = tic_tac_toe(60);
    let mut outcomes: BTreeMap<PolicyId, BTreeMap<i64, u32>> = BTreeMap::new();
    for (policy, batch) in fragments.iter().flat_map(MultiAgentBatch::policies) {
        for (t, b, cell) in cells(batch) {
            let (reward, end) = (batch.rewards()[cell], batch.ends()[cell]);
            if end == End::No {
                assert_eq!(reward, 0.0, "{policy}: a move that ends nothing pays nothing");
                continue;
            }
            assert_eq!(end, End::Terminated);
            *outcomes.entry(policy.clone()).or_default().entry(reward as i64).or_default() += 1;
            if t + 1 < batch.shape().steps {
                let stones: f32 = batch.obs_row(t + 1).row(b).as_f32().unwrap().iter().sum();
                assert!(stones <= 1.0, "{policy}: an end is followed by the first move of the next game");
            }
        }
    }
    let (x, o) = (&outcomes["px"], &outcomes["po"]);
    for outcome in [-1, 1] {
        assert!(x[&outcome] > 10 && o[&outcome] > 10, "both win and lose: {outcomes:?}");
    }
    assert!(x.contains_key(&0) && o.contains_key(&0), "{outcomes:?}");
    assert!(!o.keys().any(|outcome| ![-1, 0, 1].contains(outcome)));
    let Collected { episodes, policy_returns: returns, .. } = worker.take_collected();
    assert_eq!(returns["px"].sum, -returns["po"].sum, "what one wins the other loses");
    assert!(episodes.iter().all(|episode| episode.episode_return == 0.0 && (5..=9).contains(&episode.episode_len)));
}

#[test]
fn thousands_of_moves_take_no_cell_twice_and_masked_logits_are_minus_infinity() {
    // A cell that is taken is an error of the environment.
    let (fragments, _worker) = tic_tac_toe(120);
    let mut n_moves = 0;
    for (_, batch) in fragments.iter().flat_map(MultiAgentBatch::policies) {
        let ActionView::U32(actions) = batch.actions() else { panic!("discrete actions") };
        for (t, b, cell) in cells(batch) {
            n_moves += 1;
            let stones = batch.obs_row(t).row(b).as_f32().unwrap();
            let logits = &batch.behaviour_inputs()[9 * cell..9 * (cell + 1)];
            for place in 0..9 {
                let is_free = stones[place] == 0.0 && stones[9 + place] == 0.0;
                assert_eq!(logits[place] == f32::NEG_INFINITY, !is_free);
            }
            let all: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
            let logp = f64::from(logits[actions[cell] as usize]) - all.ln();
            assert!((f64::from(batch.behaviour_logp()[cell]) - logp).abs() < 1e-5);
        }
    }
    assert!(n_moves > 3000, "{n_moves}");
}

#[test]
fn memory_is_each_agents_own_goes_from_column_to_column_and_ends_with_its_episode() {
    let diary = Diary::default();
    let for_envs = diary.clone();
    let factory = move |context: &EnvContext| Script::new(context, &for_envs, Manner::AtRandom);
    let env = Script::new(&EnvContext::default(), &Diary::default(), Manner::AtRandom);
    let (policy, params) = made_for(&env, |spec| NetworkSpec { lstm: Some(6), ..spec });
    let (links, _steps, _guard) = links();
    let policies = ByPolicy::from([("a".into(), policy)]);
    let mut worker =
        RolloutWorker::multi_agent(config(policies, PolicyMapping::shared("a")), Arc::new(factory), links).unwrap();
    let weights = Versioned::new(0, ByPolicy::from([("a".into(), params.clone())]));
    let (alone, _) = made_for(&env, |spec| NetworkSpec { lstm: Some(6), ..spec });
    let Inference::Own(mut alone) = alone.inference else { panic!("not its own network") };
    let state_len = alone.shape().state_len;

    // Agents are known by the first element of what they see; each has a memory that the test keeps.
    let (mut memories, mut n_ends, mut out) = (BTreeMap::<u32, Vec<f32>>::new(), 0, Outputs::default());
    for _ in 0..40 {
        let fragment = worker.sample(&weights, &mut clock()).unwrap();
        let batch = fragment.get("a").unwrap();
        let width = batch.shape().columns;
        for b in 0..width {
            let who = batch.obs_row(0).row(b).as_f32().unwrap()[0] as u32;
            let memory = memories.entry(who).or_insert_with(|| vec![0.0; state_len]);
            close(&batch.state_in()[b * state_len..(b + 1) * state_len], memory);
            for t in 0..=batch.shape().steps {
                let last_end = (t > 0).then(|| batch.ends()[(t - 1) * width + b]);
                if t == batch.shape().steps && last_end != Some(End::No) {
                    break;
                }
                let obs = batch.obs_row(t).row(b).as_f32().unwrap();
                let input = Input::new(ObsRef::F32(obs), 1).with_memory(Memory { state: memory, starts: &[false] });
                alone.forward(&params, &input, &mut out).unwrap();
                close(&batch.behaviour_values()[t * width + b..][..1], &out.values);
                if t == batch.shape().steps {
                    break;
                }
                close(&batch.behaviour_inputs()[2 * (t * width + b)..][..2], &out.logits);
                memory.copy_from_slice(&out.state);
                if batch.ends()[t * width + b] != End::No {
                    memory.fill(0.0);
                    n_ends += 1;
                }
            }
        }
    }
    assert!(memories.len() == 3 * N_AGENTS && n_ends > 20, "{n_ends} ends");
}

/// One row and many rows are added up in another order.
fn close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-4 * (1.0 + expected.abs()), "{got} is not {expected}");
    }
}

/// A network with one weight: action 1 if it is positive, action 0 otherwise.
struct Stubborn(OneWeight);

impl Network for Stubborn {
    fn shape(&self) -> &NetworkShape {
        self.0.shape()
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        self.0.layout()
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.0.forward(params, input, out)?;
        let logit = 1e4 * params.values()[0];
        out.logits.chunks_mut(2).for_each(|logits| logits.copy_from_slice(&[-logit, logit]));
        Ok(())
    }

    fn forward_for_learning(&mut self, _: &Params, _: &Input<'_>, _: &mut Outputs) -> Result<(), PolicyError> {
        unreachable!("workers do not learn")
    }

    fn backward(&mut self, _: &Params, _: &OutputGrads, _: &mut [f32]) -> Result<(), PolicyError> {
        unreachable!("workers do not learn")
    }
}

#[test]
fn a_frozen_policy_acts_with_its_own_weights_and_is_not_stored() {
    let diary = Diary::default();
    let for_envs = diary.clone();
    let factory = move |context: &EnvContext| Script::new(context, &for_envs, Manner::Together);
    let stubborn = |frozen| WorkerPolicy { inference: Box::new(Stubborn(OneWeight::new())).into(), ..scripted(frozen) };
    let policies = ByPolicy::from([("a".into(), stubborn(None)), ("c".into(), stubborn(Some(1.0)))]);
    let mapping = PolicyMapping::fixed([("first", "a"), ("second", "c"), ("third", "a")]);
    let (links, steps, _guard) = links();
    let mut worker = RolloutWorker::multi_agent(config(policies, mapping), Arc::new(factory), links).unwrap();
    // The cell holds weights of that name: they are not for it.
    for version in 0..8 {
        let fragment = worker.sample(&weights(version, &["a", "c"], -1.0), &mut clock()).unwrap();
        assert_eq!(fragment.policies().map(|(id, _)| &**id).collect::<Vec<_>>(), ["a"]);
    }
    let mut acted = [0; N_AGENTS];
    for (agent, action) in diary.calls.lock().unwrap().iter().flatten().flat_map(|call| call.acted.clone()) {
        assert_eq!(action, u32::from(agent == 1));
        acted[agent] += 1;
    }
    assert_eq!(steps.snapshot().dropped["not_trained"], Steps { env: 0, agent: acted[1] });
}

/// One agent sees bytes and does numbers between 0 and 10; the other sees numbers and does one of two things.
struct Unlike {
    step: u8,
}

impl MultiAgentEnv for Unlike {
    fn spec(&self) -> MultiAgentSpec {
        let painter = AgentSpec {
            name: "painter".into(),
            observation: Space::bytes(vec![1, 2, 2]).unwrap(),
            action: Space::boxed(vec![0.0; 2], vec![10.0; 2], vec![2]).unwrap(),
            action_mask: false,
        };
        let chooser = AgentSpec {
            name: "chooser".into(),
            observation: Space::boxed(vec![0.0], vec![300.0], vec![1]).unwrap(),
            action: Space::discrete(2).unwrap(),
            action_mask: false,
        };
        MultiAgentSpec { name: "Unlike".into(), agents: vec![painter, chooser], max_episode_steps: Some(9) }
    }

    fn reset(&mut self, _: u64, agents: &mut Agents) -> Result<(), EnvError> {
        self.step = 0;
        self.show(agents)
    }

    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
        let numbers = agents.action(0)?.continuous()?;
        assert!(numbers.iter().all(|number| (0.0..=10.0).contains(number)), "{numbers:?}");
        let sum = numbers.iter().sum();
        agents.reward(0, sum)?;
        agents.action(1)?.discrete()?;
        self.step += 1;
        self.show(agents)
    }
}

impl Unlike {
    fn show(&self, agents: &mut Agents) -> Result<(), EnvError> {
        agents.ask(0)?.u8()?.fill(self.step);
        agents.ask(1)?.write(&[f32::from(self.step)])
    }
}

#[test]
fn agents_of_other_kinds_act_each_in_its_own_space() {
    let spec = Unlike { step: 0 }.spec();
    let policy = |agent: usize| {
        let AgentSpec { observation, action, .. } = spec.agents[agent].clone();
        let network = NetworkSpec::for_spaces(&observation, &action).unwrap();
        let params = network.init_params(1).unwrap();
        let inference = Box::new(CpuNetwork::new(&network).unwrap()).into();
        (WorkerPolicy { inference, observation, action, gaussian: GaussianConfig::default(), frozen: None }, params)
    };
    let ((painter, painting), (chooser, choosing)) = (policy(0), policy(1));
    let policies = ByPolicy::from([("paint".into(), painter), ("choose".into(), chooser)]);
    let weights = ByPolicy::from([("paint".into(), painting), ("choose".into(), choosing)]);
    let mapping = PolicyMapping::fixed([("painter", "paint"), ("chooser", "choose")]);
    let (links, _steps, _guard) = links();
    let make = Arc::new(|_: &EnvContext| Unlike { step: 0 });
    let mut worker = RolloutWorker::multi_agent(size(config(policies, mapping), 2, 20), make, links).unwrap();
    let fragment = worker.sample(&Versioned::new(0, weights), &mut clock()).unwrap();
    let (paint, choose) = (fragment.get("paint").unwrap(), fragment.get("choose").unwrap());
    for t in 0..=20 {
        // Row 9 is the first of the next episode.
        let step = (t % 9) as u8;
        assert_eq!(paint.obs_row(t).as_u8().unwrap(), [step; 8]);
        assert_eq!(choose.obs_row(t).as_f32().unwrap(), [f32::from(step); 2]);
    }
    assert_eq!(paint.final_obs().index(), [(8, 0), (17, 0), (8, 1), (17, 1)]);
    assert_eq!(paint.final_obs().get(17, 1).unwrap().as_u8().unwrap(), [9; 4]);
    let ActionView::F32(drawn) = paint.actions() else { panic!("numbers") };
    assert!(
        drawn.iter().any(|number| *number < 0.0),
        "what is stored is what the policy drew, not what it was scaled to"
    );
    assert!(paint.rewards().iter().all(|reward| (0.0..=20.0).contains(reward)));
}

#[test]
fn agents_that_act_together_share_one_inference() {
    let (policy, params) = made_for(&Rendezvous::new(), |spec| spec);
    let counted = Arc::new(std::sync::Mutex::new(Vec::new()));
    let Inference::Own(network) = policy.inference else { panic!("not its own network") };
    let inference = Box::new(Counted { network, rows: Arc::clone(&counted) }).into();
    let policies = ByPolicy::from([("a".into(), WorkerPolicy { inference, ..policy })]);
    let (links, _steps, _guard) = links();
    let config = size(config(policies, PolicyMapping::shared("a")), 4, 10);
    let mut worker = RolloutWorker::multi_agent(config, Arc::new(|_: &EnvContext| Rendezvous::new()), links).unwrap();
    let weights = Versioned::new(0, ByPolicy::from([("a".into(), params)]));
    worker.sample(&weights, &mut clock()).unwrap();
    // Ten steps, and one look at what follows the last of columns that have not ended there.
    let rows = counted.lock().unwrap();
    assert_eq!(rows[..10], [8; 10]);
    assert_eq!((rows.len(), rows[10] <= 8), (11, true));
}

struct Counted {
    network: Box<dyn Network>,
    rows: Arc<std::sync::Mutex<Vec<usize>>>,
}

impl Network for Counted {
    fn shape(&self) -> &NetworkShape {
        self.network.shape()
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        self.network.layout()
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.rows.lock().unwrap().push(input.rows);
        self.network.forward(params, input, out)
    }

    fn forward_for_learning(&mut self, _: &Params, _: &Input<'_>, _: &mut Outputs) -> Result<(), PolicyError> {
        unreachable!("workers do not learn")
    }

    fn backward(&mut self, _: &Params, _: &OutputGrads, _: &mut [f32]) -> Result<(), PolicyError> {
        unreachable!("workers do not learn")
    }
}
