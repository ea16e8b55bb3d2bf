//! [`MicroBatch`]: rows of a batch with their activations, for any thread.

use super::lstm::Steps;
use super::observations::{Observations, Reading, Span};
use super::tower::{Activations, Keep, Scratch, Tower};
use super::weights::Weights;
use crate::{Input, OutputGrads, Outputs};

/// Rows of a batch with their activations and gradients.
#[derive(Debug, Default)]
pub(super) struct MicroBatch {
    span: Span,
    obs: Observations,
    starts: Vec<bool>,
    /// The state before the first step, later after the last.
    state: Vec<f32>,
    state_len: usize,
    activations: Vec<Activations>,
    /// Logits and values of its rows.
    outputs: Outputs,
    grads: OutputGrads,
}

impl MicroBatch {
    /// Copies its rows from a batch.
    pub(super) fn load(&mut self, input: &Input<'_>, span: Span, reading: &Reading, state_len: usize) {
        self.span = span;
        self.obs.load(input, span, reading);
        self.starts.clear();
        self.state.clear();
        self.state_len = state_len;
        if let Some(memory) = input.memory {
            for row in span.first_rows() {
                self.starts.extend_from_slice(&memory.starts[row..row + span.columns]);
            }
            let columns = span.first_column * state_len..(span.first_column + span.columns) * state_len;
            self.state.extend_from_slice(&memory.state[columns]);
        }
    }

    /// Runs its rows through the towers.
    pub(super) fn forward(&mut self, towers: &[Tower], weights: &Weights, keep: Keep, scratch: &mut Scratch) {
        self.activations.resize_with(towers.len(), Activations::default);
        let steps = Steps { columns: self.span.columns, starts: &self.starts };
        let Outputs { logits, values, .. } = &mut self.outputs;
        for (tower, activations) in towers.iter().zip(&mut self.activations) {
            let state = (self.state.as_mut_slice(), self.state_len);
            tower.forward(weights, &self.obs, (steps, state), keep, activations, scratch);
            let head = activations.head.as_slice();
            read_columns((head, tower.head_row()), 0, tower.logits, logits);
            read_columns((head, tower.head_row()), tower.logits, tower.values, values);
        }
    }

    /// Adds the gradients of its rows to a packed gradient.
    pub(super) fn backward(&mut self, towers: &[Tower], weights: &Weights, grad: &mut [f32], scratch: &mut Scratch) {
        let learned = self.learned();
        if learned == 0 {
            return;
        }
        let steps = Steps { columns: self.span.columns, starts: &self.starts };
        for (tower, activations) in towers.iter().zip(&mut self.activations) {
            let (row, rows) = (tower.head_row(), self.span.rows());
            activations.head_grad.resize(rows * row, 0.0);
            write_columns(&self.grads.logits, tower.logits, 0, (&mut activations.head_grad, row));
            write_columns(&self.grads.values, tower.values, tower.logits, (&mut activations.head_grad, row));
            tower.backward(weights, (&self.obs, learned), steps, grad, activations, scratch);
        }
    }

    /// The rows up to the last one with a gradient; of a recurrent network in whole steps. The rows after the
    /// last step, whose values only bootstrap, would add zeros.
    fn learned(&self) -> usize {
        let OutputGrads { logits, values } = &self.grads;
        let rows_of = |grads: &[f32], rows: usize| {
            let width = grads.len().checked_div(rows).unwrap_or(0).max(1);
            grads.iter().rposition(|&g| g != 0.0).map_or(0, |last| last / width + 1)
        };
        let rows = self.span.rows();
        let learned = rows_of(logits, rows).max(rows_of(values, rows));
        let is_recurrent = self.state_len > 0;
        learned.next_multiple_of(if is_recurrent { self.span.columns } else { 1 })
    }

    /// Copies its outputs into those of the batch.
    pub(super) fn put_outputs(&self, out: &mut Outputs) {
        let Outputs { logits, values, .. } = &self.outputs;
        self.span.put_rows(logits, &mut out.logits);
        self.span.put_rows(values, &mut out.values);
        let columns =
            self.span.first_column * self.state_len..(self.span.first_column + self.span.columns) * self.state_len;
        if !self.state.is_empty() {
            out.state[columns].copy_from_slice(&self.state);
        }
    }

    /// Copies its rows of the outputs' gradients.
    pub(super) fn take_grads(&mut self, grads: &OutputGrads) {
        self.span.take_rows(&grads.logits, &mut self.grads.logits);
        self.span.take_rows(&grads.values, &mut self.grads.values);
    }
}

/// Reads columns of the rows of a head, from the first one on; nothing if another tower has them all.
fn read_columns((head, row): (&[f32], usize), first: usize, columns: usize, to: &mut Vec<f32>) {
    if columns > 0 {
        to.resize(head.len() / row * columns, 0.0);
    }
    if columns > 0 && !head.is_empty() {
        copy_columns((&head[first..], row), (to, columns), columns);
    }
}

/// Writes columns of the rows of a head's gradient, as [`read_columns`].
fn write_columns(from: &[f32], columns: usize, first: usize, (head, row): (&mut [f32], usize)) {
    if columns > 0 && !head.is_empty() {
        copy_columns((from, columns), (&mut head[first..], row), columns);
    }
}

/// Copies the columns that both have, one by one, since rows are short.
fn copy_columns((from, from_row): (&[f32], usize), (to, to_row): (&mut [f32], usize), columns: usize) {
    for column in 0..columns {
        let (from, to) = (from[column..].iter().step_by(from_row), to[column..].iter_mut().step_by(to_row));
        to.zip(from).for_each(|(to, from)| *to = *from);
    }
}
