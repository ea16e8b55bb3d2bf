//! Arithmetic on slices that needs more than safe Rust gives. `unsafe` may stand below this module and nowhere else.

mod matmul;

pub(crate) use matmul::{Matrix, add_product};
