//! The polynomials against the functions that they stand for.

use pulp::{Arch, Scalar, Simd, WithSimd};

use super::{Lanes, MOST};

#[derive(Clone, Copy, Debug)]
enum Function {
    Exp,
    Ln,
}

struct OfEach<'a> {
    function: Function,
    numbers: &'a mut [f32],
}

impl WithSimd for OfEach<'_> {
    type Output = ();

    fn with_simd<S: Simd>(self, simd: S) {
        for numbers in self.numbers.chunks_exact_mut(Lanes::<S>::COUNT) {
            let x = Lanes::of(simd, numbers);
            let y = match self.function {
                Function::Exp => x.exp(),
                Function::Ln => x.ln(),
            };
            y.write(numbers);
        }
    }
}

/// The function of each number, after making sure that all instructions give the same bits.
fn of_each(function: Function, numbers: &[f32]) -> Vec<f32> {
    let mut best = numbers.to_vec();
    best.resize(numbers.len().next_multiple_of(MOST), 1.0);
    let mut scalar = best.clone();
    Arch::new().dispatch(OfEach { function, numbers: &mut best });
    Scalar::new().vectorize(OfEach { function, numbers: &mut scalar });
    for (best, scalar) in best.iter().zip(&scalar) {
        assert!(best.to_bits() == scalar.to_bits() || best.is_nan() && scalar.is_nan(), "{best} {scalar}");
    }
    best.truncate(numbers.len());
    best
}

/// The greatest relative error.
fn greatest_error(function: Function, numbers: &[f32], expected: fn(f64) -> f64) -> f64 {
    let errors = of_each(function, numbers).into_iter().zip(numbers).map(|(got, &x)| {
        let expected = expected(f64::from(x));
        assert!(got.is_finite(), "{function:?} of {x}");
        (f64::from(got) - expected).abs() / expected.abs().max(f64::MIN_POSITIVE)
    });
    errors.fold(0.0, f64::max)
}

#[test]
fn the_exponential_is_right_to_a_ten_millionth() {
    let numbers: Vec<f32> =
        (0..=870_000).map(|i| i as f32 * -1e-4).chain((0..100).map(|i| -(-i as f32).exp2())).collect();
    let error = greatest_error(Function::Exp, &numbers, f64::exp);
    assert!(error < 1e-7, "{error}");
}

#[test]
fn the_logarithm_is_right_to_two_ten_millionths() {
    let few = (1..=1_000_000).map(|i| i as f32);
    let near_one = (0..100_000).map(|i| 1.0 + i as f32 * 3e-5);
    let numbers: Vec<f32> = few.chain(near_one).filter(|&x| x > 1.0).collect();
    let error = greatest_error(Function::Ln, &numbers, f64::ln);
    assert!(error < 1.7e-7, "{error}");
}

#[test]
fn what_should_be_exact_is_exact() {
    assert_eq!(
        of_each(Function::Exp, &[0.0, -0.0, f32::NEG_INFINITY, -87.1, -1e4, f32::MIN]),
        [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    );
    assert_eq!(of_each(Function::Ln, &[1.0, 2.0, 4.0]), [0.0, std::f32::consts::LN_2, 2.0 * std::f32::consts::LN_2]);
    for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7fff_ffff)] {
        assert!(of_each(Function::Exp, &[nan])[0].is_nan() && of_each(Function::Ln, &[nan])[0].is_nan());
    }
}
