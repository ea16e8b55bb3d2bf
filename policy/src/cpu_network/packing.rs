//! Weights in the layout of products: in padded panels, and transposed for the backward pass.

use std::ops::Range;

use super::packed::Packed;
use crate::ops::{BLOCK, PANEL, Place, Right, Rounding, add, padded, round_pairs, rows_of_pairs};
use crate::{ParamLayout, PolicyError, Precision};

/// A matrix in panels inside a larger vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    offset: usize,
    pub(super) rows: usize,
    /// Padded.
    pub(super) columns: usize,
    /// Whether products round it, and with it their left operand.
    pub(super) is_rounded: bool,
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
    pub(super) fn right(self, packed: &Packed) -> Right<'_> {
        let rounding = match self.is_rounded {
            true => Rounding::Pairs(&packed.pairs[self.offset / 2..]),
            false => Rounding::Exact,
        };
        Right { numbers: &packed.numbers[self.range()], step: self.step(), panel: self.rows * PANEL, rounding }
    }

    pub(super) fn range(self) -> Range<usize> {
        self.offset..self.offset + self.rows * self.columns
    }

    /// How products round that give its gradient.
    pub(super) fn gradient_rounding(self) -> Rounding<'static> {
        if self.is_rounded { Rounding::Both } else { Rounding::Exact }
    }

    /// The end of its memory, in which its pairs have half of its place.
    fn end(self) -> usize {
        let rows = if self.is_rounded { 2 * rows_of_pairs(self.rows) } else { self.rows };
        self.offset + rows * self.columns
    }

    /// Rounds its numbers, and pairs each two rows.
    fn round(self, numbers: &[f32], pairs: &mut [u32]) {
        let pairs = &mut pairs[self.offset / 2..];
        let panels = numbers[self.range()].chunks_exact(self.rows * self.step());
        for (panel, pairs) in panels.zip(pairs.chunks_mut(rows_of_pairs(self.rows) * self.step())) {
            round_pairs(panel, self.step(), pairs);
        }
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
    precision: Precision,
    copies: Vec<TensorCopy>,
    transposes: Vec<Transpose>,
    /// The matrices that products round.
    rounded: Vec<Matrix>,
    backward_rounded: Vec<Matrix>,
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
    /// For a network whose products have this precision.
    pub(super) fn new(precision: Precision) -> Self {
        Self { precision, ..Self::default() }
    }

    /// Adds a forward matrix of zeros, in the network's precision.
    pub(super) fn matrix(&mut self, rows: usize, columns: usize) -> Matrix {
        let is_rounded = self.precision == Precision::Bf16;
        let matrix = Matrix { is_rounded, ..self.exact_matrix(rows, columns) };
        self.len = matrix.end();
        self.rounded.extend(is_rounded.then_some(matrix));
        matrix
    }

    /// Adds a forward matrix of zeros that is never rounded.
    pub(super) fn exact_matrix(&mut self, rows: usize, columns: usize) -> Matrix {
        let matrix = Matrix { offset: self.len, rows, columns: padded(columns), is_rounded: false };
        self.len = matrix.end();
        matrix
    }

    /// Adds a backward matrix in the precision of `of`, a forward one.
    pub(super) fn backward_matrix(&mut self, rows: usize, columns: usize, of: Matrix) -> Matrix {
        let matrix = Matrix { offset: self.backward_len, rows, columns: padded(columns), ..of };
        self.backward_len = matrix.end();
        self.backward_rounded.extend(matrix.is_rounded.then_some(matrix));
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
    pub(super) fn pack(&self, flat: &[f32], packed: &mut Packed) {
        let Packed { numbers, pairs } = packed;
        numbers.resize(self.len, 0.0);
        for copy in &self.copies {
            copy.for_each_piece(|flat_at, packed_at| numbers[packed_at].copy_from_slice(&flat[flat_at]));
        }
        round_all(&self.rounded, numbers, pairs);
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
    pub(super) fn transpose_all(&self, forward: &Packed, backward: &mut Packed) {
        let Packed { numbers, pairs } = backward;
        numbers.resize(self.backward_len, 0.0);
        for transpose in &self.transposes {
            transpose.run(&forward.numbers, numbers);
        }
        round_all(&self.backward_rounded, numbers, pairs);
    }
}

/// Makes the pairs of these matrices from their numbers.
fn round_all(matrices: &[Matrix], numbers: &[f32], pairs: &mut Vec<u32>) {
    if !matrices.is_empty() {
        pairs.resize(numbers.len().div_ceil(2), 0);
    }
    matrices.iter().for_each(|matrix| matrix.round(numbers, pairs));
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
