//! Fragments and train batches: time-major columns whose lengths were checked once.

mod columns;
mod copy;
mod error;
mod join;
mod multi_agent;
mod observations;
mod sample;
mod select;
mod shape;

pub use columns::{ActionColumn, ActionView, ActionViewMut, Columns, End};
pub use error::BatchError;
pub use multi_agent::MultiAgentBatch;
pub use observations::{FinalObs, ObsColumn, ObsView, ObsViewMut};
pub use sample::{SampleBatch, StepMut, Tag};
pub use shape::{ActionKind, BatchShape, ObsKind};

#[cfg(test)]
pub(crate) mod tests;
