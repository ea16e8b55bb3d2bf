//! Runs whose networks multiply numbers of bfloat16. A processor without instructions for it refuses them.

use pronk::TrainError;
use pronk::envs::CartPole;
use pronk::policy::{CpuNetwork, DeviceSpec, NetworkSpec, Precision};
use pronk::prelude::*;

use crate::fixtures::{has_words, iterations, only, small};

fn config(acting: Precision, learning: Precision) -> TrainerConfig {
    let mut config = TrainerConfig { seed: 7, ..small(0) };
    config.workers.acting_precision = acting;
    config.learner.learning_precision = learning;
    config
}

fn trained(config: TrainerConfig) -> Result<Vec<u32>, TrainError> {
    let run = Trainer::new(config, |_: &EnvContext| CartPole::new())?.run(iterations(20))?;
    Ok(only(&run).state.params.values().iter().map(|value| value.to_bits()).collect())
}

#[test]
fn each_precision_repeats_bit_for_bit_and_leads_to_weights_of_its_own() {
    use Precision::{Bf16, F32};
    let all = [(F32, F32), (Bf16, F32), (F32, Bf16), (Bf16, Bf16)];
    if let Err(slow) = Bf16.check_fast() {
        for (acting, learning) in all.into_iter().skip(1) {
            let error = trained(config(acting, learning)).unwrap_err().to_string();
            has_words(&error, &[&slow.to_string()]);
        }
        return;
    }
    let mut weights = Vec::new();
    for (acting, learning) in all {
        let once = trained(config(acting, learning)).unwrap();
        assert_eq!(once, trained(config(acting, learning)).unwrap());
        assert!(once.iter().all(|&bits| f32::from_bits(bits).is_finite()));
        assert!(!weights.contains(&once), "{acting}, {learning}");
        weights.push(once);
    }
}

#[test]
fn a_precision_that_nothing_would_have_is_refused() {
    let own = |config: TrainerConfig, words: &[&str]| {
        let make = |env: &EnvSpec, _: DeviceSpec| {
            let spec = NetworkSpec::for_spaces(&env.observation, &env.action)?;
            Ok(Box::new(CpuNetwork::new(&spec)?) as Box<dyn pronk::policy::Network>)
        };
        let built = Trainer::builder(config).env(|_: &EnvContext| CartPole::new()).network(make).build();
        let Err(error) = built else { panic!("{words:?}") };
        has_words(&error.to_string(), words);
    };
    let mut on_a_gpu = config(Precision::F32, Precision::Bf16);
    on_a_gpu.learner.devices = vec![DeviceSpec::Cuda(0)];
    let on_a_gpu = trained(on_a_gpu).unwrap_err().to_string();
    has_words(&on_a_gpu, &["learning_precision", "bf16", "only the CPU"]);
    own(config(Precision::Bf16, Precision::F32), &["acting_precision", "bf16", "a network of your own"]);
    own(config(Precision::F32, Precision::Bf16), &["learning_precision", "bf16", "a network of your own"]);
}
