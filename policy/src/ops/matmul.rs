//! The product of matrices, on the `gemm` crate.
#![allow(unsafe_code)] // gemm takes pointers and strides; here they are made from slices whose lengths are checked.

use gemm::{Parallelism, gemm};

use crate::PolicyError;
use crate::error::check_len;

/// A matrix that lies in a slice without gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a> {
    numbers: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Row after row.
    pub(crate) fn new(numbers: &'a [f32], rows: usize, columns: usize) -> Result<Self, PolicyError> {
        check_len("matrix", rows.saturating_mul(columns), numbers.len())?;
        Ok(Self { numbers, rows, columns, row_stride: columns, column_stride: 1 })
    }

    /// The transpose of the same numbers.
    pub(crate) fn transposed(self) -> Self {
        Self {
            numbers: self.numbers,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// Adds `a · b` to `out`, which lies row after row. It stays on the calling thread.
pub(crate) fn add_product(out: &mut [f32], a: Matrix<'_>, b: Matrix<'_>) -> Result<(), PolicyError> {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    check_len("rows of the right matrix", k, b.rows)?;
    check_len("product", m.saturating_mul(n), out.len())?;
    // SAFETY: gemm reads a at i · row_stride + j · column_stride for i < m, j < k, which `Matrix` keeps inside its slice:
    // its length is rows · columns and the strides are (columns, 1) or, transposed, (1, rows of the transpose's columns),
    // so the largest index is rows · columns − 1. The same holds for b with k × n, since k equals its rows. It reads and
    // writes out at i · n + j < m · n, its length. `out` is borrowed mutably, so neither a nor b overlaps it. Strides fit
    // an isize because no slice is longer than isize::MAX bytes. Nothing is kept beyond the call.
    unsafe {
        gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            true,
            a.numbers.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.numbers.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            1.0_f32,
            1.0_f32,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
