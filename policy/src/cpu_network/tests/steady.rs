//! What a network allocates once it has seen its largest batch.

use allocation_counter::measure;

use super::batch::{Batch, random_params};
use super::*;

/// How often acting, learning and the way back allocate, with parameters that are new.
fn allocations(network: &mut CpuNetwork, params: &mut Params, batch: &Batch, memory: &mut Reused) -> [u64; 3] {
    params.values_mut()[0] += 0.5;
    let (input, out, grad) = (batch.input(), &mut memory.out, &mut memory.grad);
    grad.resize(params.values().len(), 0.0);
    [
        measure(|| network.forward(params, &input, out).unwrap()).count_total,
        measure(|| network.forward_for_learning(params, &input, out).unwrap()).count_total,
        measure(|| network.backward(params, &batch.grads, grad).unwrap()).count_total,
    ]
}

/// What the caller keeps from one batch to the next.
#[derive(Default)]
struct Reused {
    out: Outputs,
    grad: Vec<f32>,
}

/// Two rounds of the largest batches, then batches of at most as many columns as the largest of as many steps.
fn allocates_nothing_after(spec: &NetworkSpec, largest: &[(usize, usize)], batches: &[(usize, usize)]) {
    let (mut network, mut params, mut memory) =
        (CpuNetwork::new(spec).unwrap(), random_params(spec, 1), Reused::default());
    let mut count = |(steps, columns)| {
        let batch = Batch::random(spec, steps, columns, 1);
        allocations(&mut network, &mut params, &batch, &mut memory)
    };
    let first = count(largest[0]);
    assert!(first.iter().all(|&count| count > 0), "the first batch finds memory: {first:?}");
    for &batch in largest.iter().chain(largest) {
        count(batch);
    }
    for &batch in batches {
        assert_eq!(count(batch), [0; 3], "(steps, columns) {batch:?} after {largest:?}: {:?}", spec.encoder);
    }
}

#[test]
fn dense_layers_allocate_nothing_after_the_largest_batch() {
    // 31 and a half of the pieces that a network 128 wide makes, then half as many, then all of them.
    let batches = [(1, 4018), (1, 2048), (1, 4018), (1, 1), (1, 700), (1, 4017), (1, 0), (1, 4018)];
    for hidden in [vec![], vec![40], vec![40, 100], vec![100, 40], vec![70, 20, 130]] {
        let encoder = Encoder::Mlp { hidden, activation: Activation::Tanh };
        for torso in [Torso::Shared, Torso::Separate] {
            allocates_nothing_after(&spec(numbers(9), encoder.clone(), None, torso), &[(1, 4018)], &batches);
        }
    }
}

#[test]
fn images_allocate_nothing_after_the_largest_batch() {
    let batches = [(1, 80), (1, 1), (1, 66), (1, 17), (1, 0), (1, 80)];
    let nature = (image(2, 36, 40), Encoder::NatureCnn { hidden: 30 });
    let residual = (image(3, 9, 7), Encoder::ImpalaCnn { channels: vec![4, 20], hidden: 30 });
    for (obs, encoder) in [nature, residual] {
        allocates_nothing_after(&spec(obs, encoder, None, Torso::Shared), &[(1, 80)], &batches);
    }
}

#[test]
fn an_lstm_allocates_nothing_after_the_largest_batch_of_each_number_of_steps() {
    let batches = [(8, 40), (8, 1), (8, 17), (1, 40), (1, 3), (8, 40)];
    let encoder = Encoder::Mlp { hidden: vec![20], activation: Activation::Relu };
    for torso in [Torso::Shared, Torso::Separate] {
        let spec = spec(numbers(9), encoder.clone(), Some(24), torso);
        allocates_nothing_after(&spec, &[(8, 40), (1, 40)], &batches);
    }
}
