#![allow(clippy::unwrap_used)]

mod batch;
mod bytes;
mod conv;
mod device;
mod edges;
mod gradients;
mod oracle;
mod precision;
mod rows;
mod shared_rows;
mod steady;

use std::num::NonZeroUsize;

use proptest::prelude::*;

use self::batch::{Batch, agree, agree_by_tensor, random_params};
use super::CpuNetwork;
use crate::{
    Activation, CandleNetwork, Encoder, Init, Input, Network, NetworkSpec, ObsDtype, OutputGrads, Outputs, Params,
    Space, Torso,
};

fn spec(obs: Space, encoder: Encoder, lstm: Option<usize>, torso: Torso) -> NetworkSpec {
    NetworkSpec { obs, dist_len: 5, encoder, lstm, torso, init: Init::Orthogonal }
}

fn numbers(len: usize) -> Space {
    Space::boxed(vec![-1.0; len], vec![1.0; len], vec![len]).unwrap()
}

fn image(channels: usize, height: usize, width: usize) -> Space {
    Space::bytes(vec![channels, height, width]).unwrap()
}

/// What a batch comes to: acting, learning, and the gradient of the parameters.
fn run(network: &mut dyn Network, params: &Params, batch: &Batch) -> (Outputs, Outputs, Vec<f32>) {
    let (mut acting, mut learning) = (Outputs::default(), Outputs::default());
    let mut grad = vec![f32::NAN; params.values().len()];
    network.forward(params, &batch.input(), &mut acting).unwrap();
    network.forward_for_learning(params, &batch.input(), &mut learning).unwrap();
    network.backward(params, &batch.grads, &mut grad).unwrap();
    (acting, learning, grad)
}

/// Both networks say the same about a random batch with random weights.
///
/// One of two batches has to do: where the input of a ReLU, or two numbers of a pool, are so close to each
/// other that rounding decides, the networks may take different sides, and slopes differ by all there is.
/// Among the 10⁵ numbers of some batches that happens once in a hundred; a mistake would show in every batch.
fn networks_agree(spec: &NetworkSpec, steps: usize, columns: usize, seed: u64) {
    if let Err(differs) = compare(spec, steps, columns, seed).or_else(|_| compare(spec, steps, columns, !seed)) {
        panic!("{differs}");
    }
}

fn compare(spec: &NetworkSpec, steps: usize, columns: usize, seed: u64) -> Result<(), String> {
    let params = random_params(spec, seed);
    let batch = Batch::random(spec, steps, columns, seed);
    let expected = run(&mut CandleNetwork::cpu(spec.clone()).unwrap(), &params, &batch);
    let got = run(&mut CpuNetwork::new(spec).unwrap(), &params, &batch);
    for (expected, got) in [(&expected.0, &got.0), (&expected.1, &got.1)] {
        agree("logits", &expected.logits, &got.logits)?;
        agree("values", &expected.values, &got.values)?;
        agree("state", &expected.state, &got.state)?;
    }
    agree_by_tensor(params.layout(), &expected.2, &got.2)
}

fn any_activation() -> impl Strategy<Value = Activation> {
    prop_oneof![Just(Activation::Tanh), Just(Activation::Relu)]
}

fn any_torso() -> impl Strategy<Value = Torso> {
    prop_oneof![Just(Torso::Shared), Just(Torso::Separate)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_mlp_of_any_shape_agrees_with_candle(
        obs in 1_usize..40,
        hidden in prop::collection::vec(1_usize..150, 0..4),
        activation in any_activation(),
        torso in any_torso(),
        rows in 1_usize..600,
        seed: u64,
    ) {
        networks_agree(&spec(numbers(obs), Encoder::Mlp { hidden, activation }, None, torso), 1, rows, seed);
    }

    #[test]
    fn an_lstm_of_any_shape_agrees_with_candle(
        obs in 1_usize..20,
        hidden in prop::collection::vec(1_usize..70, 0..3),
        activation in any_activation(),
        torso in any_torso(),
        lstm in 1_usize..90,
        (steps, columns) in (1_usize..7, 1_usize..40),
        seed: u64,
    ) {
        networks_agree(&spec(numbers(obs), Encoder::Mlp { hidden, activation }, Some(lstm), torso), steps, columns, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_nature_cnn_of_any_image_agrees_with_candle(
        (channels, height, width) in (1_usize..6, 36_usize..90, 36_usize..90),
        hidden in 1_usize..90,
        rows in 1_usize..4,
        seed: u64,
    ) {
        let encoder = Encoder::NatureCnn { hidden };
        networks_agree(&spec(image(channels, height, width), encoder, None, Torso::Shared), 1, rows, seed);
    }

    #[test]
    fn a_residual_cnn_of_any_image_agrees_with_candle(
        (channels, height, width) in (1_usize..6, 1_usize..40, 1_usize..40),
        sections in prop::collection::vec(1_usize..40, 1..4),
        hidden in 1_usize..70,
        lstm in prop::option::of(1_usize..20),
        rows in 1_usize..4,
        seed: u64,
    ) {
        let encoder = Encoder::ImpalaCnn { channels: sections, hidden };
        networks_agree(&spec(image(channels, height, width), encoder, lstm, Torso::Shared), 1, rows, seed);
    }
}

#[test]
fn the_usual_image_networks_agree_with_candle() {
    for encoder in [Encoder::nature_cnn(), Encoder::impala_cnn()] {
        networks_agree(&spec(image(4, 84, 84), encoder.clone(), None, Torso::Shared), 1, 3, 1);
        networks_agree(&spec(image(4, 84, 84), encoder, Some(32), Torso::Separate), 3, 2, 2);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let mlp = Encoder::Mlp { hidden: vec![64, 64], activation: Activation::Tanh };
    let specs = [
        (spec(numbers(4), mlp.clone(), None, Torso::Shared), 1, 3000),
        (spec(numbers(4), mlp, Some(24), Torso::Separate), 6, 100),
        (spec(image(3, 40, 44), Encoder::nature_cnn(), None, Torso::Shared), 1, 150),
    ];
    for (spec, steps, columns) in specs {
        let params = random_params(&spec, 3);
        let batch = Batch::random(&spec, steps, columns, 3);
        let run = |threads| {
            let threads = NonZeroUsize::new(threads).unwrap();
            let mut network = CpuNetwork::with_threads(&spec, threads).unwrap();
            run(&mut network, &params, &batch);
            run_bits(&mut network, &params, &batch)
        };
        let one = run(1);
        assert!([2, 3, 16].into_iter().all(|threads| run(threads) == one));
    }
}

/// The same as [`run`], to the bit.
fn run_bits(network: &mut dyn Network, params: &Params, batch: &Batch) -> [Vec<u32>; 3] {
    let (_, out, grad) = run(network, params, batch);
    [out.logits, out.values, grad].map(|numbers| numbers.into_iter().map(f32::to_bits).collect())
}
