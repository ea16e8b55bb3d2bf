//! The learner's loop and its thread.

mod batch_name;
mod clock;
mod config;
mod diagnosis;
mod drain_on_drop;
mod failure;
mod journal;
mod learner_loop;
mod learner_thread;
mod outcome;
mod parts;
mod pass;
mod requests;
mod saved;
#[cfg(test)]
mod tests;

pub use batch_name::{BatchName, NonFinite};
pub use clock::{Clock, MonotonicClock};
pub use config::{LearnerLoopConfig, OnStarved};
pub use diagnosis::Diagnosis;
pub use failure::{LearnerFailure, LearnerFailureCause, LearnerLoopError};
pub use journal::{Journal, JournalEntry};
pub use learner_loop::LearnerLoop;
pub use learner_thread::{LearnerEnd, LearnerThread};
pub use outcome::{ClosedBy, Quarantine, StepOutcome, TrainedPass};
pub use parts::{LearnerParts, LearnerThreadState};
pub use requests::StateError;
pub use saved::{CutStorage, LearnerCut, SavedLoop};
