//! Outputs and gradients of every kind of layer against the oracle and its slopes.

use super::batch::{Batch, agree, random_params};
use super::oracle::{self, Oracle};
use super::*;

/// The network says what the oracle says, and its gradient is the slope of the oracle: at up to a dozen places of every
/// tensor, the first and the last among them.
///
/// Returns how many places were looked at and how many of them left out, because the slopes to their left and right differ:
/// there a ReLU or a pool changes sides within the step, and the function has no slope.
fn agrees_with_the_oracle(spec: &NetworkSpec, steps: usize, columns: usize, seed: u64) -> (usize, usize) {
    /// So short that what is left of the curvature is 1e-12 of it, so long that rounding costs about 1e-9.
    const STEP: f64 = 1e-6;

    let (params, batch) = (random_params(spec, seed), Batch::random(spec, steps, columns, seed));
    let (acting, learning, grad) = run(&mut CpuNetwork::new(spec).unwrap(), &params, &batch);
    let mut point: Vec<f64> = params.values().iter().map(|&x| x.into()).collect();
    let layout = params.layout().clone();
    let expected = oracle::outputs(spec, &layout, &point, &batch);
    for out in [acting, learning] {
        assert_eq!(agree("logits", &single(&expected.logits), &out.logits), Ok(()));
        assert_eq!(agree("values", &single(&expected.values), &out.values), Ok(()));
        assert_eq!(agree("state", &single(&expected.state), &out.state), Ok(()));
    }

    let loss_here = loss(&expected, &batch);
    let (mut probed, mut left_out) = (0, 0);
    for entry in layout.entries() {
        let grad = &grad[entry.range()];
        // f32 has 7 digits and sums hundreds of terms around one that cancel, so 1e-5 of the largest number, as in
        // `agree`. A tensor of few numbers may cancel as a whole: not less than 1e-5.
        let error = 1e-5 * grad.iter().fold(1.0, |max, &g| f64::from(g.abs()).max(max));
        for i in spread(grad.len()) {
            let mut rise = |step: f64| {
                let parameter = &mut point[entry.offset + i];
                let before = std::mem::replace(parameter, *parameter + step);
                let loss = loss(&oracle::outputs(spec, &layout, &point, &batch), &batch);
                point[entry.offset + i] = before;
                (loss - loss_here) / step
            };
            let (left, right) = (rise(-STEP), rise(STEP));
            probed += 1;
            // A kink smaller than this moves the mean of both slopes by no more than half the error.
            if (left - right).abs() > error {
                left_out += 1;
                continue;
            }
            let (slope, got) = ((left + right) / 2.0, f64::from(grad[i]));
            assert!((got - slope).abs() <= error, "{}[{i}]: {got}, but the slope is {slope} ± {error}", entry.name);
        }
    }
    (probed, left_out)
}

/// The loss whose gradient with respect to the outputs is the batch's.
fn loss(out: &Oracle, batch: &Batch) -> f64 {
    let sum = |a: &[f64], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * f64::from(*b)).sum::<f64>();
    sum(&out.logits, &batch.grads.logits) + sum(&out.values, &batch.grads.values)
}

fn single(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|&x| x as f32).collect()
}

/// Up to a dozen places of `0..len`, evenly spread from the first to the last.
fn spread(len: usize) -> impl Iterator<Item = usize> {
    let places = len.min(12);
    (0..places).map(move |i| if places < 2 { 0 } else { i * (len - 1) / (places - 1) })
}

/// A smooth network, which has a slope everywhere.
fn smooth(spec: &NetworkSpec, steps: usize, columns: usize) {
    let (_, left_out) = agrees_with_the_oracle(spec, steps, columns, 1);
    assert_eq!(left_out, 0, "{:?}", spec.encoder);
}

/// A network with kinks, which are rare.
fn with_kinks(spec: &NetworkSpec, columns: usize) {
    let (probed, left_out) = agrees_with_the_oracle(spec, 1, columns, 1);
    assert!(10 * left_out <= probed, "{left_out} of {probed} places left out: {:?}", spec.encoder);
}

fn mlp(hidden: &[usize], activation: Activation) -> Encoder {
    Encoder::Mlp { hidden: hidden.to_vec(), activation }
}

#[test]
fn dense_layers_and_tanh() {
    // So many rows that they come in several pieces.
    smooth(&spec(numbers(5), mlp(&[70, 33], Activation::Tanh), None, Torso::Shared), 1, 300);
}

#[test]
fn dense_layers_and_relu() {
    with_kinks(&spec(numbers(5), mlp(&[70, 33], Activation::Relu), None, Torso::Shared), 300);
}

#[test]
fn no_hidden_layer() {
    smooth(&spec(numbers(19), mlp(&[], Activation::Tanh), None, Torso::Shared), 1, 300);
}

#[test]
fn separate_torsos() {
    smooth(&spec(numbers(3), mlp(&[17, 4], Activation::Tanh), None, Torso::Separate), 1, 50);
}

#[test]
fn an_lstm_that_is_reset_on_its_way() {
    for (hidden, torso) in [(&[6][..], Torso::Shared), (&[], Torso::Shared), (&[6], Torso::Separate)] {
        let spec = spec(numbers(3), mlp(hidden, Activation::Tanh), Some(5), torso);
        let batch = Batch::random(&spec, 5, 20, 1);
        assert!((20..100).any(|row| batch.starts(row)), "an episode starts after the first step");
        smooth(&spec, 5, 20);
    }
}

#[test]
fn convolutions_with_strides() {
    with_kinks(&spec(image(2, 40, 44), Encoder::NatureCnn { hidden: 20 }, None, Torso::Shared), 2);
}

#[test]
fn residual_blocks_and_pools() {
    for (size, channels) in [((13, 11), vec![5, 17]), ((6, 7), vec![20]), ((1, 3), vec![3, 4, 5])] {
        let encoder = Encoder::ImpalaCnn { channels, hidden: 9 };
        with_kinks(&spec(image(3, size.0, size.1), encoder, None, Torso::Shared), 3);
    }
}
