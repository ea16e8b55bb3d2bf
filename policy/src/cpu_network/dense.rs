//! A fully connected layer and its gradients.

use super::packing::{Matrix, Packing};
use super::weights::Weights;
use crate::ops::{
    BLOCK, Finish, Group, Left, PANEL, Place, Product, Right, Segment, Start, Values, add_column_sums, cut, padded,
};
use crate::{Activation, ParamLayout, PolicyError, spec};

/// `activate(x · weight + bias)`. Heads on the same features are one layer.
#[derive(Debug)]
pub(super) struct Dense {
    weight: Matrix,
    bias: Matrix,
    /// `[outputs, inputs]`, if the gradient of the input is needed.
    transposed: Option<Matrix>,
    activation: Option<Activation>,
    outputs: usize,
    over_inputs: Vec<Segment>,
    over_outputs: Vec<Segment>,
}

/// Reused memory of a weight gradient.
#[derive(Debug, Default)]
pub(super) struct DenseBuffers {
    segments: Vec<Segment>,
    transposed: Vec<f32>,
}

/// A layer with at most this many outputs computes the transpose of its weight's gradient, since it would
/// fill only a part of a block of columns.
const THIN: usize = BLOCK / 2;

/// The layout of a layer's input.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputRows {
    /// The length of a run of numbers, without and with padding.
    pub(super) run: usize,
    pub(super) padded_run: usize,
    /// The numbers that the layer reads, including padding between runs.
    pub(super) len: usize,
}

impl InputRows {
    /// Numbers without padding between them.
    pub(super) fn plain(len: usize) -> Self {
        Self { run: len, padded_run: len, len }
    }
}

impl Dense {
    /// One layer from several that read the same input, with their columns side by side.
    pub(super) fn new(
        parts: &[&spec::Dense],
        input: InputRows,
        activation: Option<Activation>,
        input_gradient: bool,
        layout: &ParamLayout,
        packing: &mut Packing,
    ) -> Result<Self, PolicyError> {
        let outputs = parts.iter().map(|part| part.outputs).sum();
        // Heads, which have no activation, are exact: probabilities and values are for algorithms to compare.
        let weight = match activation {
            Some(_) => packing.matrix(input.len, outputs),
            None => packing.exact_matrix(input.len, outputs),
        };
        let bias = packing.exact_matrix(1, outputs);
        let mut column = 0;
        for part in parts {
            let runs = (input.run, input.padded_run);
            packing.put(layout, &format!("{}.weight", part.name), weight, column, runs)?;
            packing.put(layout, &format!("{}.bias", part.name), bias, column, (1, 1))?;
            column += part.outputs;
        }
        Ok(Self::of(weight, bias, outputs, activation, input_gradient, packing))
    }

    /// A layer from filled matrices.
    pub(super) fn of(
        weight: Matrix,
        bias: Matrix,
        outputs: usize,
        activation: Option<Activation>,
        input_gradient: bool,
        packing: &mut Packing,
    ) -> Self {
        let inputs = weight.rows;
        let transposed = input_gradient.then(|| {
            let transposed = packing.backward_matrix(outputs, inputs, weight);
            packing.transpose((weight, 0), (inputs, outputs), (transposed, 0));
            transposed
        });
        let (mut over_inputs, mut over_outputs) = (Vec::new(), Vec::new());
        cut(&mut over_inputs, inputs, 1, weight.step());
        if let Some(transposed) = transposed {
            cut(&mut over_outputs, outputs, 1, transposed.step());
        }
        Self { weight, bias, transposed, activation, outputs, over_inputs, over_outputs }
    }

    /// The distance of output rows.
    pub(super) fn output_row(&self) -> usize {
        self.weight.columns
    }

    /// The distance of input rows for [`Dense::input_gradient`].
    pub(super) fn input_row(&self) -> usize {
        padded(self.weight.rows)
    }

    /// Computes `y`, `[rows, output_row]`, from rows of `x` at distance `x_row`.
    pub(super) fn forward(&self, weights: &Weights, rows: usize, (x, x_row): (&[f32], usize), y: &mut [f32]) {
        self.product(weights, rows, (x, x_row)).run(y);
    }

    /// Adds `x · weight`, without bias and activation, to `y`.
    pub(super) fn add_forward(&self, weights: &Weights, rows: usize, (x, x_row): (&[f32], usize), y: &mut [f32]) {
        let (start, finish) = (Start::Out, Finish::Nothing);
        let product = Product { start, finish, ..self.product(weights, rows, (x, x_row)) };
        product.run(y);
    }

    fn product<'a>(&'a self, weights: &'a Weights, rows: usize, (x, x_row): (&'a [f32], usize)) -> Product<'a> {
        Product {
            a: Left { numbers: x, row: x_row, step: 1 },
            b: self.weight.right(&weights.forward),
            out: Place::rows_of(self.output_row()),
            rows,
            columns: self.weight.columns,
            groups: &[Group { a: 0, out: 0, y: 0 }],
            segments: &self.over_inputs,
            start: Start::Bias(&weights.forward.numbers[self.bias.range()]),
            finish: match self.activation {
                None => Finish::Nothing,
                Some(Activation::Tanh) => Finish::Tanh,
                Some(Activation::Relu) => Finish::Relu,
            },
        }
    }

    /// Adds the gradients of weight and bias to a packed gradient. `g` is the gradient before the activation.
    pub(super) fn add_weight_gradient(
        &self,
        rows: usize,
        (x, x_row): (&[f32], usize),
        g: &[f32],
        grad: &mut [f32],
        buffers: &mut DenseBuffers,
    ) {
        let g_row = self.output_row();
        add_column_sums(&g[..rows * g_row], &mut grad[self.bias.range()]);
        let DenseBuffers { segments, transposed } = buffers;
        let columns_of = |numbers, step| Left { numbers, row: 1, step };
        let rounding = self.weight.gradient_rounding();
        let rows_of = |numbers, step| Right { numbers, step, panel: PANEL, rounding };
        let product = Product {
            a: columns_of(x, x_row),
            b: rows_of(g, g_row),
            out: self.weight.place(),
            rows: self.weight.rows,
            columns: self.weight.columns,
            groups: &[Group { a: 0, out: 0, y: 0 }],
            segments: &[],
            start: Start::Out,
            finish: Finish::Nothing,
        };
        if self.outputs > THIN || x_row != self.input_row() {
            cut(segments, rows, x_row, g_row);
            Product { segments, ..product }.run(&mut grad[self.weight.range()]);
            return;
        }
        cut(segments, rows, g_row, x_row);
        transposed.resize(self.outputs * x_row, 0.0);
        let (a, b, out) = (columns_of(g, g_row), rows_of(x, x_row), Place::rows_of(x_row));
        let (rows, columns, start) = (self.outputs, x_row, Start::Zero);
        Product { a, b, out, rows, columns, segments, start, ..product }.run(transposed);
        self.weight.add_transposed(transposed, x_row, self.outputs, &mut grad[self.weight.range()]);
    }

    /// Computes `x_grad`, `[rows, input_row]`, the gradient before the activation `below` whose output is
    /// `y`, in the same layout.
    pub(super) fn input_gradient(
        &self,
        weights: &Weights,
        rows: usize,
        g: &[f32],
        below: Option<(Activation, &[f32])>,
        x_grad: &mut [f32],
    ) {
        let Some(transposed) = self.transposed else { return };
        let place = Place::rows_of(self.input_row());
        let finish = match below {
            None => Finish::Nothing,
            Some((Activation::Relu, y)) => Finish::ReluSlope(Values { numbers: y, place }),
            Some((Activation::Tanh, y)) => Finish::TanhSlope(Values { numbers: y, place }),
        };
        let product = Product {
            a: Left { numbers: g, row: self.output_row(), step: 1 },
            b: transposed.right(&weights.backward),
            out: place,
            rows,
            columns: transposed.columns,
            groups: &[Group::default()],
            segments: &self.over_outputs,
            start: Start::Zero,
            finish,
        };
        product.run(x_grad);
    }
}
