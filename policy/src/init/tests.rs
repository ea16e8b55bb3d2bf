#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use crate::{Activation, Encoder, Init, NetworkSpec, ParamEntry, ParamLayout, Params, Space, Torso};

fn spec(init: Init) -> NetworkSpec {
    let observation = Space::boxed(vec![-1.0; 6], vec![1.0; 6], vec![6]).unwrap();
    NetworkSpec {
        encoder: Encoder::Mlp { hidden: vec![32, 20], activation: Activation::Tanh },
        torso: Torso::Separate,
        init,
        ..NetworkSpec::for_spaces(&observation, &Space::discrete(3).unwrap()).unwrap()
    }
}

fn gain(entry: &ParamEntry) -> f64 {
    match entry.name.as_str() {
        "policy.weight" => 0.01,
        "value.weight" => 1.0,
        _ => 2_f64.sqrt(),
    }
}

fn matrices(params: &Params) -> impl Iterator<Item = (&ParamEntry, &[f32])> {
    let matrices = params.layout().entries().iter().filter(|entry| entry.shape.len() == 2);
    matrices.map(|entry| (entry, params.get(&entry.name).unwrap()))
}

/// Whether the shorter side of a matrix is orthogonal and `gain` long: W Wᵀ if there are fewer inputs, else Wᵀ W.
fn assert_orthogonal(name: &str, (inputs, outputs): (usize, usize), gain: f64, at: impl Fn(usize, usize) -> f32) {
    let at = |i, j| f64::from(at(i, j));
    let product = |a: usize, b: usize| -> f64 {
        if inputs < outputs {
            (0..outputs).map(|j| at(a, j) * at(b, j)).sum()
        } else {
            (0..inputs).map(|i| at(i, a) * at(i, b)).sum()
        }
    };
    let square = gain * gain;
    for a in 0..inputs.min(outputs) {
        for b in 0..inputs.min(outputs) {
            let want = if a == b { square } else { 0.0 };
            assert!((product(a, b) - want).abs() < 1e-5 * square, "{name} at {a}, {b}");
        }
    }
}

#[test]
fn orthogonal_matrices_keep_lengths_times_the_gain() {
    let params = spec(Init::Orthogonal).init_params(3).unwrap();
    for (entry, weights) in matrices(&params) {
        let outputs = entry.shape[1];
        let at = |i: usize, j: usize| weights[i * outputs + j];
        assert_orthogonal(&entry.name, (entry.shape[0], outputs), gain(entry), at);
    }
}

#[test]
fn square_matrices_are_orthogonal_to_the_last_vector() {
    let layout = Arc::new(ParamLayout::new([("weight", vec![150, 150])]));
    let params = Init::Orthogonal.params(layout, 1);
    assert_orthogonal("weight", (150, 150), 2_f64.sqrt(), |i, j| params.values()[i * 150 + j]);
}

#[test]
fn the_kernels_of_a_convolution_are_the_columns_of_one_matrix() {
    for (shape, inputs) in [([2, 3, 4, 5], 24), ([1, 2, 1, 5], 2)] {
        let params = Init::Orthogonal.params(Arc::new(ParamLayout::new([("conv.weight", shape.to_vec())])), 1);
        assert_orthogonal("conv", (inputs, 5), 2_f64.sqrt(), |i, j| params.values()[i * 5 + j]);
    }
}

const LSTM_WIDTH: usize = 6;

fn lstm(init: Init) -> Params {
    NetworkSpec { lstm: Some(LSTM_WIDTH), ..spec(init) }.init_params(2).unwrap()
}

#[test]
fn every_gate_of_an_lstm_has_its_own_orthogonal_matrix_for_the_state() {
    let params = lstm(Init::Orthogonal);
    let (gates, square) = (4 * LSTM_WIDTH, (LSTM_WIDTH, LSTM_WIDTH));
    for torso in ["policy_torso", "value_torso"] {
        let hidden = params.get(&format!("{torso}.lstm.hidden.weight")).unwrap();
        for gate in 0..4 {
            assert_orthogonal("hidden", square, 1.0, |i, j| hidden[i * gates + gate * LSTM_WIDTH + j]);
        }
        let input = params.get(&format!("{torso}.lstm.input.weight")).unwrap();
        assert_orthogonal("input", (20, gates), 1.0, |i, j| input[i * gates + j]);
    }
}

#[test]
fn the_forget_gate_starts_open_and_nothing_else_of_the_bias_does() {
    for init in [Init::Orthogonal, Init::Xavier] {
        let params = lstm(init);
        let want: Vec<f32> = (0..4 * LSTM_WIDTH).map(|i| f32::from(i / LSTM_WIDTH == 1)).collect();
        assert_eq!(params.get("policy_torso.lstm.bias"), Some(&want[..]));
    }
}

#[test]
fn tensors_that_hold_nothing_are_left_alone() {
    let layout =
        Arc::new(ParamLayout::new([("a", vec![3, 0]), ("b", vec![0, 3]), ("c", vec![]), ("d.lstm.bias", vec![2])]));
    for init in [Init::Orthogonal, Init::Xavier] {
        assert_eq!(init.params(Arc::clone(&layout), 0).values(), [0.0; 3]);
    }
}

#[test]
fn xavier_weights_fill_their_interval_with_the_right_variance() {
    let params = spec(Init::Xavier).init_params(3).unwrap();
    for (entry, weights) in matrices(&params) {
        let gain = if entry.name == "policy.weight" { 0.01 } else { 1.0 };
        let variance = gain * gain * 2.0 / (entry.shape[0] + entry.shape[1]) as f64;
        let limit = (3.0 * variance).sqrt() as f32;
        assert!(weights.iter().all(|weight| weight.abs() <= limit), "{}", entry.name);
        let found = weights.iter().map(|&w| f64::from(w).powi(2)).sum::<f64>() / weights.len() as f64;
        // The mean of n squares of a uniform scatters by 0.9 / √n of itself; allow four times that.
        let scatter = 3.6 / (weights.len() as f64).sqrt();
        assert!((found / variance - 1.0).abs() < scatter, "{}: {found} for {variance}", entry.name);
    }
}

#[test]
fn biases_start_at_zero() {
    for init in [Init::Orthogonal, Init::Xavier] {
        let params = spec(init).init_params(1).unwrap();
        let biases = params.layout().entries().iter().filter(|entry| entry.name.ends_with("bias"));
        assert!(biases.flat_map(|entry| params.get(&entry.name).unwrap()).all(|&bias| bias == 0.0));
    }
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_seed_others() {
    for init in [Init::Orthogonal, Init::Xavier] {
        let bits = |seed| {
            let params = spec(init).init_params(seed).unwrap();
            params.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(0), bits(0));
        assert_ne!(bits(0), bits(1));
    }
}

#[test]
fn no_two_matrices_start_alike() {
    let params = spec(Init::Orthogonal).init_params(0).unwrap();
    assert_ne!(params.get("policy_torso.0.weight"), params.get("value_torso.0.weight"));
}
