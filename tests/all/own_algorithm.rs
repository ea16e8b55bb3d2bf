//! A run with an algorithm of the user's own is a run like any other.

use pronk::buffer::SampleBatch;
use pronk::envs::CartPole;
use pronk::learner::{Appo, Impala, LossInputs, Ppo};
use pronk::metrics::Info;
use pronk::policy::OutputGrads;
use pronk::prelude::*;
use pronk::{Algorithm, AlgorithmConfig, AppoConfig, ImpalaConfig, LearnError, PpoConfig, TrainError};

use crate::fixtures::{has_words, iterations, small, with};

fn cartpole(_: &EnvContext) -> CartPole {
    CartPole::new()
}

/// Four passes in two minibatches, of normalised rewards.
fn config(algorithm: AlgorithmConfig) -> TrainerConfig {
    with(TrainerConfig { algorithm, ..small(0) }, |config| {
        config.learner.num_sgd_iter = 4;
        config.learner.sgd_minibatch_size = std::num::NonZeroUsize::new(8);
        config.workers.normalize_rewards = true;
    })
}

#[test]
fn a_built_in_algorithm_given_to_the_builder_is_that_of_the_config() {
    fn check(algorithm: AlgorithmConfig, own: impl Algorithm + 'static) {
        let name = own.name();
        let of_config = Trainer::builder(config(algorithm)).env(cartpole).build().unwrap();
        let given = Trainer::builder(config(AlgorithmConfig::default())).env(cartpole).algorithm(own).build().unwrap();
        let (of_config, given) = (of_config.run(iterations(40)).unwrap(), given.run(iterations(40)).unwrap());
        assert_eq!(given.weights_digest(), of_config.weights_digest(), "{name}");
    }
    // Another discount than the config's, by which rewards are normalised; weights of divergences that are
    // adapted in the rhythm of the run.
    let impala = ImpalaConfig { gamma: 0.8, ..ImpalaConfig::default() };
    check(impala.clone().into(), Impala::new(impala).unwrap());
    let appo = AppoConfig { gamma: 0.8, use_kl_loss: true, kl_target: 1e-5, ..AppoConfig::default() };
    check(appo.clone().into(), Appo::new(appo).unwrap());
    let ppo = PpoConfig { gamma: 0.8, kl_coeff: 0.2, kl_target: 1e-5, ..PpoConfig::default() };
    check(ppo.clone().into(), Ppo::new(ppo).unwrap());
}

/// IMPALA that says another discount, or none.
struct Says(Impala, Option<f64>);

impl Algorithm for Says {
    fn name(&self) -> &'static str {
        "laconic"
    }

    fn gamma(&self) -> Option<f64> {
        self.1
    }

    fn loss(
        &mut self,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<Info, LearnError> {
        self.0.loss(batch, inputs, grads)
    }
}

#[test]
fn rewards_are_not_normalised_by_a_discount_that_the_algorithm_does_not_say() {
    let build = |gamma, normalize_rewards| {
        let mut config = small(0);
        config.workers.normalize_rewards = normalize_rewards;
        let own = Says(Impala::new(ImpalaConfig::default()).unwrap(), gamma);
        Trainer::builder(config).env(cartpole).algorithm(own).build().map(drop)
    };
    for (gamma, said) in [(None, "None"), (Some(1.5), "1.5"), (Some(f64::NAN), "NaN")] {
        let Err(TrainError::Config(error)) = build(gamma, true) else { panic!("{gamma:?} was taken") };
        has_words(&error.to_string(), &["normalize_rewards", "Algorithm::gamma", "laconic", said]);
        build(gamma, false).unwrap();
    }
    build(Some(0.9), true).unwrap();
}
