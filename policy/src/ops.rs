//! Arithmetic on slices at the speed of the processor. `unsafe` may stand below this module and nowhere else.

// Loops over registers count: an iterator may come out as a loop over memory.
#![allow(clippy::needless_range_loop)]

mod elementwise;
mod product;
mod softmax;

pub(crate) use elementwise::{
    LstmStep, add, add_column_sums, interleave, lstm_step_back, max_pool_row, max_pool_row_back, relu,
};
pub(crate) use product::{
    BLOCK, Finish, Group, Left, PANEL, Place, Product, Right, Segment, Start, Values, cut, padded,
};
pub(crate) use softmax::Softmax;
