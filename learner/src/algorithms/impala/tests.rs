#![allow(clippy::unwrap_used, clippy::expect_used)]

pub(crate) mod algorithm;
mod loss;
