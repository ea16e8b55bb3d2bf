#![allow(clippy::unwrap_used)]

use candle_nn::init::{FanInOut, NonLinearity, NormalOrUniform};

use super::*;

const N: usize = 20_000;

fn drawn(init: Init, shape: &[usize], seed: u64) -> Vec<f32> {
    let mut weights = vec![f32::NAN; shape.iter().product()];
    draw(init, shape, &mut Rng::seed_from(seed), &mut weights);
    weights
}

fn kaiming(dist: NormalOrUniform, fan: FanInOut) -> Init {
    Init::Kaiming { dist, fan, non_linearity: NonLinearity::ExplicitGain(3.0) }
}

#[test]
fn every_rule_has_its_mean_and_deviation() {
    // 50 channels, 20 of which a kernel of 5 × 4 sees: fan-in 400, fan-out 1,000.
    let shape = [50, 20, 5, 4];
    assert_eq!(shape.iter().product::<usize>(), N);
    let cases = [
        (Init::Const(2.5), 2.5, 0.0),
        (Init::Randn { mean: -1.0, stdev: 0.5 }, -1.0, 0.5),
        (Init::Uniform { lo: 1.0, up: 4.0 }, 2.5, 3.0 / 12_f64.sqrt()),
        (kaiming(NormalOrUniform::Normal, FanInOut::FanIn), 0.0, 3.0 / 400_f64.sqrt()),
        (kaiming(NormalOrUniform::Uniform, FanInOut::FanIn), 0.0, 3.0 / 400_f64.sqrt()),
        (kaiming(NormalOrUniform::Uniform, FanInOut::FanOut), 0.0, 3.0 / 1000_f64.sqrt()),
    ];
    for (init, mean, deviation) in cases {
        let weights = drawn(init, &shape, 1);
        let found = weights.iter().map(|&w| f64::from(w)).sum::<f64>() / N as f64;
        let square = weights.iter().map(|&w| (f64::from(w) - mean).powi(2)).sum::<f64>() / N as f64;
        // The mean scatters by the deviation / √n, the deviation of a normal by itself / √2n: allow five times that.
        assert!((found - mean).abs() <= 5.0 * deviation / (N as f64).sqrt(), "{init:?}: mean {found}");
        assert!((square.sqrt() - deviation).abs() <= 5.0 * deviation / (2.0 * N as f64).sqrt(), "{init:?}: {square}");
    }
}

#[test]
fn uniform_weights_stay_within_their_bounds() {
    let within = |init, lo: f32, up: f32| drawn(init, &[N], 2).iter().all(|weight| (lo..=up).contains(weight));
    assert!(within(Init::Uniform { lo: -0.25, up: 0.75 }, -0.25, 0.75));
    // A vector has a fan of one, as in candle.
    let bound = 3.0 * 3_f32.sqrt();
    assert!(within(kaiming(NormalOrUniform::Uniform, FanInOut::FanIn), -bound, bound));
}

#[test]
fn the_same_seed_draws_the_same_bits() {
    let init = kaiming(NormalOrUniform::Normal, FanInOut::FanIn);
    assert_eq!(drawn(init, &[3, 4], 7), drawn(init, &[3, 4], 7));
    assert_ne!(drawn(init, &[3, 4], 7), drawn(init, &[3, 4], 8));
}

#[test]
fn nothing_is_drawn_for_a_tensor_that_holds_nothing() {
    assert!(drawn(kaiming(NormalOrUniform::Normal, FanInOut::FanIn), &[3, 0], 0).is_empty());
}
