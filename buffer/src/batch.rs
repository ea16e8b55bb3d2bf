//! Fragments and train batches: time-major columns whose lengths are checked once.

mod check_shape;
mod columns;
mod copy;
mod duplicate;
mod end;
mod error;
mod join;
mod multi_agent;
mod obs_rows;
mod observations;
mod sample;
mod select;
mod shape;
mod share;
mod tag;

pub use columns::{ActionColumn, ActionView, ActionViewMut, Columns};
pub(crate) use duplicate::copy_without_ticket;
pub use end::End;
pub use error::BatchError;
pub use multi_agent::MultiAgentBatch;
pub use obs_rows::ObsRows;
pub use observations::{FinalObs, ObsColumn, ObsView, ObsViewMut};
pub use sample::{SampleBatch, StepMut};
pub use shape::{ActionKind, BatchShape, ObsKind};
pub use tag::Tag;

#[cfg(test)]
pub(crate) mod tests;
