//! [`MicroBatch`]: rows of a batch with their activations, for any thread.

use super::lstm::Steps;
use super::observations::{Observations, Span};
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
    /// The rows up to the last one with a gradient; of a recurrent network in whole steps.
    learned: usize,
}

impl MicroBatch {
    /// Copies its rows from a batch.
    pub(super) fn load(&mut self, input: &Input<'_>, span: Span, obs_len: usize, state_len: usize, images: bool) {
        self.span = span;
        self.obs.load(input, span, obs_len, images);
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
        for (tower, activations) in towers.iter().zip(&mut self.activations) {
            let state = (self.state.as_mut_slice(), self.state_len);
            tower.forward(weights, &self.obs, (steps, state), keep, activations, scratch);
        }
    }

    /// Adds the gradients of its rows to a packed gradient.
    pub(super) fn backward(&mut self, towers: &[Tower], weights: &Weights, grad: &mut [f32], scratch: &mut Scratch) {
        if self.learned == 0 {
            return;
        }
        let steps = Steps { columns: self.span.columns, starts: &self.starts };
        for (tower, activations) in towers.iter().zip(&self.activations) {
            tower.backward(weights, (&self.obs, self.learned), steps, grad, activations, scratch);
        }
    }

    /// Copies its outputs into those of the batch.
    pub(super) fn put_outputs(&self, towers: &[Tower], out: &mut Outputs) {
        let span = self.span;
        for (tower, activations) in towers.iter().zip(&self.activations) {
            let (logits, values, row) = (tower.logits, tower.values, tower.head_row());
            for (first, heads) in span.first_rows().zip(activations.head.chunks_exact(span.columns * row)) {
                copy_columns((heads, row), (&mut out.logits[first * logits..], logits), logits);
                copy_columns((&heads[logits..], row), (&mut out.values[first * values..], values), values);
            }
        }
        let columns = span.first_column * self.state_len..(span.first_column + span.columns) * self.state_len;
        if !self.state.is_empty() {
            out.state[columns].copy_from_slice(&self.state);
        }
    }

    /// Copies its rows of the outputs' gradients.
    pub(super) fn take_grads(&mut self, towers: &[Tower], grads: &OutputGrads) {
        let span = self.span;
        self.learned = 0;
        for (tower, activations) in towers.iter().zip(&mut self.activations) {
            let (logits, values, row) = (tower.logits, tower.values, tower.head_row());
            activations.head_grad.resize(span.rows() * row, 0.0);
            for (first, heads) in span.first_rows().zip(activations.head_grad.chunks_exact_mut(span.columns * row)) {
                copy_columns((&grads.logits[first * logits..], logits), (heads, row), logits);
                copy_columns((&grads.values[first * values..], values), (&mut heads[logits..], row), values);
            }
            // The rows after the last step, whose values only bootstrap, would add zeros.
            let last = activations.head_grad.chunks_exact(row).rposition(|grads| grads.iter().any(|&g| g != 0.0));
            self.learned = self.learned.max(last.map_or(0, |last| last + 1));
        }
        let is_recurrent = self.state_len > 0;
        self.learned = self.learned.next_multiple_of(if is_recurrent { span.columns } else { 1 });
    }
}

/// Copies the columns that both have, one by one, since rows are short.
fn copy_columns((from, from_row): (&[f32], usize), (to, to_row): (&mut [f32], usize), columns: usize) {
    for column in 0..columns {
        let (from, to) = (from[column..].iter().step_by(from_row), to[column..].iter_mut().step_by(to_row));
        to.zip(from).for_each(|(to, from)| *to = *from);
    }
}
