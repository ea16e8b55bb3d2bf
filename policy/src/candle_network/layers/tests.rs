#![allow(clippy::unwrap_used, clippy::expect_used)]

use candle_core::{Device, Tensor, Var};

use super::{Conv, max_pool, relu, unstack};
use crate::Rng;

/// Row-major numbers with their dimensions.
#[derive(Clone)]
struct Array<const N: usize> {
    dims: [usize; N],
    numbers: Vec<f32>,
}

impl<const N: usize> Array<N> {
    fn zeros(dims: [usize; N]) -> Self {
        Self { dims, numbers: vec![0.0; dims.iter().product()] }
    }

    fn filled(dims: [usize; N], mut number: impl FnMut() -> f32) -> Self {
        let mut array = Self::zeros(dims);
        array.numbers.iter_mut().for_each(|x| *x = number());
        array
    }

    fn normal(dims: [usize; N], rng: &mut Rng) -> Self {
        Self::filled(dims, || rng.normal() as f32)
    }

    fn at(&mut self, index: [usize; N]) -> &mut f32 {
        let place = index.iter().zip(&self.dims).fold(0, |place, (i, dim)| place * dim + i);
        &mut self.numbers[place]
    }

    fn var(&self) -> Var {
        Var::from_slice(&self.numbers, &self.dims[..], &Device::Cpu).unwrap()
    }

    fn tensor(&self) -> Tensor {
        Tensor::from_slice(&self.numbers, &self.dims[..], &Device::Cpu).unwrap()
    }

    #[track_caller]
    fn assert_near(&self, got: &Tensor) {
        assert_eq!(got.dims(), self.dims);
        for (i, (got, want)) in numbers(got).into_iter().zip(&self.numbers).enumerate() {
            assert!((got - want).abs() <= 1e-4 * want.abs().max(1.0), "number {i}: got {got}, expected {want}");
        }
    }
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// The gradient of Σ y · `along` with respect to each of `vars`.
fn gradients<const N: usize>(y: &Tensor, along: &Array<N>, vars: &[&Var]) -> Vec<Tensor> {
    let found = (y * along.tensor()).unwrap().sum_all().unwrap().backward().unwrap();
    vars.iter().map(|var| found.get(var).unwrap().clone()).collect()
}

/// Every pair of a pixel and the kernel cell that sees it from a pixel of the output.
fn each_product(
    [rows, height, width, inputs]: [usize; 4],
    [kernel, _, _, outputs]: [usize; 4],
    (stride, padding): (usize, usize),
    mut each: impl FnMut([usize; 4], [usize; 4], [usize; 4]),
) {
    let side = |pixels: usize| (pixels + 2 * padding - kernel) / stride + 1;
    for (row, y, x) in every([rows, side(height), side(width)]) {
        for (output, ky, kx) in every([outputs, kernel, kernel]) {
            let (py, px) = ((y * stride + ky).wrapping_sub(padding), (x * stride + kx).wrapping_sub(padding));
            if py < height && px < width {
                (0..inputs).for_each(|i| each([row, y, x, output], [row, py, px, i], [ky, kx, i, output]));
            }
        }
    }
}

fn every([a, b, c]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a * b * c).map(move |i| (i / (b * c), i / c % b, i % c))
}

#[test]
fn a_convolution_and_its_gradients_agree_with_loops() {
    let mut rng = Rng::seed_from(1);
    // Heights and widths that end differently far from the last stride, down to a single pixel.
    for (image, kernel, stride, padding) in [
        ([2, 9, 7, 3], [3, 3, 3, 4], 1, 1),
        ([3, 1, 1, 2], [3, 3, 2, 2], 1, 1),
        ([2, 21, 19, 2], [8, 8, 2, 3], 4, 0),
        ([1, 9, 8, 1], [4, 4, 1, 2], 2, 0),
        ([2, 3, 5, 3], [3, 3, 3, 2], 1, 0),
        // Kernels that are no whole strides, and that leave pixels out.
        ([2, 9, 8, 2], [3, 3, 2, 3], 2, 1),
        ([1, 8, 5, 2], [1, 1, 2, 2], 3, 0),
    ] {
        let (mut x, mut weight) = (Array::normal(image, &mut rng), Array::normal(kernel, &mut rng));
        let mut bias = Array::normal([kernel[3]], &mut rng);
        let vars = [x.var(), weight.var(), bias.var()];
        let y = Conv::new(&vars[1], &vars[2], stride, padding).unwrap().forward(&vars[0]).unwrap();

        let side = |pixels: usize| (pixels + 2 * padding - kernel[0]) / stride + 1;
        let (height, width) = (side(image[1]), side(image[2]));
        let mut want = Array::zeros([image[0], height, width, kernel[3]]);
        for (i, number) in want.numbers.iter_mut().enumerate() {
            *number = bias.numbers[i % kernel[3]];
        }
        each_product(image, kernel, (stride, padding), |o, i, k| *want.at(o) += *x.at(i) * *weight.at(k));
        want.assert_near(&y);

        let mut along = Array::normal(want.dims, &mut rng);
        let got = gradients(&y, &along, &vars.each_ref());
        let (mut x_grad, mut weight_grad) = (Array::zeros(image), Array::zeros(kernel));
        each_product(image, kernel, (stride, padding), |o, i, k| {
            *x_grad.at(i) += *along.at(o) * *weight.at(k);
            *weight_grad.at(k) += *along.at(o) * *x.at(i);
        });
        bias.numbers.fill(0.0);
        for (i, grad) in along.numbers.iter().enumerate() {
            bias.numbers[i % kernel[3]] += grad;
        }
        x_grad.assert_near(&got[0]);
        weight_grad.assert_near(&got[1]);
        bias.assert_near(&got[2]);
    }
}

#[test]
fn a_pool_takes_the_maximum_and_sends_the_gradient_to_the_first_one() {
    let mut rng = Rng::seed_from(2);
    for (height, width) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (4, 5), (7, 6), (9, 9)] {
        // Few different numbers, so that most windows hold their maximum several times; all below zero, so
        // that a border of zeros would show.
        let dims = [2, height, width, 3];
        let mut x = Array::filled(dims, || rng.below(3) as f32 - 4.0);
        let pooled = [2, height.div_ceil(2), width.div_ceil(2), 3];
        let mut along = Array::normal(pooled, &mut rng);
        let (mut want, mut want_grad) = (Array::zeros(pooled), Array::zeros(dims));
        for (image, y, x_out) in every([6, pooled[1], pooled[2]]) {
            let (row, channel) = (image / 3, image % 3);
            let (mut best, mut best_at) = (f32::NEG_INFINITY, [0; 4]);
            for (_, dy, dx) in every([1, 3, 3]) {
                let (py, px) = ((2 * y + dy).wrapping_sub(1), (2 * x_out + dx).wrapping_sub(1));
                if py < height && px < width && *x.at([row, py, px, channel]) > best {
                    (best, best_at) = (*x.at([row, py, px, channel]), [row, py, px, channel]);
                }
            }
            *want.at([row, y, x_out, channel]) = best;
            *want_grad.at(best_at) += *along.at([row, y, x_out, channel]);
        }
        let var = x.var();
        let y = max_pool(&var).unwrap();
        assert_eq!((y.dims(), numbers(&y)), (&pooled[..], want.numbers), "{height}×{width}");
        want_grad.assert_near(&gradients(&y, &along, &[&var])[0]);
    }
}

#[test]
fn a_pool_with_nan_in_its_window_is_nan() {
    for place in 0..9 {
        let mut x = Array::filled([1, 3, 3, 1], || 1.0);
        x.numbers[place] = f32::NAN;
        let got = numbers(&max_pool(&x.tensor()).unwrap());
        // Windows begin at -1 and 1: the middle pixels are in both.
        let windows = |i: usize| if i == 1 { 0..2 } else { i / 2..i / 2 + 1 };
        let want = |i: usize| windows(place / 3).contains(&(i / 2)) && windows(place % 3).contains(&(i % 2));
        (0..4).for_each(|i| assert_eq!(got[i].is_nan(), want(i), "NaN at {place}, window {i}"));
    }
}

#[test]
fn relu_has_slope_zero_at_zero_and_keeps_nan() {
    let x = Array { dims: [5], numbers: vec![-2.0, -0.0, 0.0, 3.0, f32::NAN] };
    let var = x.var();
    let y = relu(&var).unwrap();
    assert_eq!(numbers(&y)[..4], [0.0, 0.0, 0.0, 3.0]);
    assert!(numbers(&y)[4].is_nan());
    let along = Array::filled([5], || 7.0);
    assert_eq!(numbers(&gradients(&y, &along, &[&var])[0])[..4], [0.0, 0.0, 0.0, 7.0]);
}

#[test]
fn slices_come_in_order_and_gradients_go_back_to_their_place() {
    let mut rng = Rng::seed_from(3);
    for steps in 0..6 {
        let (x, along) = (Array::normal([steps, 2, 3], &mut rng), Array::normal([steps, 2, 3], &mut rng));
        let var = x.var();
        let slices = unstack(&var).unwrap();
        assert_eq!(slices.len(), steps);
        if steps > 0 {
            let again = Tensor::stack(&slices, 0).unwrap();
            x.assert_near(&again);
            along.assert_near(&gradients(&again, &along, &[&var])[0]);
        }
    }
}
