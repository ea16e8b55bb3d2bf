//! The contract that vectorised and grouped acting rest on, since they infer for batches of different sizes:
//! the outputs of a row are the same bits whatever rows are computed with it.
//!
//! Every network runs with all instructions that a test can force: scalar code, registers of four numbers,
//! and AVX2 where there is any. AVX-512 and NEON cannot be forced or emulated here, so their tiles are tested
//! only on machines that choose them.

use super::batch::{Batch, random_params};
use super::*;
use crate::Memory;
use crate::ops::Instructions;

/// Sizes around those of tiles, registers, panels and `micro_batch`, the columns of a micro-batch.
fn sizes(micro_batch: usize) -> Vec<usize> {
    let around = [16, 32, 64, micro_batch].into_iter().flat_map(|size| size - 1..=size + 1);
    (1..=9).chain(around).collect()
}

/// Outputs in bits: logits and values of all steps of a column, and its state.
type Bits = Vec<u32>;

fn column_bits(spec: &NetworkSpec, out: &Outputs, column: usize, columns: usize) -> Bits {
    fn part(numbers: &[f32], len: usize, column: usize, columns: usize) -> impl Iterator<Item = u32> {
        let rows = numbers.chunks_exact(len.max(1)).skip(column).step_by(columns);
        rows.flatten().map(|number| number.to_bits())
    }
    let logits = part(&out.logits, spec.dist_len, column, columns);
    let values = part(&out.values, 1, column, columns);
    logits.chain(values).chain(part(&out.state, spec.state_len(), column, columns)).collect()
}

/// The outputs of each column of a batch, of acting and of learning.
fn outputs(
    spec: &NetworkSpec,
    network: &mut CpuNetwork,
    params: &Params,
    batch: &Batch,
    columns: usize,
) -> Vec<[Bits; 2]> {
    let (mut acting, mut learning) = (Outputs::default(), Outputs::default());
    network.forward(params, &batch.input(), &mut acting).unwrap();
    network.forward_for_learning(params, &batch.input(), &mut learning).unwrap();
    (0..columns).map(|column| [&acting, &learning].map(|out| column_bits(spec, out, column, columns))).collect()
}

/// Every row alone gives the same bits as in batches of all sizes, in several places of each, acting and
/// learning.
fn rows_are_the_same_in_every_batch(spec: &NetworkSpec, steps: usize) {
    let params = random_params(spec, 5);
    for instructions in Instructions::all() {
        instructions.force(|| {
            let mut network = CpuNetwork::new(spec).unwrap();
            let micro_batch = network.layers.spans(&Batch::random(spec, steps, 1, 5).input()).columns;
            let sizes = sizes(micro_batch);
            let all = sizes.iter().copied().max().unwrap();
            let batch = Batch::random(spec, steps, all, 5);
            let alone: Vec<_> = (0..all)
                .flat_map(|column| outputs(spec, &mut network, &params, &batch.column(spec, column, all), 1))
                .collect();
            for size in sizes {
                // The last ones begin again with the first ones, so every column is somewhere.
                for first in [0, 1, all - 1] {
                    let picked: Vec<_> = (0..size).map(|place| (first + place) % all).collect();
                    let together = outputs(spec, &mut network, &params, &batch.pick(spec, &picked, all), size);
                    for (place, (together, column)) in together.iter().zip(picked).enumerate() {
                        for (together, which) in together.iter().zip(["acting", "learning"]) {
                            assert!(
                                *together == alone[column][0],
                                "{instructions:?}, {which}: column {column} has other outputs in place {place} of a \
                                 batch of {size} than alone: {:?}",
                                spec.encoder
                            );
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn a_row_of_an_mlp_has_the_same_bits_in_every_batch() {
    let mlp = |hidden: &[usize], activation| Encoder::Mlp { hidden: hidden.to_vec(), activation };
    for torso in [Torso::Shared, Torso::Separate] {
        rows_are_the_same_in_every_batch(&spec(numbers(4), mlp(&[64, 64], Activation::Tanh), None, torso), 1);
        // Layers whose last panels have one, two, three and four blocks.
        let uneven = mlp(&[5, 20, 40, 130], Activation::Relu);
        rows_are_the_same_in_every_batch(&spec(numbers(9), uneven, None, torso), 1);
    }
    // Sums in several passes, the widest layer of a micro-batch of 16 rows.
    let wide = mlp(&[1030], Activation::Tanh);
    rows_are_the_same_in_every_batch(&spec(numbers(200), wide, None, Torso::Shared), 1);
}

#[test]
fn a_row_of_a_nature_cnn_has_the_same_bits_in_every_batch() {
    let encoder = Encoder::NatureCnn { hidden: 40 };
    rows_are_the_same_in_every_batch(&spec(image(2, 36, 40), encoder, None, Torso::Shared), 1);
}

#[test]
fn a_row_of_a_residual_cnn_has_the_same_bits_in_every_batch() {
    let encoder = Encoder::ImpalaCnn { channels: vec![4, 20], hidden: 30 };
    rows_are_the_same_in_every_batch(&spec(image(3, 9, 7), encoder, None, Torso::Separate), 1);
}

#[test]
fn a_column_of_an_lstm_has_the_same_bits_in_every_batch() {
    let mlp = Encoder::Mlp { hidden: vec![20], activation: Activation::Relu };
    let residual = Encoder::ImpalaCnn { channels: vec![4], hidden: 9 };
    for steps in [1, 5] {
        for torso in [Torso::Shared, Torso::Separate] {
            rows_are_the_same_in_every_batch(&spec(numbers(4), mlp.clone(), Some(24), torso), steps);
        }
    }
    rows_are_the_same_in_every_batch(&spec(image(1, 6, 6), residual, Some(5), Torso::Shared), 2);
}

/// A worker acts step by step; a learner sees the steps of a fragment together.
#[test]
fn steps_of_an_lstm_one_by_one_have_the_same_bits_as_together() {
    let mlp = Encoder::Mlp { hidden: vec![20], activation: Activation::Tanh };
    let spec = spec(numbers(4), mlp, Some(24), Torso::Separate);
    let (params, steps, columns) = (random_params(&spec, 5), 6, 19);
    let batch = Batch::random(&spec, steps, columns, 5);
    for instructions in Instructions::all() {
        instructions.force(|| {
            let mut network = CpuNetwork::new(&spec).unwrap();
            let mut together = Outputs::default();
            network.forward_for_learning(&params, &batch.input(), &mut together).unwrap();
            let (mut logits, mut values, mut step) = (Vec::new(), Vec::new(), Outputs::default());
            step.state = batch.input().memory.unwrap().state.to_vec();
            for t in 0..steps {
                let rows = t * columns..(t + 1) * columns;
                let obs: Vec<f32> =
                    batch.observations(&spec).skip(rows.start).take(columns).flatten().map(|x| x as f32).collect();
                let starts: Vec<_> = rows.map(|row| batch.starts(row)).collect();
                let state = std::mem::take(&mut step.state);
                let input = Input::new(crate::ObsRef::F32(&obs), columns)
                    .with_memory(Memory { state: &state, starts: &starts });
                network.forward(&params, &input, &mut step).unwrap();
                logits.extend_from_slice(&step.logits);
                values.extend_from_slice(&step.values);
            }
            for (together, one_by_one) in
                [(&together.logits, &logits), (&together.values, &values), (&together.state, &step.state)]
            {
                let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(together), bits(one_by_one), "{instructions:?}");
            }
        });
    }
}
