//! Tests of environment processes that need no Python: a child in C, which also lies, and programs that are
//! no children at all.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod conformance;
mod corridor;
mod endings;
mod frames;
mod lies;
