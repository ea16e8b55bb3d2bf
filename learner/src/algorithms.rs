//! The algorithms: one folder each.

pub(crate) mod impala;
