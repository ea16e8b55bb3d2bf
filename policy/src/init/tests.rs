#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::{Activation, Encoder, Init, NetworkSpec, ParamEntry, Params, Space, Torso};

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

#[test]
fn orthogonal_matrices_keep_lengths_times_the_gain() {
    let params = spec(Init::Orthogonal).init_params(3).unwrap();
    for (entry, weights) in matrices(&params) {
        let (inputs, outputs) = (entry.shape[0], entry.shape[1]);
        let at = |i: usize, j: usize| f64::from(weights[i * outputs + j]);
        // The shorter side is orthonormal: W Wᵀ if there are fewer inputs, else Wᵀ W.
        let product = |a: usize, b: usize| -> f64 {
            if inputs < outputs {
                (0..outputs).map(|j| at(a, j) * at(b, j)).sum()
            } else {
                (0..inputs).map(|i| at(i, a) * at(i, b)).sum()
            }
        };
        let square = gain(entry).powi(2);
        for a in 0..inputs.min(outputs) {
            for b in 0..inputs.min(outputs) {
                let want = if a == b { square } else { 0.0 };
                assert!((product(a, b) - want).abs() < 1e-5 * square, "{} at {a}, {b}", entry.name);
            }
        }
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
