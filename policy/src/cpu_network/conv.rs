//! A convolution and its gradients, without copying windows into columns.
//!
//! In an image with the channels of a pixel together, a row of a window is contiguous, and neighbouring
//! windows are overlapping rows of a matrix: exactly what a [`Product`] reads. With stride 1 the gradient of
//! the input is a convolution of the output's gradient with the reversed kernels; with stride `s` it is `s ×
//! s` of them, one for each *phase* of input pixels, which meet the same entries of the kernels.

use super::image_layout::ImageLayout;
use super::packing::{Matrix, Packing};
use super::weights::Weights;
use crate::ops::{Finish, Group, Left, PANEL, Place, Product, Right, Segment, Start, Values, add_column_sums, cut};
use crate::{ParamLayout, PolicyError, spec};

/// A convolution between layouts.
#[derive(Debug)]
pub(super) struct Conv {
    weight: Matrix,
    bias: Matrix,
    stride: usize,
    /// Its input; the border is the padding.
    pub(super) from: ImageLayout,
    /// Its output.
    pub(super) to: ImageLayout,
    /// The layout of its output's gradient: with a border wide enough for the windows of
    /// [`Conv::input_gradient`].
    pub(super) gradient: ImageLayout,
    forward: Table,
    weight_gradient: Table,
    phases: Vec<Phase>,
}

/// The offsets of a product.
#[derive(Debug, Default)]
struct Table {
    rows: usize,
    groups: Vec<Group>,
    segments: Vec<Segment>,
}

/// The input pixels whose coordinates leave the same remainders when divided by the stride.
#[derive(Debug)]
struct Phase {
    weight: Matrix,
    /// One for all rows of pixels that meet the same rows of kernels.
    tables: Vec<Table>,
}

impl Conv {
    /// A convolution from `from` to `to`. With `input_gradient` it can also compute the gradient of its
    /// input, in this layout.
    pub(super) fn new(
        conv: &spec::Conv,
        from: ImageLayout,
        to: ImageLayout,
        input_gradient: Option<ImageLayout>,
        layout: &ParamLayout,
        packing: &mut Packing,
    ) -> Result<Self, PolicyError> {
        let kernel = conv.kernel;
        // Rounded products need rows of kernels to begin with a whole pair.
        let weight = match kernel * from.channels % 2 {
            0 => packing.matrix(kernel * kernel * from.channels, conv.output.channels),
            _ => packing.exact_matrix(kernel * kernel * from.channels, conv.output.channels),
        };
        let bias = packing.exact_matrix(1, conv.output.channels);
        let runs = (conv.input.channels, from.channels);
        packing.put(layout, &format!("{}.weight", conv.name), weight, 0, runs)?;
        packing.put(layout, &format!("{}.bias", conv.name), bias, 0, (1, 1))?;
        let border = if input_gradient.is_some() { gradient_border(conv) } else { 0 };
        let gradient = ImageLayout::inner(conv.output, border);
        let phases = match input_gradient {
            None => Vec::new(),
            Some(input) => {
                let phases = (0..conv.stride * conv.stride).map(|i| (i / conv.stride, i % conv.stride));
                phases.map(|phase| Phase::new(conv, phase, (from, gradient, input), weight, packing)).collect()
            }
        };
        Ok(Self {
            weight,
            bias,
            stride: conv.stride,
            from,
            to,
            gradient,
            forward: forward_table(conv, from, to, weight),
            weight_gradient: weight_gradient_table(conv, from, gradient, weight),
            phases,
        })
    }

    /// Computes the inside of `y` from `x`.
    pub(super) fn forward(&self, weights: &Weights, x: &[f32], y: &mut [f32], finish: Finish<'_>) {
        self.product(weights, x, finish, Start::Bias(&weights.forward.numbers[self.bias.range()])).run(y);
    }

    /// Adds the result to the inside of `y`.
    pub(super) fn add_forward(&self, weights: &Weights, x: &[f32], y: &mut [f32]) {
        self.product(weights, x, Finish::Nothing, Start::OutAndBias(&weights.forward.numbers[self.bias.range()]))
            .run(y);
    }

    fn product<'a>(&'a self, weights: &'a Weights, x: &'a [f32], finish: Finish<'a>, start: Start<'a>) -> Product<'a> {
        Product {
            a: Left { numbers: x, row: self.stride * self.from.channels, step: 1 },
            b: self.weight.right(&weights.forward),
            out: Place::rows_of(self.to.channels),
            rows: self.forward.rows,
            columns: self.weight.columns,
            groups: &self.forward.groups,
            segments: &self.forward.segments,
            start,
            finish,
        }
    }

    /// Adds the gradients of kernels and bias to a packed gradient. The border of `g` must be zero.
    pub(super) fn add_weight_gradient(&self, x: &[f32], g: &[f32], grad: &mut [f32]) {
        let product = Product {
            a: Left { numbers: x, row: 1, step: self.stride * self.from.channels },
            b: Right {
                numbers: g,
                step: self.gradient.channels,
                panel: PANEL,
                rounding: self.weight.gradient_rounding(),
            },
            out: self.weight.place(),
            rows: self.weight_gradient.rows,
            columns: self.weight.columns,
            groups: &self.weight_gradient.groups,
            segments: &self.weight_gradient.segments,
            start: Start::Out,
            finish: Finish::Nothing,
        };
        product.run(&mut grad[self.weight.range()]);
        add_column_sums(&g[..self.gradient.len()], &mut grad[self.bias.range()]);
    }

    /// Computes the inside of `x_grad`, the gradient of the input. `finish` makes the [`Finish`] from the
    /// input's layout.
    pub(super) fn input_gradient<'a>(
        &self,
        weights: &Weights,
        g: &[f32],
        finish: impl Fn(Place) -> Finish<'a>,
        x_grad: &mut [f32],
    ) {
        let place = Place::rows_of(self.stride * self.from.channels);
        for (weight, table) in
            self.phases.iter().flat_map(|phase| phase.tables.iter().map(|table| (phase.weight, table)))
        {
            let product = Product {
                a: Left { numbers: g, row: self.gradient.channels, step: 1 },
                b: weight.right(&weights.backward),
                out: place,
                rows: table.rows,
                columns: weight.columns,
                groups: &table.groups,
                segments: &table.segments,
                start: Start::Zero,
                finish: finish(place),
            };
            product.run(x_grad);
        }
    }

    /// The slope of the ReLU that made `x`, as the finish of [`Conv::input_gradient`].
    pub(super) fn relu_slope<'a>(x: &'a [f32]) -> impl Fn(Place) -> Finish<'a> {
        move |place| Finish::ReluSlope(Values { numbers: x, place })
    }

    /// The same, added to the result.
    pub(super) fn add_relu_slope<'a>(x: &'a [f32]) -> impl Fn(Place) -> Finish<'a> {
        move |place| Finish::AddReluSlope(Values { numbers: x, place })
    }
}

/// A group for each row of the output, a segment for each row of a kernel.
fn forward_table(conv: &spec::Conv, from: ImageLayout, to: ImageLayout, weight: Matrix) -> Table {
    let group = |y: usize| Group { a: y * conv.stride * from.row(), out: to.at(y.cast_signed(), 0), y: 0 };
    let len = conv.kernel * from.channels;
    let segments = (0..conv.kernel).flat_map(|ky| row_segments(ky * from.row(), ky * len, len, weight.step()));
    Table { rows: to.width, groups: (0..to.height).map(group).collect(), segments: segments.collect() }
}

/// A group for each row of a kernel, a segment for each row of the output.
fn weight_gradient_table(conv: &spec::Conv, from: ImageLayout, gradient: ImageLayout, weight: Matrix) -> Table {
    let rows = conv.kernel * from.channels;
    let group = |ky| Group { a: ky * from.row(), out: ky * rows * weight.step(), y: 0 };
    let segment =
        |y: usize| Segment { a: y * conv.stride * from.row(), b: gradient.at(y.cast_signed(), 0), len: gradient.width };
    Table { rows, groups: (0..conv.kernel).map(group).collect(), segments: (0..gradient.height).map(segment).collect() }
}

/// A row of a window at `a`, against the rows of a matrix from `b_row` on, cut like long sums.
fn row_segments(a: usize, b_row: usize, len: usize, b_step: usize) -> Vec<Segment> {
    let mut segments = Vec::new();
    cut(&mut segments, len, 1, b_step);
    segments.iter_mut().for_each(|segment| {
        segment.a += a;
        segment.b += b_row * b_step;
    });
    segments
}

/// How far the windows of the input's gradient reach beyond the output.
fn gradient_border(conv: &spec::Conv) -> usize {
    let taps = conv.kernel.div_ceil(conv.stride);
    let before = (taps - 1).saturating_sub(conv.padding / conv.stride);
    let side = |input: usize, output: usize| ((input - 1 + conv.padding) / conv.stride + 1).saturating_sub(output);
    let after = side(conv.input.height, conv.output.height).max(side(conv.input.width, conv.output.width));
    before.max(after)
}

impl Phase {
    /// The phase of the pixels at `phase_y` and `phase_x` modulo the stride, including padding.
    fn new(
        conv: &spec::Conv,
        (phase_y, phase_x): (usize, usize),
        (from, gradient, input): (ImageLayout, ImageLayout, ImageLayout),
        weight: Matrix,
        packing: &mut Packing,
    ) -> Self {
        let (stride, padding) = (conv.stride, conv.padding);
        // Entries of a kernel that meet these pixels: kernels are at least as wide as their stride.
        let taps = |phase: usize| (conv.kernel - phase).div_ceil(stride);
        let (taps_y, taps_x) = (taps(phase_y), taps(phase_x));
        let channels = gradient.channels;
        let turned = packing.backward_matrix(taps_y * taps_x * channels, from.channels, weight);
        for i in 0..taps_y {
            for j in 0..taps_x {
                // Reversed: the last entry met the first pixel of the window.
                let (ky, kx) = (phase_y + stride * (taps_y - 1 - i), phase_x + stride * (taps_x - 1 - j));
                let tap = (ky * conv.kernel + kx) * from.channels;
                let to_row = (i * taps_x + j) * channels;
                packing.transpose((weight, tap), (from.channels, channels), (turned, to_row));
            }
        }
        let first = |phase: usize| (phase + stride - padding % stride) % stride;
        let window = |pixel: usize, taps: usize| ((pixel + padding) / stride).cast_signed() - (taps.cast_signed() - 1);
        let x = first(phase_x);
        let (len, rows) = (taps_x * channels, from.width.saturating_sub(x).div_ceil(stride));
        // The rows of a window inside the image: those above and below are zero.
        let inside = |y| {
            let top = window(y, taps_y);
            let end = (gradient.height.cast_signed() - top).clamp(0, taps_y.cast_signed());
            (-top).clamp(0, end).cast_unsigned()..end.cast_unsigned()
        };
        let pixels: Vec<_> = (first(phase_y)..from.height).step_by(stride).collect();
        let tables = pixels.chunk_by(|&above, &below| inside(above) == inside(below)).map(|pixels| {
            let groups = pixels.iter().map(|&y| {
                let (row, column) = (y.cast_signed(), x.cast_signed());
                let a = gradient.at(window(y, taps_y), window(x, taps_x));
                Group { a, out: input.at(row, column), y: from.at(row, column) }
            });
            let rows_of_windows = pixels.first().map_or(0..0, |&y| inside(y));
            let segments = rows_of_windows.flat_map(|i| row_segments(i * gradient.row(), i * len, len, turned.step()));
            Table { rows, groups: groups.collect(), segments: segments.collect() }
        });
        Self { weight: turned, tables: tables.collect() }
    }
}
