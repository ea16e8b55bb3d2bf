//! Networks whose products round their factors.

use super::*;
use crate::cpu_network::Helpers;
use crate::ops::Unit;
use crate::{ObsRef, Precision};

fn rounding(spec: &NetworkSpec) -> CpuNetwork {
    CpuNetwork::with_precision(spec, Precision::Bf16, Helpers::new(0, 0).unwrap()).unwrap()
}

/// Networks of all layers; one whose first kernels have rows of odd length, which are not rounded; and one
/// with widths that are no multiples of anything.
fn specs() -> Vec<(NetworkSpec, usize, usize)> {
    let mlp = |hidden: &[usize]| Encoder::Mlp { hidden: hidden.to_vec(), activation: Activation::Tanh };
    vec![
        (spec(numbers(17), mlp(&[256, 256]), None, Torso::Shared), 1, 70),
        (spec(numbers(7), mlp(&[33, 70]), None, Torso::Separate), 1, 35),
        (spec(numbers(12), mlp(&[40]), Some(50), Torso::Shared), 5, 9),
        (spec(image(4, 84, 84), Encoder::nature_cnn(), None, Torso::Shared), 1, 3),
        (spec(image(3, 40, 44), Encoder::NatureCnn { hidden: 30 }, None, Torso::Shared), 1, 5),
        (spec(image(4, 42, 42), Encoder::ImpalaCnn { channels: vec![16, 32], hidden: 64 }, None, Torso::Shared), 1, 3),
        (
            spec(image(3, 21, 20), Encoder::ImpalaCnn { channels: vec![5, 40], hidden: 20 }, Some(8), Torso::Shared),
            2,
            2,
        ),
    ]
}

/// The length of the difference as a share of the length of the numbers.
fn difference(exact: &[f32], other: &[f32]) -> f64 {
    let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
    let apart = squares(&mut exact.iter().zip(other).map(|(a, b)| f64::from(a - b)));
    apart / squares(&mut exact.iter().map(|&x| f64::from(x))).max(1e-9)
}

#[test]
fn rounded_factors_change_outputs_and_gradients_by_their_precision() {
    for (spec, steps, columns) in specs() {
        let (params, batch) = (random_params(&spec, 7), Batch::random(&spec, steps, columns, 7));
        let (exact, _, exact_grad) = run(&mut CpuNetwork::new(&spec).unwrap(), &params, &batch);
        let (acting, learning, grad) = run(&mut rounding(&spec), &params, &batch);
        assert_eq!((&acting.logits, &acting.values), (&learning.logits, &learning.values));
        // A factor is off by up to 2⁻⁹, and where the sign of a ReLU's input is so close to call, a slope by
        // all there is.
        for (what, exact, rounded, share) in [
            ("logits", &exact.logits, &acting.logits, 0.05),
            ("values", &exact.values, &acting.values, 0.05),
            ("state", &exact.state, &acting.state, 0.05),
            ("gradient", &exact_grad, &grad, 0.1),
        ] {
            let apart = difference(exact, rounded);
            assert!(apart < share, "{what} of {:?} differ by {apart}", spec.encoder);
            assert!(apart > 1e-5 || exact.is_empty(), "{what} of {:?} are exact: {apart}", spec.encoder);
        }
    }
}

#[test]
fn all_units_compute_the_same_but_for_the_order_of_sums() {
    for (spec, steps, columns) in specs() {
        let (params, batch) = (random_params(&spec, 8), Batch::random(&spec, steps, columns, 8));
        let [(slow, _, slow_grad), (fast, _, fast_grad)] =
            [Unit::Numbers, Unit::fastest()].map(|unit| unit.force(|| run(&mut rounding(&spec), &params, &batch)));
        // Of sums in another order the last bit differs, and then, rarely, how a number is rounded.
        for (slow, fast, share) in [
            (&slow.logits, &fast.logits, 0.01),
            (&slow.values, &fast.values, 0.01),
            (&slow.state, &fast.state, 0.01),
            (&slow_grad, &fast_grad, 0.05),
        ] {
            let apart = difference(slow, fast);
            assert!(apart < share, "{:?}: {apart}", spec.encoder);
        }
    }
}

#[test]
fn nothing_is_left_of_batches_before() {
    for (spec, steps, columns) in specs() {
        let mut used = rounding(&spec);
        for (seed, columns) in [(1, columns), (2, columns + 3), (3, 1)] {
            let (params, batch) = (random_params(&spec, seed), Batch::random(&spec, steps, columns, seed));
            let fresh = run_bits(&mut rounding(&spec), &params, &batch);
            assert!(run_bits(&mut used, &params, &batch) == fresh, "{:?}, seed {seed}", spec.encoder);
        }
    }
}

#[test]
fn a_weight_that_is_not_a_number_stays_in_its_tower() {
    // Seven inputs: tiles read beyond the matrix, where the next one could begin.
    let encoder = Encoder::Mlp { hidden: vec![33], activation: Activation::Tanh };
    let spec = spec(numbers(7), encoder, None, Torso::Separate);
    let batch = Batch::random(&spec, 1, 5, 4);
    let is_finite = |numbers: &[f32]| numbers.iter().all(|x| x.is_finite());
    for (entry, logits, values) in [("policy", false, true), ("value", true, false)] {
        let mut params = random_params(&spec, 4);
        let of_tower = |name: &str| name.starts_with(entry);
        let ranges: Vec<_> =
            params.layout().entries().iter().filter(|e| of_tower(&e.name)).map(|e| e.range()).collect();
        assert!(!ranges.is_empty());
        ranges.into_iter().for_each(|range| params.values_mut()[range].fill(f32::NAN));
        let mut out = Outputs::default();
        rounding(&spec).forward(&params, &batch.input(), &mut out).unwrap();
        assert_eq!((is_finite(&out.logits), is_finite(&out.values)), (logits, values), "{entry}");
    }
}

#[test]
fn a_rounded_row_has_the_same_bits_in_every_batch() {
    for (spec, steps, columns) in specs() {
        let (params, batch) = (random_params(&spec, 9), Batch::random(&spec, steps, columns, 9));
        let mut network = rounding(&spec);
        let (mut all, mut alone) = (Outputs::default(), Outputs::default());
        network.forward(&params, &batch.input(), &mut all).unwrap();
        for column in 0..columns {
            network.forward(&params, &batch.column(&spec, column, columns).input(), &mut alone).unwrap();
            let of_all: Vec<_> = all.values.iter().skip(column).step_by(columns).map(|x| x.to_bits()).collect();
            let of_alone: Vec<_> = alone.values.iter().map(|x| x.to_bits()).collect();
            assert_eq!(of_all, of_alone, "column {column} of {columns} of {:?}", spec.encoder);
        }
    }
}

#[test]
fn threads_change_no_bit_of_rounded_gradients() {
    let spec = spec(image(3, 40, 44), Encoder::nature_cnn(), None, Torso::Shared);
    let (params, batch) = (random_params(&spec, 3), Batch::random(&spec, 1, 150, 3));
    let [one, three] = [0, 2].map(|helpers| {
        let helpers = Helpers::new(helpers, helpers).unwrap();
        let mut network = CpuNetwork::with_precision(&spec, Precision::Bf16, helpers).unwrap();
        run_bits(&mut network, &params, &batch)
    });
    assert!(one == three);
}

#[test]
fn weights_that_changed_are_rounded_anew() {
    let spec = spec(numbers(6), Encoder::Mlp { hidden: vec![20], activation: Activation::Relu }, None, Torso::Shared);
    let (mut params, mut network) = (random_params(&spec, 1), rounding(&spec));
    let (mut before, mut after) = (Outputs::default(), Outputs::default());
    let input = Input::new(ObsRef::F32(&[0.5; 6]), 1);
    network.forward(&params, &input, &mut before).unwrap();
    params.values_mut().iter_mut().for_each(|x| *x *= 2.0);
    network.forward(&params, &input, &mut after).unwrap();
    assert_ne!(before.values, after.values);
}

#[test]
fn a_precision_is_read_and_written_by_its_name() {
    for (precision, name) in [(Precision::F32, "f32"), (Precision::Bf16, "bf16")] {
        assert_eq!(serde_json::to_string(&precision).unwrap(), format!("\"{name}\""));
        assert_eq!(serde_json::from_str::<Precision>(&format!("\"{name}\"")).unwrap(), precision);
        assert_eq!(precision.to_string(), name);
    }
}

#[test]
fn bfloat16_without_instructions_for_it_is_slow_and_says_so() {
    Unit::Numbers.force(|| {
        assert!(Precision::F32.check_fast().is_ok());
        let error = Precision::Bf16.check_fast().unwrap_err().to_string();
        assert!(error.contains("amx_bf16") && error.contains("slower than f32"), "{error}");
    });
}
