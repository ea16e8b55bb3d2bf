//! Every algorithm in the learner: it learns, it can be saved, and its minibatches and target network are
//! what they say.

use pronk_metrics::LearnerInfo;
use std::collections::BTreeSet;
use std::num::NonZeroU64;

use pronk_policy::{CandleNetwork, DataParallel, LoadedObs};

use super::*;
use crate::{Algorithm, AlgorithmConfig, AppoConfig, PpoConfig, UpdateRhythm};

pub(super) fn every_algorithm() -> Vec<(&'static str, AlgorithmConfig)> {
    let every_3_updates = NonZeroU64::new(3);
    vec![
        ("impala without V-trace", ImpalaConfig { vtrace: false, ..ImpalaConfig::default() }.into()),
        ("appo", AppoConfig { target_update_frequency: every_3_updates, ..AppoConfig::default() }.into()),
        (
            "appo with divergence",
            AppoConfig { use_kl_loss: true, target_update_frequency: every_3_updates, ..AppoConfig::default() }.into(),
        ),
        ("appo without V-trace", AppoConfig { vtrace: false, use_kl_loss: true, ..AppoConfig::default() }.into()),
        ("ppo", PpoConfig { kl_coeff: 0.2, kl_update_frequency: every_3_updates, ..PpoConfig::default() }.into()),
    ]
}

/// For a run of one update per train batch, without lag.
pub(super) fn of_single_updates(algorithm: &AlgorithmConfig) -> Box<dyn Algorithm> {
    let (once, mut algorithm) = (NonZeroU64::MIN, algorithm.build().unwrap());
    algorithm.set_rhythm(UpdateRhythm { per_train_batch: once, per_buffer: once, lag: 0 });
    algorithm
}

fn learner_with(algorithm: &AlgorithmConfig, seed: u64, minibatch: Option<usize>) -> ActorCriticLearner {
    let algorithm = of_single_updates(algorithm);
    let config = ActorCriticConfig { sgd_minibatch_size: minibatch.and_then(NonZeroUsize::new), seed, ..config() };
    ActorCriticLearner::new(ActorCriticParts { algorithm, ..parts(seed) }, config).unwrap()
}

#[test]
fn a_contextual_bandit_is_solved_by_every_algorithm() {
    for (name, algorithm) in every_algorithm() {
        for seed in 0..2 {
            let (mut bandit, mut learner) = (Bandit::new(seed), learner_with(&algorithm, seed, Some(16)));
            for _ in 0..120 {
                let batch = bandit.play(learner.params(), End::Terminated);
                for _ in 0..2 {
                    learner.learn((&batch).into()).unwrap();
                }
            }
            let probabilities = bandit.best_arm_probabilities(learner.params());
            assert!(probabilities.iter().all(|p| *p > 0.9), "{name}, seed {seed}: {probabilities:?}");
        }
    }
}

#[test]
fn save_load_and_going_on_is_bit_for_bit_going_on_with_every_algorithm() {
    for (name, algorithm) in every_algorithm() {
        let mut bandit = Bandit::new(1);
        let mut uninterrupted = learner_with(&algorithm, 1, Some(16));
        for _ in 0..5 {
            let batch = bandit.play(uninterrupted.params(), End::Truncated);
            uninterrupted.learn((&batch).into()).unwrap();
        }
        // Other weights, but the same seed: the order of minibatches is a setting and no state.
        let mut resumed = learner_with(&algorithm, 1, Some(16));
        resumed.load_state(ActorCriticLearner::state(&learner_with(&algorithm, 2, None))).unwrap();
        resumed.load_state(uninterrupted.state()).unwrap();
        for _ in 0..5 {
            let batch = bandit.play(uninterrupted.params(), End::Truncated);
            let stats = |info: LearnerInfo| info.get("default_policy").unwrap().get("learner_stats").cloned();
            let (want, got) = (uninterrupted.learn((&batch).into()).unwrap(), resumed.learn((&batch).into()).unwrap());
            assert_eq!(stats(got.info), stats(want.info), "{name}");
        }
        assert_eq!(resumed.params().values(), uninterrupted.params().values(), "{name}");
        assert_eq!(resumed.state().algorithm.numbers, uninterrupted.state().algorithm.numbers, "{name}");
    }
}

#[test]
fn the_state_of_another_algorithm_is_refused_and_changes_nothing() {
    let ppo: AlgorithmConfig = PpoConfig::default().into();
    let state = learner_with(&ppo, 1, None).state();
    let mut impala = learner(0);
    let before = impala.params().stamp();
    let text = impala.load_state(state).unwrap_err().to_string();
    assert!(text.contains("kl_coeff") && text.contains("impala"), "{text}");
    assert_eq!(impala.params().stamp(), before);

    let text = learner_with(&ppo, 1, None).load_state(learner(0).state()).unwrap_err().to_string();
    assert!(text.contains("kl_coeff") && text.contains("missing"), "{text}");
}

#[test]
fn minibatches_take_every_column_once_a_pass_in_an_order_of_its_own() {
    let mut batch = SampleBatch::blank(shape(), Tag::default());
    for (i, version) in batch.versions_mut().iter_mut().enumerate() {
        *version = i as u64;
    }
    let mut minibatches = Minibatches::new(NonZeroUsize::new(STEPS), 3);
    let mut orders = BTreeSet::new();
    for pass in 0..20 {
        let columns = minibatches.begin(&batch, pass).unwrap();
        assert_eq!(columns, 1);
        let order: Vec<u64> =
            (0..COLUMNS).map(|i| minibatches.take(&batch, minibatches.columns(i, 1)).unwrap().versions()[0]).collect();
        assert_eq!(BTreeSet::from_iter(&order).len(), COLUMNS);
        orders.insert(order);
    }
    assert!(orders.len() > 8, "{orders:?}");

    // Three columns, then the one that is left; never fewer than a column; whole batches are not cut.
    let mut minibatches = Minibatches::new(NonZeroUsize::new(3 * STEPS + 1), 3);
    assert_eq!(minibatches.begin(&batch, 0), Some(3));
    let last = minibatches.take(&batch, minibatches.columns(3, 3)).unwrap();
    assert_eq!((last.shape().columns, last.shape().steps), (1, STEPS));
    assert_eq!(Minibatches::new(NonZeroUsize::new(1), 3).begin(&batch, 0), Some(1));
    assert_eq!(Minibatches::new(NonZeroUsize::new(COLUMNS * STEPS), 3).begin(&batch, 0), None);
    assert_eq!(Minibatches::new(None, 3).begin(&batch, 0), None);
}

#[test]
fn minibatches_have_the_observations_that_were_loaded_of_their_columns() {
    let batch = Bandit::new(0).play(&spec().init_params(0).unwrap(), End::Terminated);
    let part = batch.get("default_policy").unwrap();
    let network = || Box::new(CandleNetwork::cpu(spec()).unwrap()) as Box<dyn Network>;
    let config = || ActorCriticConfig { sgd_minibatch_size: NonZeroUsize::new(STEPS), ..config() };
    let weights = |loaded: Option<&[f32]>| {
        let loaded = loaded.map(|obs| {
            let mut there = LoadedObs::default();
            network().obs_loader().unwrap().load(ObsRef::F32(obs), COLUMNS, &mut there).unwrap();
            there
        });
        let parts = ActorCriticParts { network: network(), ..parts(0) };
        let mut learner = ActorCriticLearner::new(parts, config()).unwrap();
        assert_eq!(learner.obs_loaders().len(), 1);
        learner.pass(part, loaded.as_ref()).unwrap();
        learner.params().values().to_vec()
    };
    let own = part.obs().as_f32().unwrap();
    let other: Vec<f32> = own.iter().map(|x| 1.0 - x).collect();
    assert_eq!(weights(Some(own)), weights(None));
    assert_ne!(weights(Some(&other)), weights(None), "what was loaded is what the network sees");
    // Columns of what several devices hold are not selected, so it would be loaded for nothing.
    let two = Box::new(DataParallel::new(vec![network(), network()]).unwrap());
    let learner = ActorCriticLearner::new(ActorCriticParts { network: two, ..parts(0) }, config()).unwrap();
    assert!(learner.obs_loaders().is_empty());
}

#[test]
fn a_pass_makes_an_update_for_each_minibatch_and_reports_their_mean() {
    let ppo: AlgorithmConfig = PpoConfig::default().into();
    let mut learner = learner_with(&ppo, 0, Some(16));
    let batch = Bandit::new(0).play(learner.params(), End::Terminated);
    let info = learner.learn((&batch).into()).unwrap().info;
    assert_eq!(learner.updates(), 2);
    let of = |path: &str| info.number("default_policy", path);
    assert_eq!((of("num_agent_steps_trained"), of("num_grad_updates_lifetime")), (Some(16.0), Some(2.0)));
}

#[test]
fn a_target_network_becomes_a_copy_of_the_weights_when_its_time_is_over() {
    let period = NonZeroU64::new(3);
    let appo: AlgorithmConfig = AppoConfig { target_update_frequency: period, ..AppoConfig::default() }.into();
    let (mut bandit, mut learner) = (Bandit::new(0), learner_with(&appo, 0, None));
    let target = |learner: &ActorCriticLearner| learner.state().algorithm.target.unwrap().params.values().to_vec();
    let first = target(&learner);
    assert_eq!(first, learner.params().values());
    for update in 1..=6 {
        let batch = bandit.play(learner.params(), End::Terminated);
        learner.learn((&batch).into()).unwrap();
        let is_copy = target(&learner) == learner.params().values();
        assert_eq!(is_copy, update % 3 == 0, "update {update}");
        assert_eq!(target(&learner) == first, update < 3, "update {update}");
    }
}

#[test]
fn actions_that_were_impossible_get_no_probability_and_no_gradient() {
    for (name, algorithm) in every_algorithm() {
        let mut learner = learner_with(&algorithm, 0, None);
        let mut batch = Bandit::new(0).play(learner.params(), End::Terminated);
        let (_, part) = batch.policies_mut().next().unwrap();
        // Arm 0 was impossible throughout, so it was not pulled.
        let ActionViewMut::U32(actions) = part.actions_mut() else { unreachable!() };
        actions.iter_mut().for_each(|action| *action = (*action).max(1));
        part.behaviour_inputs_mut().chunks_mut(CONTEXTS).for_each(|row| row[0] = f32::NEG_INFINITY);
        let info = learner.learn((&batch).into()).unwrap().info;
        let loss = info.number("default_policy", "learner_stats.total_loss").unwrap();
        assert!(loss.is_finite(), "{name}: {loss}");
        let rows = learner.output_grads.logits.chunks(CONTEXTS).take(STEPS * COLUMNS);
        assert!(rows.clone().all(|row| row[0] == 0.0), "{name}");
        assert!(rows.flatten().any(|grad| *grad != 0.0), "{name}");
    }
}

#[test]
fn one_two_or_four_devices_learn_the_same_weights() {
    for (name, algorithm) in every_algorithm() {
        let on_devices = |devices: usize| {
            let replica = || Box::new(CpuNetwork::new(&spec()).unwrap()) as Box<dyn Network>;
            let network = DataParallel::new((0..devices).map(|_| replica()).collect()).unwrap();
            let algorithm = of_single_updates(&algorithm);
            let parts = ActorCriticParts { algorithm, network: Box::new(network), ..parts(0) };
            ActorCriticLearner::new(parts, config()).unwrap()
        };
        let mut learners = [1, 2, 4].map(on_devices);
        let mut bandit = Bandit::new(3);
        for _ in 0..100 {
            let batch = bandit.play(learners[0].params(), End::Truncated);
            for learner in &mut learners {
                learner.learn((&batch).into()).unwrap();
            }
        }
        let [one, more @ ..] = &learners;
        for learner in more {
            for (want, got) in one.params().values().iter().zip(learner.params().values()) {
                assert!((got - want).abs() <= 1e-5 * (1.0 + want.abs()), "{name}: {got}, not {want}");
            }
        }
    }
}
