#![allow(clippy::unwrap_used, clippy::expect_used)]

use candle_core::{Device, Tensor, Var};

use super::{Activate, Linear, tanh};
use crate::Rng;

const EVERY: [Activate; 3] = [Activate::Not, Activate::Tanh, Activate::Relu];

fn normals(rng: &mut Rng, shape: &[usize]) -> Vec<f32> {
    (0..shape.iter().product()).map(|_| rng.normal() as f32).collect()
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn assert_close(got: &Tensor, want: &Tensor, what: &str) {
    assert_eq!(got.dims(), want.dims(), "{what}");
    for (got, want) in numbers(got).into_iter().zip(numbers(want)) {
        // A few roundings of numbers of size one; the sums over rows add up to 17 of them.
        assert!((got - want).abs() < 5e-6, "{what}: got {got}, want {want}");
    }
}

#[test]
fn values_and_gradients_agree_with_candles_own_operations() {
    let (mut rng, device) = (Rng::seed_from(1), Device::Cpu);
    for [rows, inputs, outputs] in [[1, 1, 1], [17, 3, 5], [4, 10, 64]] {
        let mut var = |shape: &[usize]| Var::from_vec(normals(&mut rng, shape), shape, &device).unwrap();
        let (x, weight, bias) = (var(&[rows, inputs]), var(&[inputs, outputs]), var(&[outputs]));
        let y_grad = var(&[rows, outputs]).as_detached_tensor();
        for then in EVERY {
            let what = format!("{then:?} {rows} {inputs} {outputs}");
            let linear = Linear { then, input_grad: true };
            let ours = linear.learn(&x, &weight, &bias).unwrap();
            let theirs = linear.plain(&x, &weight, &bias).unwrap();
            assert_close(&ours, &theirs, &what);
            let acted = linear.act(&x, &weight, &bias).unwrap();
            assert_eq!(numbers(&acted), numbers(&ours), "{what}: outside a graph");
            let grads = |y: &Tensor| (y * &y_grad).unwrap().sum_all().unwrap().backward().unwrap();
            let (ours, theirs) = (grads(&ours), grads(&theirs));
            for var in [&x, &weight, &bias] {
                assert_close(ours.get(var).unwrap(), theirs.get(var).unwrap(), &what);
            }
            let without = Linear { then, input_grad: false }.learn(&x, &weight, &bias).unwrap();
            assert!(grads(&without).get(&x).is_none(), "{what}: not asked for");
        }
    }
}

#[test]
fn tanh_is_right_to_seven_digits_everywhere() {
    // Every exponent from 1e-9 up to beyond the clamp, 2,000 steps each decade.
    let magnitudes = (0..22_000).map(|i| 10_f32.powf(-9.0 + i as f32 / 2000.0));
    for x in magnitudes.flat_map(|x| [x, -x]).chain([f32::INFINITY, f32::NEG_INFINITY, 8.999_999, 9.000_001]) {
        let (got, want) = (f64::from(tanh(x)), f64::from(x).tanh());
        assert!((got - want).abs() <= 3e-7 * want.abs(), "tanh({x}): got {got}, want {want}");
        assert!(got.abs() <= 1.0, "tanh({x}) = {got} would have a negative slope");
    }
    assert_eq!(tanh(0.0), 0.0);
}

#[test]
fn nan_stays_nan_forwards_and_backwards() {
    for then in EVERY {
        let (x, y) = apply(then, &[f32::NAN, 1.0]);
        assert!(numbers(&y)[0].is_nan() && !numbers(&y)[1].is_nan(), "{then:?}");
        let loss = (&y * &y).unwrap().sum_all().unwrap();
        let grad = numbers(loss.backward().unwrap().get(&x).unwrap());
        assert!(grad[0].is_nan() && !grad[1].is_nan(), "{then:?}: {grad:?}");
    }
}

#[test]
fn relu_has_no_slope_at_zero() {
    let (x, y) = apply(Activate::Relu, &[0.0, -0.0, 1e-30]);
    let loss = y.sum_all().unwrap();
    assert_eq!(numbers(loss.backward().unwrap().get(&x).unwrap()), [0.0, 0.0, 1.0]);
}

/// The activation of each number, a row each.
fn apply(then: Activate, xs: &[f32]) -> (Var, Tensor) {
    let x = Var::from_slice(xs, (xs.len(), 1), &Device::Cpu).unwrap();
    let one = Tensor::new(&[[1.0_f32]], &Device::Cpu).unwrap();
    let zero = Tensor::new(&[0.0_f32], &Device::Cpu).unwrap();
    let y = Linear { then, input_grad: true }.learn(&x, &one, &zero).unwrap();
    (x, y)
}
