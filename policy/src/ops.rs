//! Vectorised arithmetic on slices. `unsafe` is allowed below this module only.

// Loops over registers use indices: an iterator may compile to a loop over memory.
#![allow(clippy::needless_range_loop)]

mod elementwise;
mod instructions;
mod product;
mod rounding;
mod softmax;

pub(crate) use elementwise::{
    LstmStep, add, add_column_sums, interleave, lstm_step_back, max_pool_row, max_pool_row_back, relu,
};
#[cfg(test)]
pub(crate) use instructions::Instructions;
pub use instructions::instructions;
pub(crate) use product::{
    BLOCK, Finish, Group, Left, PANEL, Place, Product, Right, Rounding, Segment, Start, Unit, Values, cut, padded,
    rows_of_pairs,
};
pub(crate) use rounding::round_pairs;
pub(crate) use softmax::Softmax;
