//! Each pass over slices against a plain loop over its definition.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::Rng;

fn normals(seed: u64, len: usize) -> Vec<f32> {
    let mut rng = Rng::seed_from(seed);
    (0..len).map(|_| rng.normal() as f32).collect()
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// Numbers of which many are equal, and some are not what they seem.
fn odd_number() -> impl Strategy<Value = f32> {
    prop::sample::select(vec![f32::NAN, f32::NEG_INFINITY, f32::INFINITY, -2.0, -0.0, 0.0, 1.0, 1.0, 3.0])
}

proptest! {
    #[test]
    fn column_sums_add_up_in_the_order_of_the_rows(rows in 0_usize..30, blocks in 1_usize..6, seed: u64) {
        let columns = blocks * BLOCK;
        let (numbers, before) = (normals(seed, rows * columns), normals(!seed, columns));
        let mut sums = before.clone();
        add_column_sums(&numbers, &mut sums);
        let column = |j: usize| before[j] + (0..rows).fold(0.0, |sum, i| sum + numbers[i * columns + j]);
        prop_assert_eq!(bits(&sums), bits(&(0..columns).map(column).collect::<Vec<_>>()));
    }

    #[test]
    fn relu_is_zero_below_zero_and_leaves_everything_else(x in prop::collection::vec(odd_number(), 0..70)) {
        let mut y = vec![7.0; x.len()];
        relu(&x, &mut y);
        let expected: Vec<_> = x.iter().map(|&x| if x < 0.0 { 0.0 } else { x }).collect();
        prop_assert_eq!(bits(&y), bits(&expected));
    }

    #[test]
    fn add_adds_number_by_number(terms in prop::collection::vec(-9.0_f32..9.0, 0..70), seed: u64) {
        let before = normals(seed, terms.len());
        let mut sums = before.clone();
        add(&terms, &mut sums);
        let expected: Vec<_> = before.iter().zip(&terms).map(|(a, b)| a + b).collect();
        prop_assert_eq!(bits(&sums), bits(&expected));
    }

    #[test]
    fn planes_become_pixels_and_what_lies_between_the_rows_stays(
        (channels, height, width) in (1_usize..7, 1_usize..9, 1_usize..40),
        gap in 0_usize..9,
        seed: u64,
    ) {
        let numbers = normals(seed, channels * height * width);
        let bytes: Vec<u8> = numbers.iter().map(|x| (x * 40.0 + 128.0) as u8).collect();
        let row_step = width * channels + gap;
        let filled = |number: &dyn Fn(usize) -> f32| {
            let mut image = vec![-1.0; height * row_step];
            for (c, y, x) in places(channels, height, width) {
                image[y * row_step + x * channels + c] = number((c * height + y) * width + x);
            }
            image
        };
        let mut image = vec![-1.0; height * row_step];
        interleave(&numbers, (height, width), &mut image, row_step);
        prop_assert_eq!(&image, &filled(&|i| numbers[i]));
        interleave(&bytes, (height, width), &mut image, row_step);
        let scaled = filled(&|i| f32::from(bytes[i]) / 255.0);
        // Times the reciprocal instead of divided: the last bit may differ.
        prop_assert!(image.iter().zip(&scaled).all(|(a, b)| (a - b).abs() <= 1e-7));
    }
}

fn places(channels: usize, height: usize, width: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let pixels = (0..height).flat_map(move |y| (0..width).map(move |x| (y, x)));
    pixels.flat_map(move |(y, x)| (0..channels).map(move |c| (c, y, x)))
}

/// Cell and output of an LSTM's unit after a step, from its sums i, f, g, o and its cell before, as in the textbook.
fn unit([i, f, g, o]: [f64; 4], before: f64) -> (f64, f64) {
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    let cell = logistic(f) * before + logistic(i) * g.tanh();
    (cell, logistic(o) * cell.tanh())
}

/// What [`LstmStep`] leaves behind: gates, cell, its tangent, output.
fn lstm_step(sums: &[f32], before: &[f32]) -> [Vec<f32>; 4] {
    let width = before.len();
    let mut gates = sums.to_vec();
    let (mut cell, mut squashed, mut hidden) = (vec![f32::NAN; width], vec![f32::NAN; width], vec![f32::NAN; width]);
    let step = LstmStep {
        gates: &mut gates,
        cell_before: before,
        cell: &mut cell,
        squashed: &mut squashed,
        hidden: &mut hidden,
    };
    step.run();
    [gates, cell, squashed, hidden]
}

/// The sums of unit `k`, in double precision.
fn sums_of(sums: &[f32], width: usize, k: usize) -> [f64; 4] {
    [0, 1, 2, 3].map(|gate| f64::from(sums[gate * width + k]))
}

proptest! {
    #[test]
    fn an_lstms_step_is_its_formula(width in 1_usize..70, size in 0.1_f32..30.0, padding in 0_usize..20, seed: u64) {
        let mut sums = normals(seed, 4 * width + padding);
        sums.iter_mut().for_each(|x| *x *= size);
        let before = normals(!seed, width);
        let [gates, cell, squashed, hidden] = lstm_step(&sums, &before);
        prop_assert_eq!(bits(&gates[4 * width..]), bits(&sums[4 * width..]));
        for k in 0..width {
            let (cell_k, hidden_k) = unit(sums_of(&sums, width, k), before[k].into());
            // Three or four roundings and two activations, each off by up to 4e-7.
            let error = 2e-6 * (1.0 + f64::from(before[k].abs()));
            prop_assert!((f64::from(cell[k]) - cell_k).abs() <= error);
            prop_assert!((f64::from(squashed[k]) - cell_k.tanh()).abs() <= error);
            prop_assert!((f64::from(hidden[k]) - hidden_k).abs() <= error);
        }
    }

    #[test]
    fn an_lstms_step_back_is_the_slope_of_its_formula(width in 1_usize..70, padding in 0_usize..20, seed: u64) {
        let (sums, before) = (normals(seed, 4 * width), normals(seed ^ 1, width));
        let [gates, _, squashed, _] = lstm_step(&sums, &before);
        let (hidden_grad, after_grad) = (normals(seed ^ 2, width), normals(seed ^ 3, width));
        let (mut cell_grad, mut gates_grad) = (after_grad.clone(), vec![7.0; 4 * width + padding]);
        lstm_step_back(&gates, &before, &squashed, &hidden_grad, &mut cell_grad, &mut gates_grad);
        prop_assert!(gates_grad[4 * width..].iter().all(|&g| g == 7.0));
        for k in 0..width {
            let loss = |sums: [f64; 4], before: f64| {
                let (cell, hidden) = unit(sums, before);
                cell * f64::from(after_grad[k]) + hidden * f64::from(hidden_grad[k])
            };
            let (sums, before) = (sums_of(&sums, width, k), f64::from(before[k]));
            // Central differences are off by about 1e-10, the rest is f32: gradients up to 5, activations off by 4e-7.
            let (h, error) = (1e-5, 1e-5);
            for gate in 0..4 {
                let at = |h: f64| loss(std::array::from_fn(|i| sums[i] + if i == gate { h } else { 0.0 }), before);
                let slope = (at(h) - at(-h)) / (2.0 * h);
                prop_assert!((f64::from(gates_grad[gate * width + k]) - slope).abs() <= error);
            }
            let slope = (loss(sums, before + h) - loss(sums, before - h)) / (2.0 * h);
            prop_assert!((f64::from(cell_grad[k]) - slope).abs() <= error);
        }
    }
}

/// An image of some rows, the number of its channels and its width, for one row of a pool.
fn any_rows() -> impl Strategy<Value = (Vec<f32>, usize, usize)> {
    (1_usize..4, 1_usize..8, 1_usize..3).prop_flat_map(|(rows, width, blocks)| {
        let len = rows * width * blocks * BLOCK;
        (prop::collection::vec(odd_number(), len), Just(width), Just(blocks * BLOCK))
    })
}

/// The place of the first NaN in a window, or else of the first of its largest numbers, and what is there. The window
/// begins at `x`, which may be outside; `None` is a row outside.
fn winner(rows: [Option<&[f32]>; 3], width: usize, channels: usize, x: isize, channel: usize) -> (u8, f32) {
    let mut seen = Vec::new();
    for (dy, row) in rows.into_iter().enumerate() {
        for dx in 0..3 {
            let pixel = usize::try_from(x + dx as isize).ok().filter(|&pixel| pixel < width);
            let (Some(row), Some(pixel)) = (row, pixel) else { continue };
            seen.push(((3 * dy + dx) as u8, row[pixel * channels + channel]));
        }
    }
    let largest = seen.iter().fold(f32::NEG_INFINITY, |max, (_, number)| max.max(*number));
    let nan = seen.iter().find(|(_, number)| number.is_nan());
    *nan.or(seen.iter().find(|(_, number)| *number == largest)).unwrap()
}

proptest! {
    #[test]
    fn a_pool_takes_the_first_of_the_largest_numbers_or_of_nan(
        (image, width, channels) in any_rows(),
        below in any::<bool>(),
        seed: u64,
    ) {
        let rows: Vec<_> = image.chunks_exact(width * channels).collect();
        // Rows that are missing lie above the image or below it; above there can be one.
        let first = usize::from(rows.len() < 3 && !below);
        let window: [_; 3] = std::array::from_fn(|dy| dy.checked_sub(first).and_then(|dy| rows.get(dy).copied()));
        let outputs = width.div_ceil(2);
        let (mut out, mut winners) = (vec![7.0; outputs * channels], vec![77; outputs * channels]);
        max_pool_row(&rows, first, channels, &mut out, &mut winners);
        for (x, channel) in (0..outputs).flat_map(|x| (0..channels).map(move |channel| (x, channel))) {
            let (place, number) = winner(window, width, channels, 2 * x as isize - 1, channel);
            let got = out[x * channels + channel];
            prop_assert_eq!(winners[x * channels + channel], place);
            prop_assert!(got.to_bits() == number.to_bits() || got.is_nan() && number.is_nan());
        }

        // On the way back every gradient goes to the number that won, on top of what others sent there.
        let (grads, before) = (normals(seed, outputs * channels), normals(!seed, width * channels));
        for dy in (0..3).filter(|&dy| window[dy].is_some()) {
            let (mut row, mut expected) = (before.clone(), before.clone());
            max_pool_row_back(&grads, &winners, dy, channels, &mut row);
            for (i, grad) in grads.iter().enumerate().filter(|(i, _)| usize::from(winners[*i]) / 3 == dy) {
                let pixel = 2 * (i / channels) + usize::from(winners[i]) % 3 - 1;
                expected[pixel * channels + i % channels] += grad;
            }
            prop_assert_eq!(bits(&row), bits(&expected));
        }
    }
}

#[test]
fn a_pool_of_nothing_but_minus_infinity_has_its_first_number_for_winner() {
    let row = [f32::NEG_INFINITY; 3 * BLOCK];
    let (mut out, mut winners) = ([7.0; 2 * BLOCK], [77; 2 * BLOCK]);
    max_pool_row(&[&row, &row], 1, BLOCK, &mut out, &mut winners);
    assert_eq!(out, [f32::NEG_INFINITY; 2 * BLOCK]);
    // The first window begins outside, above and to the left of its first number.
    assert_eq!((winners[0], winners[BLOCK]), (4, 3));
}
