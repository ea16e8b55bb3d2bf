//! Rows that share elements are computed as rows one after another.

use super::batch::random_params;
use super::*;
use crate::{Memory, ObsRef, PolicyError, Rng};

/// The bits of what a batch comes to: acting, learning, and the gradient of the parameters.
fn bits(network: &mut CpuNetwork, params: &Params, input: &Input<'_>, grads: &OutputGrads) -> Vec<u32> {
    let (mut acting, mut learning) = (Outputs::default(), Outputs::default());
    let mut grad = vec![f32::NAN; params.values().len()];
    network.forward(params, input, &mut acting).unwrap();
    network.forward_for_learning(params, input, &mut learning).unwrap();
    network.backward(params, grads, &mut grad).unwrap();
    let outputs = [acting, learning].into_iter().flat_map(|out| [out.logits, out.values, out.state]);
    outputs.chain([grad]).flatten().map(f32::to_bits).collect()
}

#[test]
fn rows_may_begin_anywhere_among_the_elements() {
    let mlp = Encoder::Mlp { hidden: vec![20], activation: Activation::Tanh };
    let specs = [
        (spec(numbers(6), mlp.clone(), None, Torso::Shared), 1, 300),
        (spec(image(3, 2, 5), mlp.clone(), Some(7), Torso::Separate), 4, 37),
        (spec(image(4, 36, 40), Encoder::NatureCnn { hidden: 9 }, None, Torso::Shared), 1, 75),
        (spec(image(2, 9, 7), Encoder::ImpalaCnn { channels: vec![3, 4], hidden: 9 }, Some(5), Torso::Shared), 3, 20),
    ];
    for (spec, steps, columns) in specs {
        let (rows, len, mut rng) = (steps * columns, spec.obs.obs_len(), Rng::seed_from(3));
        let (params, all) = (random_params(&spec, 5), 3 * len);
        let numbers: Vec<f32> = (0..all).map(|_| rng.normal() as f32).collect();
        let bytes: Vec<u8> = (0..all).map(|_| rng.below(256) as u8).collect();
        let starts: Vec<usize> = (0..rows).map(|_| rng.below((all - len + 1) as u64) as usize).collect();
        let numbers_apart: Vec<f32> = starts.iter().flat_map(|&start| &numbers[start..start + len]).copied().collect();
        let bytes_apart: Vec<u8> = starts.iter().flat_map(|&start| &bytes[start..start + len]).copied().collect();
        let (shared, apart) = match spec.obs.obs_dtype() {
            ObsDtype::F32 => (ObsRef::F32(&numbers), ObsRef::F32(&numbers_apart)),
            ObsDtype::U8 => (ObsRef::U8(&bytes), ObsRef::U8(&bytes_apart)),
        };
        let state: Vec<f32> = (0..columns * spec.state_len()).map(|_| rng.normal() as f32).collect();
        let begins: Vec<bool> = (0..rows).map(|_| rng.below(5) == 0).collect();
        let remember = |input| match spec.lstm {
            None => input,
            Some(_) => Input::with_memory(input, Memory { state: &state, starts: &begins }),
        };
        let mut random = |len: usize| (0..len).map(|_| rng.normal() as f32).collect();
        let grads = OutputGrads { logits: random(rows * spec.dist_len), values: random(rows) };
        let mut network = CpuNetwork::new(&spec).unwrap();
        assert!(network.reads_shared_rows());
        let expected = bits(&mut network, &params, &remember(Input::new(apart, rows)), &grads);
        let got = bits(&mut network, &params, &remember(Input::new(shared, 0).with_row_starts(&starts)), &grads);
        assert!(got == expected, "{spec:?}");
    }
}

#[test]
fn a_row_beyond_the_elements_and_networks_that_read_no_shared_rows_are_refused() {
    let spec = spec(numbers(4), Encoder::Mlp { hidden: vec![3], activation: Activation::Tanh }, None, Torso::Shared);
    let (params, elements) = (random_params(&spec, 1), [0.0; 9]);
    let ask = |network: &mut dyn Network, starts: &[usize]| {
        let input = Input::new(ObsRef::F32(&elements), 0).with_row_starts(starts);
        let acting = network.forward(&params, &input, &mut Outputs::default());
        let learning = network.forward_for_learning(&params, &input, &mut Outputs::default());
        assert_eq!(acting.is_ok(), learning.is_ok());
        acting
    };
    let mut network = CpuNetwork::new(&spec).unwrap();
    assert!(ask(&mut network, &[5, 0, 5]).is_ok());
    assert!(ask(&mut network, &[]).is_ok());
    for start in [6, usize::MAX] {
        let error = ask(&mut network, &[0, start]).unwrap_err().to_string();
        assert!(error.contains("observations up to the end of the last row") && error.contains('9'), "{error}");
    }
    let short = Input { rows: 3, ..Input::new(ObsRef::F32(&elements), 0).with_row_starts(&[0, 1]) };
    assert!(matches!(network.forward(&params, &short, &mut Outputs::default()), Err(PolicyError::Length { .. })));

    let mut others: Vec<Box<dyn Network>> = vec![
        Box::new(CandleNetwork::cpu(spec.clone()).unwrap()),
        Box::new(crate::DataParallel::new(vec![Box::new(CpuNetwork::new(&spec).unwrap())]).unwrap()),
    ];
    for network in &mut others {
        assert!(!network.reads_shared_rows());
        let error = ask(&mut **network, &[0, 1]).unwrap_err().to_string();
        assert!(error.contains("one row after another"), "{error}");
    }
}
