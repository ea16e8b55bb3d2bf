#![allow(clippy::unwrap_used, clippy::expect_used)]

mod algorithm;
mod loss;
