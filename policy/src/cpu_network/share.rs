//! [`Share`]: a part of a batch, for any thread.

use std::sync::Arc;

use super::micro_batch::MicroBatch;
use super::observations::{Reading, Span};
use super::packing::Packing;
use super::sharing::Job;
use super::tower::{Keep, Scratch, Tower};
use super::weights::Weights;
use crate::Input;

/// Columns of a recurrent micro-batch: every step reads all weights of the LSTM.
const PIECE_COLUMNS: usize = 16;

/// The layers of a network, the same for all threads.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) towers: Vec<Tower>,
    pub(super) packing: Packing,
    pub(super) reading: Reading,
    pub(super) state_len: usize,
    /// Rows of a micro-batch.
    pub(super) piece_rows: usize,
}

/// A share of a batch, the same for any number of threads: its micro-batches and the sum of their gradients.
#[derive(Default)]
pub(super) struct Share {
    pub(super) pieces: Vec<MicroBatch>,
    /// Micro-batches in use; the rest are from a larger batch.
    pub(super) used: usize,
    pub(super) grad: Vec<f32>,
    scratch: Scratch,
    /// The pending pass.
    task: Option<Task>,
}

/// A pass over a share, with its inputs.
struct Task {
    pass: Pass,
    layers: Arc<Layers>,
    weights: Arc<Weights>,
}

#[derive(Clone, Copy)]
pub(super) enum Pass {
    Forward,
    Backward,
}

impl Share {
    /// Gives it a pass to compute.
    pub(super) fn give(&mut self, pass: Pass, layers: Arc<Layers>, weights: Arc<Weights>) {
        self.task = Some(Task { pass, layers, weights });
    }
}

impl Job for Share {
    fn run(&mut self) {
        // Taken, so that the weights are released after the pass.
        let Some(Task { pass, layers, weights }) = self.task.take() else { return };
        let Share { pieces, used, grad, scratch, .. } = self;
        let pieces = &mut pieces[..*used];
        match pass {
            Pass::Forward => {
                pieces.iter_mut().for_each(|piece| piece.forward(&layers.towers, &weights, Keep::Everything, scratch));
            }
            Pass::Backward => {
                grad.clear();
                grad.resize(layers.packing.len(), 0.0);
                pieces.iter_mut().for_each(|piece| piece.backward(&layers.towers, &weights, grad, scratch));
            }
        }
    }
}

/// The spans of a batch, one for each micro-batch.
#[derive(Clone, Copy)]
pub(super) struct Spans {
    of: usize,
    steps: usize,
    pub(super) columns: usize,
}

impl Spans {
    pub(super) fn len(self) -> usize {
        self.of.div_ceil(self.columns)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Span> {
        (0..self.len()).map(move |i| {
            let first_column = i * self.columns;
            let columns = self.columns.min(self.of - first_column);
            Span { first_column, columns, steps: self.steps, of: self.of }
        })
    }
}

impl Layers {
    /// Cuts a batch. The cuts depend on the batch alone, so that sums always have the same order.
    pub(super) fn spans(&self, input: &Input<'_>) -> Spans {
        match input.memory {
            None => Spans { of: input.rows, steps: 1, columns: self.piece_rows },
            Some(memory) => {
                let of = memory.columns(self.state_len);
                let steps = input.rows.checked_div(of).unwrap_or(0);
                let columns = self.piece_rows.checked_div(steps).unwrap_or(1).max(PIECE_COLUMNS);
                Spans { of, steps, columns }
            }
        }
    }
}
