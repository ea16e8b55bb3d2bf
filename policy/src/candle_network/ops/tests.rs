#![allow(clippy::unwrap_used, clippy::expect_used)]

use candle_core::{Device, Tensor, Var};

use super::{Activate, add_bias, add_bias_tracked, plain_add_bias, tanh};
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
    for shape in [[1, 1], [17, 5], [4, 64]] {
        let x = Var::from_vec(normals(&mut rng, &shape), shape.as_slice(), &device).unwrap();
        let bias = Var::from_vec(normals(&mut rng, &shape[1..]), &shape[1..], &device).unwrap();
        let weight = Tensor::from_vec(normals(&mut rng, &shape), shape.as_slice(), &device).unwrap();
        for then in EVERY {
            let what = format!("{then:?} {shape:?}");
            let ours = add_bias_tracked(&x, &bias, then).unwrap();
            let theirs = plain_add_bias(&x, &bias, then).unwrap();
            assert_close(&ours, &theirs, &what);
            assert_eq!(
                numbers(&add_bias(&x, &bias, then).unwrap()),
                numbers(&ours),
                "{what}: outside a graph"
            );
            let grads = |y: &Tensor| (y * &weight).unwrap().sum_all().unwrap().backward().unwrap();
            let (ours, theirs) = (grads(&ours), grads(&theirs));
            for var in [&x, &bias] {
                assert_close(ours.get(var).unwrap(), theirs.get(var).unwrap(), &what);
            }
        }
    }
}

#[test]
fn tanh_is_right_to_seven_digits_everywhere() {
    // Every exponent from 1e-9 up to beyond the clamp, 2,000 steps each decade.
    let magnitudes = (0..22_000).map(|i| 10_f32.powf(-9.0 + i as f32 / 2000.0));
    for x in magnitudes
        .flat_map(|x| [x, -x])
        .chain([f32::INFINITY, f32::NEG_INFINITY, 8.999_999, 9.000_001])
    {
        let (got, want) = (f64::from(tanh(x)), f64::from(x).tanh());
        assert!(
            (got - want).abs() <= 3e-7 * want.abs(),
            "tanh({x}): got {got}, want {want}"
        );
        assert!(got.abs() <= 1.0, "tanh({x}) = {got} would have a negative slope");
    }
    assert_eq!(tanh(0.0), 0.0);
}

#[test]
fn nan_stays_nan_forwards_and_backwards() {
    let x = Var::new(&[[f32::NAN, 1.0]], &Device::Cpu).unwrap();
    let bias = Tensor::new(&[0.0_f32, 0.0], &Device::Cpu).unwrap();
    for then in EVERY {
        let y = add_bias_tracked(&x, &bias, then).unwrap();
        assert!(numbers(&y)[0].is_nan() && !numbers(&y)[1].is_nan(), "{then:?}");
        let loss = (&y * &y).unwrap().sum_all().unwrap();
        let grad = numbers(loss.backward().unwrap().get(&x).unwrap());
        assert!(grad[0].is_nan() && !grad[1].is_nan(), "{then:?}: {grad:?}");
    }
}

#[test]
fn relu_has_no_slope_at_zero() {
    let x = Var::new(&[[0.0_f32, -0.0, 1e-30]], &Device::Cpu).unwrap();
    let bias = Tensor::new(&[0.0_f32; 3], &Device::Cpu).unwrap();
    let loss = add_bias_tracked(&x, &bias, Activate::Relu).unwrap().sum_all().unwrap();
    assert_eq!(numbers(loss.backward().unwrap().get(&x).unwrap()), [0.0, 0.0, 1.0]);
}
