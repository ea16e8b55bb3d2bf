//! Batches of nothing and of one, calls out of turn, and NaN.

use super::batch::{Batch, agree, random_params};
use super::*;
use crate::{Memory, ObsRef, PolicyError};

/// One network of each kind.
fn specs() -> Vec<NetworkSpec> {
    let mlp = |activation| Encoder::Mlp { hidden: vec![20, 70], activation };
    let residual = Encoder::ImpalaCnn { channels: vec![3, 20], hidden: 9 };
    let float_image = Space::boxed(vec![-9.0; 2 * 9 * 7], vec![9.0; 2 * 9 * 7], vec![2, 9, 7]).unwrap();
    vec![
        spec(numbers(4), mlp(Activation::Tanh), None, Torso::Shared),
        spec(numbers(4), mlp(Activation::Relu), None, Torso::Separate),
        spec(numbers(4), mlp(Activation::Relu), Some(5), Torso::Separate),
        spec(image(2, 36, 40), Encoder::NatureCnn { hidden: 9 }, None, Torso::Shared),
        spec(float_image, residual, Some(5), Torso::Shared),
    ]
}

#[test]
fn no_rows_give_no_outputs_no_gradient_and_the_state_they_came_with() {
    for spec in specs() {
        for columns in [0, 3] {
            let (params, batch) = (random_params(&spec, 1), Batch::random(&spec, 0, columns, 1));
            let mut network = CpuNetwork::new(&spec).unwrap();
            let (acting, learning, grad) = run(&mut network, &params, &batch);
            for out in [acting, learning] {
                assert_eq!((out.logits.len(), out.values.len()), (0, 0));
                assert_eq!(out.state, batch.input().memory.map_or(&[][..], |memory| memory.state));
            }
            assert!(grad.iter().all(|&g| g == 0.0));
        }
    }
}

#[test]
fn a_batch_gives_what_its_columns_give_one_by_one() {
    for spec in specs() {
        let (steps, columns) = if spec.lstm.is_some() { (3, 40) } else { (1, 70) };
        let (params, batch) = (random_params(&spec, 1), Batch::random(&spec, steps, columns, 1));
        let mut network = CpuNetwork::new(&spec).unwrap();
        let (out, _, grad) = run(&mut network, &params, &batch);
        let mut sum = vec![0.0; grad.len()];
        for column in 0..columns {
            let (alone, _, grad) = run(&mut network, &params, &batch.column(&spec, column, columns));
            sum.iter_mut().zip(grad).for_each(|(sum, g)| *sum += g);
            let logits = out.logits.chunks_exact(5).skip(column).step_by(columns);
            assert_eq!(agree("logits", &logits.flatten().copied().collect::<Vec<_>>(), &alone.logits), Ok(()));
        }
        assert_eq!(batch::agree_by_tensor(params.layout(), &grad, &sum), Ok(()));
    }
}

#[test]
fn acting_between_learning_and_the_way_back_changes_nothing() {
    for spec in specs() {
        let (params, batch) = (random_params(&spec, 1), Batch::random(&spec, 2, 3, 1));
        let mut network = CpuNetwork::new(&spec).unwrap();
        let (_, _, expected) = run(&mut network, &params, &batch);
        let (mut out, mut grad) = (Outputs::default(), vec![f32::NAN; expected.len()]);
        network.forward_for_learning(&params, &batch.input(), &mut out).unwrap();
        network.forward(&random_params(&spec, 2), &Batch::random(&spec, 3, 4, 2).input(), &mut out).unwrap();
        network.backward(&params, &batch.grads, &mut grad).unwrap();
        assert_eq!(grad, expected);
    }
}

/// What both networks say when they refuse a call, which must be the same.
fn refusal(spec: &NetworkSpec, call: impl Fn(&mut dyn Network) -> Result<(), PolicyError>) -> String {
    let networks: [Box<dyn Network>; 2] =
        [Box::new(CandleNetwork::cpu(spec.clone()).unwrap()), Box::new(CpuNetwork::new(spec).unwrap())];
    let [candle, cpu] = networks.map(|mut network| call(&mut *network).unwrap_err().to_string());
    assert_eq!(candle, cpu);
    cpu
}

#[test]
fn the_way_back_is_refused_without_the_way_there() {
    for spec in specs() {
        let (params, batch) = (random_params(&spec, 1), Batch::random(&spec, 2, 3, 1));
        let learn = |network: &mut dyn Network| {
            network.forward_for_learning(&params, &batch.input(), &mut Outputs::default()).unwrap();
        };
        let back = |network: &mut dyn Network, batch: &Batch| {
            network.backward(&params, &batch.grads, &mut vec![0.0; params.values().len()])
        };
        let none = refusal(&spec, |network| back(network, &batch));
        assert!(none.contains("there was none, or its result was used up"), "{none}");
        let twice = refusal(&spec, |network| {
            learn(network);
            back(network, &batch).unwrap();
            back(network, &batch)
        });
        assert_eq!(twice, none);
        let after_acting = refusal(&spec, |network| {
            network.forward(&params, &batch.input(), &mut Outputs::default()).unwrap();
            back(network, &batch)
        });
        assert_eq!(after_acting, none);
        let after_failure = refusal(&spec, |network| {
            learn(network);
            let input = Input::new(ObsRef::F32(&[]), 1);
            network.forward_for_learning(&params, &input, &mut Outputs::default()).unwrap_err();
            back(network, &batch)
        });
        assert_eq!(after_failure, none);
        let changed = refusal(&spec, |network| {
            learn(network);
            let changed = random_params(&spec, 1);
            network.backward(&changed, &batch.grads, &mut vec![0.0; params.values().len()])
        });
        assert!(changed.contains("the parameters have changed since"), "{changed}");
        let other_rows = refusal(&spec, |network| {
            learn(network);
            back(network, &Batch::random(&spec, 1, 3, 1))
        });
        assert!(other_rows.contains("it saw 6 rows, the gradient has 3"), "{other_rows}");
        let short_logits = refusal(&spec, |network| {
            learn(network);
            let grads = OutputGrads { logits: vec![0.0; 7], values: vec![0.0; 6] };
            network.backward(&params, &grads, &mut vec![0.0; params.values().len()])
        });
        assert!(short_logits.contains("gradient of the logits: expected 30 numbers, got 7"), "{short_logits}");
        let short_gradient = refusal(&spec, |network| {
            learn(network);
            network.backward(&params, &batch.grads, &mut [0.0])
        });
        assert!(short_gradient.starts_with("parameter gradient: expected"), "{short_gradient}");
    }
}

#[test]
fn what_does_not_fit_the_network_is_refused() {
    let all = specs();
    let [plain, recurrent] = [0, 2].map(|i| all[i].clone());
    let (params, batch) = (random_params(&plain, 1), Batch::random(&plain, 2, 3, 1));
    let remembering = Batch::random(&recurrent, 2, 3, 1);
    let forward = |spec: &NetworkSpec, params: &Params, input: Input<'_>| {
        let acting = refusal(spec, |network| network.forward(params, &input, &mut Outputs::default()));
        let learning = refusal(spec, |network| network.forward_for_learning(params, &input, &mut Outputs::default()));
        assert_eq!(acting, learning);
        acting
    };
    let without_memory = Input { memory: None, ..remembering.input() };
    assert!(forward(&recurrent, &random_params(&recurrent, 1), without_memory).contains("has no state"));
    let with_memory = batch.input().with_memory(Memory { state: &[], starts: &[] });
    assert!(forward(&plain, &params, with_memory).contains("leave it out"));
    assert!(forward(&plain, &random_params(&recurrent, 1), batch.input()).contains("do not fit the network"));
    let bytes = Input::new(ObsRef::U8(&[0; 24]), 6);
    assert_eq!(forward(&plain, &params, bytes), "observations: expected f32 numbers, got u8");
    let short = Input::new(ObsRef::F32(&[0.0; 23]), 6);
    assert_eq!(forward(&plain, &params, short), "observations: expected 24 numbers, got 23");
}

#[test]
fn nan_in_an_observation_comes_out_in_its_row_and_nowhere_else() {
    for spec in specs().into_iter().filter(|spec| spec.obs.obs_dtype() == ObsDtype::F32) {
        // One step of more columns than any tile has rows, in two pieces.
        let (params, mut batch) = (random_params(&spec, 1), Batch::random(&spec, 1, 300, 1));
        batch.observation_mut(&spec, 7)[3] = f32::NAN;
        let (acting, learning, _) = run(&mut CpuNetwork::new(&spec).unwrap(), &params, &batch);
        for out in [acting, learning] {
            let nan =
                |width: usize, numbers: &[f32]| numbers.iter().enumerate().all(|(i, x)| x.is_nan() == (i / width == 7));
            assert!(nan(5, &out.logits) && nan(1, &out.values), "{:?}", spec.encoder);
            assert!(out.state.iter().enumerate().all(|(i, x)| !x.is_nan() || i / spec.state_len() == 7));
        }
    }
}

#[test]
fn what_is_forgotten_may_be_nan() {
    for spec in specs().into_iter().filter(|spec| spec.lstm.is_some()) {
        let (params, mut batch) = (random_params(&spec, 1), Batch::random(&spec, 3, 4, 1));
        let (state, starts) = batch.memory_mut();
        state[..spec.state_len()].fill(0.0);
        starts[0] = true;
        let expected = run_bits(&mut CpuNetwork::new(&spec).unwrap(), &params, &batch);
        batch.memory_mut().0[..spec.state_len()].fill(f32::NAN);
        assert_eq!(run_bits(&mut CpuNetwork::new(&spec).unwrap(), &params, &batch), expected);
    }
}

#[test]
fn rows_after_the_last_gradient_add_nothing_and_are_not_computed() {
    for spec in specs() {
        let (steps, columns) = (3, if spec.obs.obs_dtype() == ObsDtype::U8 { 30 } else { 150 });
        let (params, mut batch) = (random_params(&spec, 1), Batch::random(&spec, steps, columns, 1));
        // As in training: the values after the last step only bootstrap.
        let last = (steps - 1) * columns;
        batch.grads.logits[last * spec.dist_len..].fill(0.0);
        batch.grads.values[last..].fill(0.0);
        let (_, _, expected) = run(&mut CandleNetwork::cpu(spec.clone()).unwrap(), &params, &batch);
        let (_, _, grad) = run(&mut CpuNetwork::new(&spec).unwrap(), &params, &batch);
        assert_eq!(agree_by_tensor(params.layout(), &expected, &grad), Ok(()), "{:?}", spec.encoder);
        if spec.obs.obs_dtype() == ObsDtype::F32 {
            // A product with one of them would be NaN.
            (last..steps * columns).for_each(|row| batch.observation_mut(&spec, row).fill(f32::NAN));
            assert_eq!(run(&mut CpuNetwork::new(&spec).unwrap(), &params, &batch).2, grad, "{:?}", spec.encoder);
        }
    }
}
