//! The LSTM over the steps of a batch, forward and backward.

use super::dense::{Dense, DenseBuffers, InputRows};
use super::packing::Packing;
use super::weights::Weights;
use crate::ops::{LstmStep, add, lstm_step_back};
use crate::{Activation, ParamLayout, PolicyError, spec};

/// An LSTM: gates i, f, g and o from the features and from its own last output.
#[derive(Debug)]
pub(super) struct Lstm {
    input: Dense,
    /// Its bias is zero.
    hidden: Dense,
    width: usize,
    state_offset: usize,
}

/// Activations of a micro-batch: a row for every step and column.
#[derive(Debug, Default)]
pub(super) struct LstmActivations {
    gates: Vec<f32>,
    hidden_before: Vec<f32>,
    cell_before: Vec<f32>,
    squashed: Vec<f32>,
    /// The output.
    pub(super) hidden: Vec<f32>,
}

/// Reused scratch buffers.
#[derive(Debug, Default)]
pub(super) struct LstmBuffers {
    cell: Vec<f32>,
    cell_grad: Vec<f32>,
    hidden_grad: Vec<f32>,
    gates_grad: Vec<f32>,
}

/// Steps, columns, and starts of episodes of a micro-batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps<'a> {
    pub(super) columns: usize,
    pub(super) starts: &'a [bool],
}

/// The input of an LSTM: rows of features, their distance and their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence<'a> {
    pub(super) rows: usize,
    pub(super) features: (&'a [f32], usize),
    pub(super) steps: Steps<'a>,
}

impl Lstm {
    pub(super) fn new(
        lstm: &spec::Lstm,
        input: InputRows,
        input_gradient: bool,
        layout: &ParamLayout,
        packing: &mut Packing,
    ) -> Result<Self, PolicyError> {
        let (name, gates) = (&lstm.name, 4 * lstm.width);
        let runs = (input.run, input.padded_run);
        let (weight, bias) = (packing.matrix(input.len, gates), packing.exact_matrix(1, gates));
        packing.put(layout, &format!("{name}.input.weight"), weight, 0, runs)?;
        packing.put(layout, &format!("{name}.bias"), bias, 0, (1, 1))?;
        let (hidden, zero) = (packing.matrix(lstm.width, gates), packing.exact_matrix(1, gates));
        packing.put(layout, &format!("{name}.hidden.weight"), hidden, 0, (lstm.width, lstm.width))?;
        Ok(Self {
            input: Dense::of(weight, bias, gates, None, input_gradient, packing),
            hidden: Dense::of(hidden, zero, gates, None, true, packing),
            width: lstm.width,
            state_offset: lstm.state_offset,
        })
    }

    /// The distance of output rows.
    pub(super) fn output_row(&self) -> usize {
        self.hidden.input_row()
    }

    /// The distance of gate rows.
    pub(super) fn gates_row(&self) -> usize {
        self.input.output_row()
    }

    /// The distance of input rows for their gradient.
    pub(super) fn input_row(&self) -> usize {
        self.input.input_row()
    }

    /// Computes the activations, and updates `state`, `[columns, state_len]`.
    pub(super) fn forward(
        &self,
        weights: &Weights,
        Sequence { rows, features, steps }: Sequence<'_>,
        (state, state_len): (&mut [f32], usize),
        activations: &mut LstmActivations,
        buffers: &mut LstmBuffers,
    ) {
        let (row, gates_row, columns) = (self.output_row(), self.gates_row(), steps.columns);
        activations.gates.resize(rows * gates_row, 0.0);
        for numbers in [
            &mut activations.hidden_before,
            &mut activations.cell_before,
            &mut activations.squashed,
            &mut activations.hidden,
        ] {
            numbers.resize(rows * row, 0.0);
        }
        buffers.cell.resize(columns * row, 0.0);
        self.input.forward(weights, rows, features, &mut activations.gates);
        for first in (0..rows).step_by(columns.max(1)) {
            for column in 0..columns {
                let at = (first + column) * row;
                let (hidden, cell) = (&mut activations.hidden_before[at..], &mut activations.cell_before[at..]);
                if steps.starts[first + column] {
                    hidden[..self.width].fill(0.0);
                    cell[..self.width].fill(0.0);
                } else {
                    let state = &state[column * state_len + self.state_offset..];
                    hidden[..self.width].copy_from_slice(&state[..self.width]);
                    cell[..self.width].copy_from_slice(&state[self.width..2 * self.width]);
                }
            }
            let gates = &mut activations.gates[first * gates_row..(first + columns) * gates_row];
            self.hidden.add_forward(weights, columns, (&activations.hidden_before[first * row..], row), gates);
            for (column, gates) in gates.chunks_exact_mut(gates_row).enumerate() {
                let at = (first + column) * row..(first + column) * row + self.width;
                let cell = &mut buffers.cell[column * row..][..self.width];
                let step = LstmStep {
                    gates,
                    cell_before: &activations.cell_before[at.clone()],
                    cell,
                    squashed: &mut activations.squashed[at.clone()],
                    hidden: &mut activations.hidden[at.clone()],
                };
                step.run();
                let state = &mut state[column * state_len + self.state_offset..];
                state[..self.width].copy_from_slice(&activations.hidden[at]);
                state[self.width..2 * self.width].copy_from_slice(&buffers.cell[column * row..][..self.width]);
            }
        }
    }

    /// Adds the gradients to a packed gradient, and leaves those of the gates in the buffers.
    pub(super) fn backward(
        &self,
        weights: &Weights,
        Sequence { rows, features, steps }: Sequence<'_>,
        activations: &LstmActivations,
        (output_grad, grad): (&[f32], &mut [f32]),
        (buffers, dense_buffers): (&mut LstmBuffers, &mut DenseBuffers),
    ) {
        let (row, gates_row, columns) = (self.output_row(), self.gates_row(), steps.columns);
        buffers.gates_grad.resize(rows * gates_row, 0.0);
        for numbers in [&mut buffers.cell_grad, &mut buffers.hidden_grad] {
            numbers.clear();
            numbers.resize(columns * row, 0.0);
        }
        for first in (0..rows).step_by(columns.max(1)).rev() {
            // The gradients from later steps and from the heads.
            add(&output_grad[first * row..(first + columns) * row], &mut buffers.hidden_grad);
            let gates_grad = &mut buffers.gates_grad[first * gates_row..(first + columns) * gates_row];
            for (column, gates_grad) in gates_grad.chunks_exact_mut(gates_row).enumerate() {
                let at = (first + column) * row;
                lstm_step_back(
                    &activations.gates[(first + column) * gates_row..],
                    &activations.cell_before[at..],
                    &activations.squashed[at..],
                    &buffers.hidden_grad[column * row..],
                    &mut buffers.cell_grad[column * row..][..self.width],
                    gates_grad,
                );
            }
            if first > 0 {
                self.hidden.input_gradient(weights, columns, gates_grad, None, &mut buffers.hidden_grad);
                for column in (0..columns).filter(|column| steps.starts[first + column]) {
                    buffers.hidden_grad[column * row..][..row].fill(0.0);
                    buffers.cell_grad[column * row..][..row].fill(0.0);
                }
            }
        }
        self.hidden.add_weight_gradient(
            rows,
            (&activations.hidden_before, row),
            &buffers.gates_grad,
            grad,
            dense_buffers,
        );
        self.input.add_weight_gradient(rows, features, &buffers.gates_grad, grad, dense_buffers);
    }

    /// After [`Lstm::backward`], computes `x_grad` as [`Dense::input_gradient`] does.
    pub(super) fn input_gradient(
        &self,
        weights: &Weights,
        rows: usize,
        buffers: &LstmBuffers,
        below: Option<(Activation, &[f32])>,
        x_grad: &mut [f32],
    ) {
        self.input.input_gradient(weights, rows, &buffers.gates_grad, below, x_grad);
    }
}
