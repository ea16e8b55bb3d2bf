#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::{ActionKind, ActionViewMut, BatchShape, End, ObsKind, Tag};
use pronk_policy::{
    ActionsMut, Activation, CpuNetwork, Encoder, Input, NetworkSpec, ObsRef, Rng, Space, Torso, distribution_for,
};

use super::*;

mod algorithms;
mod memory;
mod shared_rows;

use crate::LossInputs;
use crate::{Impala, ImpalaConfig, OptimizerConfig, RmsPropConfig};

const CONTEXTS: usize = 3;
const STEPS: usize = 8;
const COLUMNS: usize = 4;

/// A bandit that shows one of three contexts and pays 1 for the arm of the same number. Every pull is an
/// episode.
struct Bandit {
    actor: CpuNetwork,
    rng: Rng,
    outputs: Outputs,
}

impl Bandit {
    fn new(seed: u64) -> Self {
        Self { actor: CpuNetwork::new(&spec()).unwrap(), rng: Rng::seed_from(seed), outputs: Outputs::default() }
    }

    /// One fragment, played by `params`; the last pull of each column is truncated if `truncate`.
    fn play(&mut self, params: &Params, end: End) -> MultiAgentBatch {
        let mut batch = SampleBatch::blank(shape(), Tag::default());
        let contexts: Vec<usize> =
            (0..(STEPS + 1) * COLUMNS).map(|_| self.rng.below(CONTEXTS as u64) as usize).collect();
        let obs = batch.obs_mut().into_f32().unwrap();
        for (row, context) in obs.chunks_mut(CONTEXTS).zip(&contexts) {
            row[*context] = 1.0;
        }
        let obs = batch.obs().as_f32().unwrap();
        let input = Input::new(ObsRef::F32(obs), (STEPS + 1) * COLUMNS);
        self.actor.forward(params, &input, &mut self.outputs).unwrap();
        let rows = STEPS * COLUMNS;
        let distribution = distribution_for(&Space::discrete(CONTEXTS).unwrap()).unwrap();
        let (mut actions, mut logp) = (vec![0; rows], vec![0.0; rows]);
        let logits = &self.outputs.logits[..rows * CONTEXTS];
        distribution.sample(logits, &mut self.rng, ActionsMut::Discrete(&mut actions), &mut logp).unwrap();
        let ActionViewMut::U32(column) = batch.actions_mut() else { unreachable!() };
        column.copy_from_slice(&actions);
        batch.behaviour_logp_mut().copy_from_slice(&logp);
        batch.behaviour_inputs_mut().copy_from_slice(logits);
        batch.behaviour_values_mut().copy_from_slice(&self.outputs.values);
        for (row, reward) in batch.rewards_mut().iter_mut().enumerate() {
            *reward = if actions[row] as usize == contexts[row] { 1.0 } else { 0.0 };
        }
        batch.ends_mut().fill(end);
        if end == End::Truncated {
            for row in 0..rows {
                batch.final_obs_mut().push(row / COLUMNS, row % COLUMNS, &[0.5_f32; CONTEXTS][..]).unwrap();
            }
        }
        batch.check_ends().unwrap();
        MultiAgentBatch::single(batch)
    }

    /// The probability of the best arm in each context.
    fn best_arm_probabilities(&mut self, params: &Params) -> Vec<f64> {
        let mut obs = [0.0; CONTEXTS * CONTEXTS];
        (0..CONTEXTS).for_each(|context| obs[context * (CONTEXTS + 1)] = 1.0);
        let input = Input::new(ObsRef::F32(&obs), CONTEXTS);
        self.actor.forward(params, &input, &mut self.outputs).unwrap();
        let rows = self.outputs.logits.chunks(CONTEXTS).enumerate();
        rows.map(|(context, logits)| {
            let exp = |logit: &f32| f64::from(*logit).exp();
            exp(&logits[context]) / logits.iter().map(exp).sum::<f64>()
        })
        .collect()
    }
}

/// Samples of a bandit, played by some policy.
pub(crate) fn random_sample(seed: u64) -> SampleBatch {
    let played = Bandit::new(seed).play(&spec().init_params(seed).unwrap(), End::Terminated);
    played.get(pronk_metrics::DEFAULT_POLICY).unwrap().clone()
}

fn shape() -> BatchShape {
    BatchShape {
        steps: STEPS,
        columns: COLUMNS,
        obs_len: CONTEXTS,
        obs_kind: ObsKind::F32,
        act_len: 1,
        act_kind: ActionKind::U32,
        dist_len: CONTEXTS,
        state_len: 0,
    }
}

fn spec() -> NetworkSpec {
    let observation = Space::boxed(vec![0.0; CONTEXTS], vec![1.0; CONTEXTS], vec![CONTEXTS]).unwrap();
    NetworkSpec {
        encoder: Encoder::Mlp { hidden: vec![16], activation: Activation::Tanh },
        torso: Torso::Shared,
        ..NetworkSpec::for_spaces(&observation, &Space::discrete(CONTEXTS).unwrap()).unwrap()
    }
}

/// What a bandit's learner is made of.
pub(crate) fn parts(seed: u64) -> ActorCriticParts {
    let spec = spec();
    let params = spec.init_params(seed).unwrap();
    ActorCriticParts {
        optimizer: OptimizerConfig::default().build(params.values().len()).unwrap(),
        network: Box::new(CpuNetwork::new(&spec).unwrap()),
        params,
        distribution: distribution_for(&Space::discrete(CONTEXTS).unwrap()).unwrap(),
        algorithm: Box::new(Impala::new(ImpalaConfig::default()).unwrap()),
    }
}

fn config() -> ActorCriticConfig {
    ActorCriticConfig { lr: Schedule::Constant(0.02), ..ActorCriticConfig::default() }
}

fn learner(seed: u64) -> ActorCriticLearner {
    ActorCriticLearner::new(parts(seed), config()).unwrap()
}

#[test]
fn a_contextual_bandit_is_solved_from_every_seed() {
    for seed in 0..4 {
        let (mut bandit, mut learner) = (Bandit::new(seed), learner(seed));
        for _ in 0..200 {
            let batch = bandit.play(learner.params(), End::Terminated);
            learner.learn((&batch).into()).unwrap();
        }
        let probabilities = bandit.best_arm_probabilities(learner.params());
        assert!(probabilities.iter().all(|p| *p > 0.95), "seed {seed}: {probabilities:?}");
    }
}

#[test]
fn save_load_and_going_on_is_bit_for_bit_going_on() {
    let rmsprop = OptimizerConfig::RmsProp(RmsPropConfig::default());
    for optimizer in [OptimizerConfig::default(), rmsprop] {
        let make = |seed| {
            let parts = parts(seed);
            let optimizer = optimizer.build(parts.params.values().len()).unwrap();
            let lr = Schedule::piecewise_linear([(0.0, 0.02), (400.0, 0.001)]).unwrap();
            ActorCriticLearner::new(ActorCriticParts { optimizer, ..parts }, ActorCriticConfig { lr, ..config() })
                .unwrap()
        };
        let mut bandit = Bandit::new(1);
        let mut uninterrupted = make(1);
        let learn = |learner: &mut ActorCriticLearner, batch: &MultiAgentBatch| {
            learner.learn(batch.into()).unwrap();
            learner.advance(batch.env_steps());
        };
        for _ in 0..5 {
            let batch = bandit.play(uninterrupted.params(), End::Truncated);
            learn(&mut uninterrupted, &batch);
        }
        // Into a learner with other weights, so that everything must come from the state, which is in the
        // storage of one with another optimiser.
        let mut resumed = make(2);
        let state = uninterrupted.save_into(Some(learner(3).state()));
        assert_eq!(state.optimizer, uninterrupted.state().optimizer);
        resumed.load_state(state).unwrap();
        for _ in 0..5 {
            let batch = bandit.play(uninterrupted.params(), End::Truncated);
            learn(&mut uninterrupted, &batch);
            learn(&mut resumed, &batch);
        }
        let bits =
            |learner: &ActorCriticLearner| learner.params().values().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&resumed), bits(&uninterrupted));
        assert_eq!((resumed.updates(), resumed.global_step()), (10, 320));
        assert_eq!(resumed.state().optimizer, uninterrupted.state().optimizer);
    }
}

#[test]
fn a_state_of_another_network_is_refused_and_changes_nothing() {
    let (mut learner, mut state) = (learner(0), learner(1).state());
    let other = NetworkSpec { encoder: Encoder::Mlp { hidden: vec![8], activation: Activation::Tanh }, ..spec() };
    state.params = other.init_params(0).unwrap();
    let before = learner.params().stamp();
    let text = learner.load_state(state).unwrap_err().to_string();
    assert!(text.contains("16") && text.contains('8'), "{text}");
    assert_eq!(learner.params().stamp(), before);
}

#[test]
fn weights_that_are_not_finite_are_refused_by_name_and_change_nothing() {
    let poison = |params: &mut Params| {
        let last = params.values_mut().last_mut().unwrap();
        *last = f32::INFINITY;
        params.layout().entries().last().unwrap().name.clone()
    };
    let (mut learner, mut state) = (learner(0), learner(1).state());
    state.optimizer.steps = 7;
    let tensor = poison(&mut state.params);
    let before = learner.state();
    let text = learner.load_state(state).unwrap_err().to_string();
    assert!(text.contains(&tensor) && text.contains("inf"), "{text}");
    let after = learner.state();
    assert_eq!((after.params.stamp(), after.optimizer), (before.params.stamp(), before.optimizer));

    let mut parts = parts(0);
    let tensor = poison(&mut parts.params);
    let text = ActorCriticLearner::new(parts, config()).map(drop).unwrap_err().to_string();
    assert!(text.contains(&tensor), "{text}");
}

#[test]
fn a_step_that_leaves_the_finite_numbers_ends_the_run_and_says_what_to_do() {
    let config = ActorCriticConfig { lr: Schedule::Constant(3e38), ..config() };
    let mut learner = ActorCriticLearner::new(parts(0), config).unwrap();
    let batch = Bandit::new(0).play(learner.params(), End::Terminated);
    let error = learner.learn((&batch).into()).unwrap_err();
    assert!(matches!(error, LearnError::Diverged { update: 1, .. }), "{error}");
    assert!(!error.is_non_finite(), "the weights are not as they were");
    let text = error.to_string();
    assert!(text.contains("weight") && text.contains("lower the learning rate"), "{text}");
}

#[test]
fn the_info_has_rllibs_keys_with_true_and_clipped_norm_apart() {
    let clipped = ActorCriticConfig { grad_clip: Some(0.25), ..config() };
    let mut learner = ActorCriticLearner::new(parts(0), clipped).unwrap();
    let batch = Bandit::new(0).play(learner.params(), End::Terminated);
    let info = learner.learn((&batch).into()).unwrap().info;
    let of = |path: &str| info.number("default_policy", path);
    for key in [
        "total_loss",
        "policy_loss",
        "vf_loss",
        "entropy",
        "entropy_coeff",
        "vf_explained_var",
        "cur_lr",
        "grad_gnorm",
        "grad_gnorm_clipped",
        "var_gnorm",
    ] {
        assert!(of(&format!("learner_stats.{key}")).is_some_and(f64::is_finite), "{key} in {info:?}");
    }
    assert!(of("learner_stats.grad_gnorm") > Some(0.25));
    assert_eq!((of("learner_stats.grad_gnorm_clipped"), of("learner_stats.cur_lr")), (Some(0.25), Some(0.02)));
    assert_eq!((of("num_agent_steps_trained"), of("num_grad_updates_lifetime")), (Some(32.0), Some(1.0)));
    let info = info.get("default_policy").unwrap();
    for empty in ["model", "custom_metrics"] {
        assert_eq!(info.get(empty), Some(&Info::Tree(InfoTree::new())));
    }
}

#[test]
fn updates_behind_follow_what_was_published() {
    let mut learner = learner(0);
    let mut bandit = Bandit::new(0);
    // Two updates between publications.
    for update in 1..=6 {
        let batch = bandit.play(learner.params(), End::Terminated);
        learner.learn((&batch).into()).unwrap();
        if update % 2 == 0 {
            learner.published(update / 2);
        }
    }
    let mut batch = bandit.play(learner.params(), End::Terminated);
    let (_, part) = batch.policies_mut().next().unwrap();
    for (i, version) in part.versions_mut().iter_mut().enumerate() {
        *version = i as u64 % 4;
    }
    let info = learner.learn((&batch).into()).unwrap().info;
    let of = |path: &str| info.number("default_policy", path);
    assert_eq!(of("diff_num_grad_updates_vs_sampler_policy"), Some(3.0));
}

#[test]
fn the_learning_rate_follows_its_schedule_over_env_steps() {
    let lr = Schedule::piecewise_linear([(0.0, 0.02), (100.0, 0.0)]).unwrap();
    let mut learner = ActorCriticLearner::new(parts(0), ActorCriticConfig { lr, ..config() }).unwrap();
    let batch = Bandit::new(0).play(learner.params(), End::Terminated);
    learner.advance(50);
    let info = learner.learn((&batch).into()).unwrap().info;
    assert_eq!(info.number("default_policy", "learner_stats.cur_lr"), Some(0.01));
    learner.advance(950);
    let before = learner.params().values().to_vec();
    learner.learn((&batch).into()).unwrap();
    assert_eq!(learner.params().values(), before, "a learning rate of 0 changes nothing");
}

/// Replaces what IMPALA says by what a test wants.
struct Poisoned {
    impala: Impala,
    loss: f64,
    grad: f32,
}

impl Algorithm for Poisoned {
    fn name(&self) -> &'static str {
        "poisoned"
    }

    fn loss(
        &mut self,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<Info, LearnError> {
        self.impala.loss(batch, inputs, grads)?;
        grads.values[3] = self.grad;
        Ok(Info::tree([("total_loss", self.loss)]))
    }
}

#[test]
fn a_loss_or_gradient_that_is_not_finite_is_named_and_leaves_everything_as_it_was() {
    let unclipped = ActorCriticConfig { grad_clip: None, ..config() };
    for (loss, grad, named) in [
        (f64::NAN, 0.0, "total loss"),
        (f64::INFINITY, 0.0, "total loss"),
        (1.0, f32::NAN, "gradient"),
        (1.0, f32::INFINITY, "gradient"),
        (1.0, 1e30, "its square overflows"),
    ] {
        let impala = Impala::new(ImpalaConfig::default()).unwrap();
        let algorithm = Box::new(Poisoned { impala, loss, grad });
        let mut learner =
            ActorCriticLearner::new(ActorCriticParts { algorithm, ..parts(0) }, unclipped.clone()).unwrap();
        let before = learner.state();
        let batch = Bandit::new(0).play(learner.params(), End::Terminated);
        let error = learner.learn((&batch).into()).unwrap_err();
        assert!(error.is_non_finite() && error.to_string().contains(named), "{error}");
        let after = learner.state();
        assert_eq!((after.params.stamp(), after.updates), (before.params.stamp(), 0));
        assert_eq!(after.optimizer, before.optimizer);
    }
}

/// IMPALA whose loss is no number from an update on.
struct PoisonedFrom {
    impala: Impala,
    updates_left: u64,
}

impl Algorithm for PoisonedFrom {
    fn name(&self) -> &'static str {
        "poisoned"
    }

    fn loss(
        &mut self,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<Info, LearnError> {
        let info = self.impala.loss(batch, inputs, grads)?;
        if self.updates_left == 0 {
            return Ok(Info::tree([("total_loss", f64::NAN)]));
        }
        self.updates_left -= 1;
        Ok(info)
    }
}

#[test]
fn a_pass_that_fails_in_a_later_minibatch_says_how_many_updates_it_made() {
    for made in 0..4 {
        let impala = Impala::new(ImpalaConfig::default()).unwrap();
        let algorithm = Box::new(PoisonedFrom { impala, updates_left: made });
        let config = ActorCriticConfig { sgd_minibatch_size: NonZeroUsize::new(STEPS), ..config() };
        let mut learner = ActorCriticLearner::new(ActorCriticParts { algorithm, ..parts(0) }, config).unwrap();
        let before = learner.params().values().to_vec();
        let batch = Bandit::new(0).play(learner.params(), End::Terminated);
        let error = learner.learn((&batch).into()).unwrap_err();
        assert!(error.is_non_finite(), "{error}");
        assert_eq!((error.updates(), learner.updates()), (made, made));
        assert_eq!(learner.params().values() == before, made == 0);
    }
}

#[test]
fn values_of_final_observations_reach_the_loss_where_episodes_were_truncated() {
    let mut bandit = Bandit::new(0);
    let weights = learner(0).params().clone();
    let loss = |bandit: &mut Bandit, end| {
        let mut learner = learner(0);
        let batch = bandit.play(&weights, end);
        learner.learn((&batch).into()).unwrap().info.number("default_policy", "learner_stats.vf_loss").unwrap()
    };
    let terminated = loss(&mut bandit, End::Terminated);
    let truncated = loss(&mut Bandit::new(0), End::Truncated);
    assert_ne!(terminated, truncated);
}

#[test]
fn a_batch_of_another_policy_or_of_several_is_refused_by_name() {
    let mut learner = learner(0);
    let policies = |names: &[&str]| {
        let parts = names.iter().map(|name| (PolicyId::from(*name), SampleBatch::blank(shape(), Tag::default())));
        MultiAgentBatch::new(parts.collect(), 32).unwrap()
    };
    for names in [&["walker"][..], &["default_policy", "walker"]] {
        let error = learner.learn((&policies(names)).into()).unwrap_err();
        assert!(error.to_string().contains("walker") && error.to_string().contains("default_policy"), "{error}");
    }
}

#[test]
fn options_and_parts_that_cannot_work_are_refused_with_the_reason() {
    let refused = |parts, config, reason: &str| {
        let error = ActorCriticLearner::new(parts, config).map(drop).unwrap_err().to_string();
        assert!(error.contains(reason), "`{reason}` is not in: {error}");
    };
    for (lr, reason) in [
        (-0.1, "lr falls to -0.1"),
        (f64::NAN, "lr falls to NaN"),
        (0.0, "0 as f32"),
        (1e-60, "0 as f32"),
        (1e60, "infinite as f32"),
    ] {
        let lr = Schedule::Constant(lr);
        refused(parts(0), ActorCriticConfig { lr, ..config() }, reason);
    }
    for clip in [0.0, -1.0, f64::NAN] {
        refused(parts(0), ActorCriticConfig { grad_clip: Some(clip), ..config() }, "grad_clip");
    }
    let two_arms = distribution_for(&Space::discrete(2).unwrap()).unwrap();
    refused(ActorCriticParts { distribution: two_arms, ..parts(0) }, config(), "3 logits");
    let other = NetworkSpec { encoder: Encoder::Mlp { hidden: vec![8], activation: Activation::Tanh }, ..spec() };
    refused(ActorCriticParts { params: other.init_params(0).unwrap(), ..parts(0) }, config(), "16");
}
