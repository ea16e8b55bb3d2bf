//! Products against their formula in double precision, with every set of instructions that the machine has.

#![allow(clippy::unwrap_used)]

mod rounded;

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use super::*;
use crate::Rng;

/// The offsets of a product, and a seed for its numbers.
#[derive(Clone, Debug)]
struct Shape {
    rows: usize,
    columns: usize,
    /// Distances in the left operand.
    row: usize,
    step: usize,
    /// Where the groups begin in the left operand.
    groups: Vec<usize>,
    /// Where the segments begin in the left operand, at which row of the right one, and their length.
    segments: Vec<(usize, usize, usize)>,
    b_lies: Lies,
    out_lies: Lies,
    seed: u64,
}

/// How a matrix lies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lies {
    /// Panel after panel.
    Panels,
    /// Row after row, with so many numbers between them.
    Rows(usize),
    /// The rows of all groups in turn, as a phase of a convolution writes them.
    Interleaved,
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let columns = prop::sample::select(vec![16_usize, 32, 64, 128, 192]);
    // Rows as in a convolution and in a dense layer; terms as in both, and in the gradient of weights.
    let left = prop_oneof![(0_usize..200, Just(1_usize)), (Just(1_usize), 0_usize..90)];
    let groups = prop::collection::vec(0_usize..300, 0..4);
    // Up to 6 × 160 terms: of a whole panel, far more numbers than are summed at once.
    let segments = prop::collection::vec((0_usize..300, 0_usize..300, 0_usize..160), 0..7);
    let lies = || prop_oneof![Just(Lies::Panels), (0_usize..40).prop_map(Lies::Rows), Just(Lies::Interleaved)];
    (1_usize..60, columns, left, groups, segments, lies(), lies(), any::<u64>()).prop_map(
        |(rows, columns, (row, step), groups, segments, b_lies, out_lies, seed)| Shape {
            rows,
            columns,
            row,
            step,
            groups,
            segments,
            b_lies,
            out_lies,
            seed,
        },
    )
}

/// The operands of a product, each exactly as long as it must be.
struct Operands {
    shape: Shape,
    a: Vec<f32>,
    b: Vec<f32>,
    b_place: Place,
    bias: Vec<f32>,
    y: Vec<f32>,
    y_place: Place,
    /// What is there before.
    out: Vec<f32>,
    out_place: Place,
    groups: Vec<Group>,
    segments: Vec<Segment>,
}

impl Operands {
    fn new(shape: Shape) -> Self {
        let (rows, columns, sets) = (shape.rows, shape.columns, shape.groups.len());
        let terms = shape.segments.iter().map(|(_, b, len)| b + len).max().unwrap_or(0).max(1);
        let (b_place, _) = place(shape.b_lies, terms, columns, 1);
        let (out_place, out_step) = place(shape.out_lies, rows, columns, sets);
        let (y_place, y_step) = place(Lies::Rows(BLOCK), rows, columns, sets);
        let groups = shape.groups.iter().enumerate();
        let groups: Vec<_> = groups.map(|(g, &a)| Group { a, out: g * out_step, y: g * y_step }).collect();
        let segment = |&(a, b, len)| Segment { a, b: b * b_place.row, len };
        let segments: Vec<_> = shape.segments.iter().map(segment).collect();

        let group_a = shape.groups.iter().max().copied().unwrap_or(0);
        let last_of_a = |s: &Segment| group_a + s.a + (rows - 1) * shape.row + (s.len - 1) * shape.step;
        let a_len = segments.iter().filter(|s| s.len > 0).map(last_of_a).max().map_or(0, |last| last + 1);
        let result_len = |place: Place, step| (sets.max(1) - 1) * step + place.last(rows, columns) + 1;
        let mut rng = Rng::seed_from(shape.seed);
        let mut normals = |len| (0..len).map(|_| rng.normal() as f32).collect::<Vec<_>>();
        let (a, b) = (normals(a_len), normals(b_place.last(terms, columns) + 1));
        let (bias, out) = (normals(columns), normals(result_len(out_place, out_step)));
        // Values of an activation: some are zero, none is beyond one.
        let y = normals(result_len(y_place, y_step)).into_iter();
        let y = y.map(|y| if (0.0..0.5).contains(&y) { 0.0 } else { y.clamp(-1.0, 1.0) }).collect();
        Self { shape, a, b, b_place, bias, y, y_place, out, out_place, groups, segments }
    }

    fn product<'a>(&'a self, start: Start<'a>, finish: Finish<'a>) -> Product<'a> {
        Product {
            a: Left { numbers: &self.a, row: self.shape.row, step: self.shape.step },
            b: Right { numbers: &self.b, step: self.b_place.row, panel: self.b_place.panel, rounding: Rounding::Exact },
            out: self.out_place,
            rows: self.shape.rows,
            columns: self.shape.columns,
            groups: &self.groups,
            segments: &self.segments,
            start,
            finish,
        }
    }

    fn starts(&self) -> [Start<'_>; 4] {
        [Start::Zero, Start::Bias(&self.bias), Start::Out, Start::OutAndBias(&self.bias)]
    }

    fn finishes(&self) -> [Finish<'_>; 6] {
        let y = Values { numbers: &self.y, place: self.y_place };
        [
            Finish::Nothing,
            Finish::Relu,
            Finish::Tanh,
            Finish::ReluSlope(y),
            Finish::TanhSlope(y),
            Finish::AddReluSlope(y),
        ]
    }

    /// The sums of the formula without start and finish.
    fn sums(&self) -> Vec<Sum> {
        let (Shape { rows, columns, row, step, .. }, b_place) = (&self.shape, self.b_place);
        let mut sums = Vec::new();
        for g in &self.groups {
            for (i, j) in (0..*rows).flat_map(|i| (0..*columns).map(move |j| (i, j))) {
                let at = |place: Place| i * place.row + j / PANEL * place.panel + j % PANEL;
                let (mut value, mut size) = (0.0, 0.0);
                for s in &self.segments {
                    for p in 0..s.len {
                        let a = self.a[g.a + s.a + i * row + p * step];
                        let b = self.b[s.b + p * b_place.row + j / PANEL * b_place.panel + j % PANEL];
                        let term = f64::from(a) * f64::from(b);
                        value += term;
                        size += term.abs();
                    }
                }
                sums.push(Sum { out: g.out + at(self.out_place), y: g.y + at(self.y_place), column: j, value, size });
            }
        }
        sums
    }
}

/// The place of a matrix, and how far the next group's is.
fn place(lies: Lies, rows: usize, columns: usize, groups: usize) -> (Place, usize) {
    match lies {
        Lies::Panels => (Place { row: columns.min(PANEL), panel: rows * PANEL }, rows * columns),
        Lies::Rows(gap) => (Place::rows_of(columns + gap), rows * (columns + gap)),
        Lies::Interleaved => (Place::rows_of(columns * groups), columns),
    }
}

/// One sum: where it goes and where its value is, its column, what it is and what its terms are without their
/// signs.
struct Sum {
    out: usize,
    y: usize,
    column: usize,
    value: f64,
    size: f64,
}

impl Sum {
    /// What the product should put into its place, and how far it may be off: 1e-5 of all that was added, for
    /// a thousand roundings of 6e-8 that mostly cancel, and what the tangent is off. No finish has a slope
    /// above one.
    fn finished(&self, start: Start<'_>, finish: Finish<'_>, before: &[f32]) -> (f64, f64) {
        let bias = start.bias().map_or(0.0, |bias| f64::from(bias[self.column]));
        let out = f64::from(before[self.out]);
        let held = if matches!(start, Start::Out | Start::OutAndBias(_)) { out } else { 0.0 };
        let (sum, size) = (self.value + bias + held, self.size + bias.abs() + held.abs());
        let value = |y: Values<'_>| f64::from(y.numbers[self.y]);
        let relu_slope = |y| if value(y) > 0.0 { sum } else { 0.0 };
        match finish {
            Finish::Nothing => (sum, 1e-5 * size),
            Finish::Relu => (sum.max(0.0), 1e-5 * size),
            Finish::Tanh => (sum.tanh(), 1e-5 * size + TANH_ERROR),
            Finish::ReluSlope(y) => (relu_slope(y), 1e-5 * size),
            Finish::TanhSlope(y) => (sum * (1.0 - value(y).powi(2)), 1e-5 * size),
            Finish::AddReluSlope(y) => (out + relu_slope(y), 1e-5 * (size + out.abs())),
        }
    }
}

/// How far the tangent may be off.
const TANH_ERROR: f64 = 4e-7;

/// The result with each set of instructions by its name, and with the one that is chosen.
fn with_all_instructions(product: Product<'_>, before: &[f32]) -> Vec<(&'static str, Vec<f32>)> {
    let mut chosen = before.to_vec();
    product.run(&mut chosen);
    let mut results = vec![
        ("those chosen", chosen),
        ("those of every machine", with(pulp::Scalar::new(), product, before)),
        // As wide as NEON's registers.
        ("four at a time", with(pulp::Scalar128b, product, before)),
    ];
    // AVX-512 is chosen where there is any.
    #[cfg(target_arch = "x86_64")]
    results.extend(pulp::x86::V3::try_new().map(|simd| ("AVX2", with(simd, product, before))));
    results
}

fn with<S: Simd>(simd: S, product: Product<'_>, before: &[f32]) -> Vec<f32> {
    let mut out = before.to_vec();
    simd.vectorize(Run { product, out: &mut out });
    out
}

/// Checks that a product with all instructions gives these sums, finished, and touches nothing else.
fn is_finished(sums: &[Sum], product: Product<'_>, before: &[f32]) -> Result<(), TestCaseError> {
    // None where nothing may be touched.
    let mut expected = vec![None; before.len()];
    sums.iter().for_each(|sum| expected[sum.out] = Some(sum.finished(product.start, product.finish, before)));
    for (instructions, out) in with_all_instructions(product, before) {
        for (i, got) in out.into_iter().enumerate() {
            match expected[i] {
                None => prop_assert_eq!(got.to_bits(), before[i].to_bits(), "touched: {}", i),
                Some((value, error)) => prop_assert!(
                    (f64::from(got) - value).abs() <= error,
                    "{instructions}: number {i} is {got} instead of {value} ± {error}"
                ),
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 192 }, ..ProptestConfig::default() })]

    #[test]
    fn a_product_is_its_formula_with_all_instructions(shape in any_shape(), finish in 0_usize..6) {
        let operands = Operands::new(shape);
        let (sums, finish) = (operands.sums(), operands.finishes()[finish]);
        for start in operands.starts() {
            is_finished(&sums, operands.product(start, finish), &operands.out)?;
        }
    }

    #[test]
    fn a_sum_that_is_cut_has_all_its_terms_once(len in 0_usize..2000, a_step in 0_usize..50, b_step in 0_usize..50) {
        let mut segments = vec![Segment { a: 7, b: 7, len: 7 }];
        cut(&mut segments, len, a_step, b_step);
        let mut next = 0;
        for Segment { a, b, len } in segments {
            prop_assert_eq!((a, b), (next * a_step, next * b_step));
            // A whole panel of so many terms stays in the cache.
            prop_assert!(0 < len && len * PANEL <= CACHED);
            next += len;
        }
        prop_assert_eq!(next, len);
    }
}

/// A product of `a`, a number for each row, and nothing but ones.
fn of_one_term(a: &[f32], finish: Finish<'_>) -> Vec<(&'static str, Vec<f32>)> {
    let product = Product {
        a: Left { numbers: a, row: 1, step: 1 },
        b: Right { numbers: &[1.0; PANEL], step: PANEL, panel: PANEL, rounding: Rounding::Exact },
        out: Place::rows_of(PANEL),
        rows: a.len(),
        columns: PANEL,
        groups: &[Group::default()],
        segments: &[Segment { a: 0, b: 0, len: 1 }],
        start: Start::Zero,
        finish,
    };
    with_all_instructions(product, &vec![0.5; a.len() * PANEL])
}

/// The tangent of each number as the activations of an LSTM compute it.
struct Tanh<'a>(&'a [f32]);

impl WithSimd for Tanh<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
        let mut numbers = self.0.to_vec();
        let (body, tail) = S::as_mut_simd_f32s(&mut numbers);
        assert!(tail.is_empty(), "whole registers");
        body.iter_mut().for_each(|x| *x = tanh_of_each(simd, *x));
        numbers
    }
}

/// The tangent of each number by its ways through the kernels. There must be whole registers of numbers.
fn all_tanh(numbers: &[f32]) -> Vec<(&'static str, Vec<f32>)> {
    let rows = of_one_term(numbers, Finish::Tanh).into_iter();
    let mut ways: Vec<_> = rows.map(|(name, out)| (name, out.into_iter().step_by(PANEL).collect())).collect();
    ways.push(("one by one", pulp::Arch::new().dispatch(Tanh(numbers))));
    ways
}

#[test]
fn the_tangent_is_right_in_all_its_digits() {
    // Steps of 2⁻⁸ to ±16, then powers of two from the smallest normal number to the largest.
    let dense = (-4096..4096).map(|i| i as f32 / 256.0);
    let powers = (-126..=127).flat_map(|power| [2.0_f32.powi(power), -1.1 * 2.0_f32.powi(power)]);
    let mut numbers: Vec<f32> = dense.chain(powers).collect();
    numbers.resize(numbers.len().next_multiple_of(BLOCK), f32::MAX);
    for (way, got) in all_tanh(&numbers) {
        for (x, y) in numbers.iter().zip(got) {
            let expected = f64::from(*x).tanh();
            // Where numbers have fewer digits, so has the result.
            let error = TANH_ERROR * expected.abs().max(1e-30);
            assert!((f64::from(y) - expected).abs() <= error && y.abs() <= 1.0, "{way}: tanh({x}) gave {y}");
        }
    }
}

#[test]
fn the_tangent_of_special_numbers_is_special() {
    // As many of each as a register holds.
    let specials = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MIN_POSITIVE / 8.0];
    let numbers: Vec<f32> = specials.into_iter().flat_map(|x| [x; BLOCK]).collect();
    for (way, got) in all_tanh(&numbers) {
        for (&x, y) in numbers.iter().zip(got) {
            match x {
                _ if x.is_nan() => assert!(y.is_nan(), "{way}: tanh(NaN) gave {y}"),
                // A sum that starts from 0 loses the sign of -0.
                _ if x == 0.0 => assert_eq!(y, 0.0, "{way}"),
                _ => assert!((f64::from(y) - f64::from(x).tanh()).abs() <= TANH_ERROR, "{way}: tanh({x}) gave {y}"),
            }
        }
    }
    let minus_zeros = pulp::Arch::new().dispatch(Tanh(&[-0.0; BLOCK]));
    assert!(minus_zeros.iter().all(|y| y.to_bits() == (-0.0_f32).to_bits()));
}

#[test]
fn nan_stays_nan_in_its_row_and_nowhere_else() {
    // One row more than any tile has.
    let mut a = [1.0; 15];
    a[4] = f32::NAN;
    let ones = [1.0; 15 * PANEL];
    let y = Values { numbers: &ones, place: Place::rows_of(PANEL) };
    let finishes = [
        Finish::Nothing,
        Finish::Relu,
        Finish::Tanh,
        Finish::ReluSlope(y),
        Finish::TanhSlope(y),
        Finish::AddReluSlope(y),
    ];
    for finish in finishes {
        for (instructions, out) in of_one_term(&a, finish) {
            let rows = out.chunks_exact(PANEL).enumerate();
            rows.for_each(|(i, row)| assert!(row.iter().all(|x| x.is_nan() == (i == 4)), "{instructions}, {finish:?}"));
        }
    }
}

#[test]
fn a_value_that_is_nan_lets_the_gradient_through_or_makes_it_nan() {
    let values = [f32::NAN; PANEL];
    let y = Values { numbers: &values, place: Place::rows_of(PANEL) };
    for (_, out) in of_one_term(&[2.0], Finish::ReluSlope(y)) {
        assert_eq!(out, [2.0; PANEL]);
    }
    for (_, out) in of_one_term(&[2.0], Finish::TanhSlope(y)) {
        assert!(out.iter().all(|x| x.is_nan()));
    }
}

#[test]
fn a_product_of_nothing_touches_nothing() {
    let numbers = [1.0; PANEL];
    let product = Product {
        a: Left { numbers: &[], row: 1, step: 1 },
        b: Right { numbers: &[], step: PANEL, panel: PANEL, rounding: Rounding::Exact },
        out: Place::rows_of(PANEL),
        rows: 1,
        columns: PANEL,
        groups: &[Group::default()],
        segments: &[],
        start: Start::Zero,
        finish: Finish::Nothing,
    };
    let empty = [Product { rows: 0, ..product }, Product { columns: 0, ..product }, Product { groups: &[], ..product }];
    for product in empty {
        assert!(with_all_instructions(product, &numbers).iter().all(|(_, out)| *out == numbers));
    }
    // A sum without terms is a sum nevertheless.
    assert!(with_all_instructions(product, &numbers).iter().all(|(_, out)| *out == [0.0; PANEL]));
}

#[test]
fn an_offset_that_leads_out_of_a_slice_is_refused() {
    let shape = Shape {
        rows: 5,
        columns: 128,
        row: 3,
        step: 1,
        groups: vec![2, 9],
        segments: vec![(0, 0, 4), (11, 4, 6)],
        b_lies: Lies::Panels,
        out_lies: Lies::Panels,
        seed: 0,
    };
    let operands = Operands::new(shape);
    let refused = |product: Product<'_>, out_len: usize| {
        let mut out = operands.out[..out_len].to_vec();
        let panic = catch_unwind(AssertUnwindSafe(|| product.run(&mut out))).unwrap_err();
        *panic.downcast::<&str>().unwrap()
    };
    let [.., finish] = operands.finishes();
    let good = operands.product(Start::Bias(&operands.bias), finish);
    good.run(&mut operands.out.clone());

    let all = operands.out.len();
    assert_eq!(refused(good, all - 1), "the result lies inside its slice");
    let a = Left { numbers: &operands.a[1..], ..good.a };
    assert_eq!(refused(Product { a, ..good }, all), "the left operand lies inside its slice");
    let b = Right { numbers: &operands.b[1..], ..good.b };
    assert_eq!(refused(Product { b, ..good }, all), "the right operand lies inside its slice");
    let start = Start::OutAndBias(&operands.bias[1..]);
    assert_eq!(refused(Product { start, ..good }, all), "there is a bias for every column");
    let y = Values { numbers: &operands.y[1..], place: operands.y_place };
    for finish in [Finish::ReluSlope(y), Finish::TanhSlope(y), Finish::AddReluSlope(y)] {
        assert_eq!(refused(Product { finish, ..good }, all), "there is a value for every number");
    }
    // An offset below zero, as a border that is too narrow makes it: the index must not wrap around into the
    // slice.
    let below = 0_usize.wrapping_sub(4);
    let groups = [Group { a: below, ..Group::default() }];
    assert_eq!(refused(Product { groups: &groups, ..good }, all), "the left operand lies inside its slice");
    let groups = [Group { out: below, ..Group::default() }];
    assert_eq!(refused(Product { groups: &groups, ..good }, all), "the result lies inside its slice");
    let groups = [Group { y: below, ..Group::default() }];
    assert_eq!(refused(Product { groups: &groups, ..good }, all), "there is a value for every number");
    let segments = [Segment { a: 0, b: below, len: 4 }];
    assert_eq!(refused(Product { segments: &segments, ..good }, all), "the right operand lies inside its slice");
    for columns in [17, 48, 80] {
        assert_eq!(refused(Product { columns, ..good }, all), "columns are padded");
    }
}
