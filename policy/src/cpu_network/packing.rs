//! Weights in the layout of products: in padded panels, and transposed for the backward pass.

use std::ops::Range;

use crate::ops::{BLOCK, PANEL, Place, Right, add, padded};
use crate::{ParamLayout, PolicyError};

/// A matrix in panels inside a larger vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    offset: usize,
    pub(super) rows: usize,
    /// Padded.
    pub(super) columns: usize,
}

impl Matrix {
    /// The distance of rows.
    pub(super) fn step(self) -> usize {
        self.columns.min(PANEL)
    }

    /// Its layout as a result.
    pub(super) fn place(self) -> Place {
        Place { row: self.step(), panel: self.rows * PANEL }
    }

    /// The matrix as the right operand of a product.
    pub(super) fn right(self, numbers: &[f32]) -> Right<'_> {
        Right { numbers: &numbers[self.range()], step: self.step(), panel: self.rows * PANEL }
    }

    pub(super) fn range(self) -> Range<usize> {
        self.offset..self.offset + self.rows * self.columns
    }

    /// Adds the transpose of a matrix with rows at distance `step` to its first `columns` columns.
    pub(super) fn add_transposed(self, from: &[f32], step: usize, columns: usize, numbers: &mut [f32]) {
        for (row, to) in numbers.chunks_exact_mut(self.step()).take(self.rows).enumerate() {
            to[..columns].iter_mut().zip(from[row..].iter().step_by(step)).for_each(|(to, from)| *to += from);
        }
    }

    fn index(self, row: usize, column: usize) -> usize {
        self.offset + column / PANEL * self.rows * PANEL + row * self.step() + column % PANEL
    }
}

/// The layout of packed weights, computed once for a network.
#[derive(Debug, Default)]
pub(super) struct Packing {
    copies: Vec<TensorCopy>,
    transposes: Vec<Transpose>,
    /// The length of the forward weights, and of a packed gradient.
    len: usize,
    backward_len: usize,
}

/// A tensor of the parameters and its place in a matrix.
#[derive(Debug)]
struct TensorCopy {
    flat: Range<usize>,
    flat_columns: usize,
    /// The length of a run of rows in the tensor.
    run: usize,
    /// The padded length of a run in the matrix.
    padded_run: usize,
    to: Matrix,
    first_column: usize,
}

/// A block of a forward matrix and its transpose's place in a backward one.
#[derive(Debug)]
struct Transpose {
    from: Matrix,
    first_row: usize,
    rows: usize,
    columns: usize,
    to: Matrix,
    to_row: usize,
}

impl Packing {
    /// Adds a forward matrix of zeros.
    pub(super) fn matrix(&mut self, rows: usize, columns: usize) -> Matrix {
        let matrix = Matrix { offset: self.len, rows, columns: padded(columns) };
        self.len = matrix.range().end;
        matrix
    }

    /// Adds a backward matrix.
    pub(super) fn backward_matrix(&mut self, rows: usize, columns: usize) -> Matrix {
        let matrix = Matrix { offset: self.backward_len, rows, columns: padded(columns) };
        self.backward_len = matrix.range().end;
        matrix
    }

    /// Places a tensor, whose last dimension are its columns, in a matrix from `first_column` on. Each `run`
    /// rows of the tensor become `padded_run` rows of the matrix.
    pub(super) fn put(
        &mut self,
        layout: &ParamLayout,
        name: &str,
        to: Matrix,
        first_column: usize,
        (run, padded_run): (usize, usize),
    ) -> Result<(), PolicyError> {
        let Some(tensor) = layout.find(name) else {
            return Err(PolicyError::WrongParams { reason: format!("no tensor `{name}`") });
        };
        let flat_columns = tensor.shape.last().copied().unwrap_or(1);
        self.copies.push(TensorCopy { flat: tensor.range(), flat_columns, run, padded_run, to, first_column });
        Ok(())
    }

    /// Places the transpose of `rows` × `columns` of a forward matrix, from `first_row` on, in a backward
    /// matrix.
    pub(super) fn transpose(
        &mut self,
        (from, first_row): (Matrix, usize),
        (rows, columns): (usize, usize),
        (to, to_row): (Matrix, usize),
    ) {
        self.transposes.push(Transpose { from, first_row, rows, columns, to, to_row });
    }

    /// The length of the forward weights, and of a packed gradient.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Packs parameters for the forward pass. Padding in `packed` stays zero.
    pub(super) fn pack(&self, flat: &[f32], packed: &mut Vec<f32>) {
        packed.resize(self.len, 0.0);
        for copy in &self.copies {
            copy.for_each_piece(|flat_at, packed_at| packed[packed_at].copy_from_slice(&flat[flat_at]));
        }
    }

    /// Unpacks the sum of gradients, added in their order, in one pass over them: memory is the limit. Writes
    /// every number, since every parameter is packed.
    pub(super) fn unpack_sum<'a>(&self, mut packed: impl Iterator<Item = &'a [f32]> + Clone, flat: &mut [f32]) {
        let Some(first) = packed.next() else { return flat.fill(0.0) };
        for copy in &self.copies {
            copy.for_each_piece(|flat_at, packed_at| {
                let sum = &mut flat[flat_at];
                sum.copy_from_slice(&first[packed_at.clone()]);
                packed.clone().for_each(|other| add(&other[packed_at.clone()], sum));
            });
        }
    }

    /// Transposes packed weights for the backward pass.
    pub(super) fn transpose_all(&self, forward: &[f32], backward: &mut Vec<f32>) {
        backward.resize(self.backward_len, 0.0);
        for transpose in &self.transposes {
            transpose.run(forward, backward);
        }
    }
}

impl TensorCopy {
    /// Ranges that are contiguous in both.
    fn for_each_piece(&self, mut piece: impl FnMut(Range<usize>, Range<usize>)) {
        for (row, start) in self.flat.clone().step_by(self.flat_columns).enumerate() {
            let packed_row = row / self.run * self.padded_run + row % self.run;
            let mut column = 0;
            while column < self.flat_columns {
                let to_column = self.first_column + column;
                let many = (PANEL - to_column % PANEL).min(self.flat_columns - column);
                let to = self.to.index(packed_row, to_column);
                piece(start + column..start + column + many, to..to + many);
                column += many;
            }
        }
    }
}

impl Transpose {
    /// In square blocks, so that reads and writes stay in the cache.
    fn run(&self, forward: &[f32], backward: &mut [f32]) {
        for rows in blocks(self.rows) {
            for columns in blocks(self.columns) {
                for column in columns.clone() {
                    let to = self.to.index(self.to_row + column, rows.start);
                    let from = self.from.index(self.first_row + rows.start, column);
                    let step = self.from.step();
                    let column = forward[from..].iter().step_by(step);
                    backward[to..to + rows.len()].iter_mut().zip(column).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }
}

/// `0..len` in pieces of a block.
fn blocks(len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(BLOCK).map(move |start| start..len.min(start + BLOCK))
}
