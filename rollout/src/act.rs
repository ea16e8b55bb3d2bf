//! How does a policy act for rows of observations?

mod acting;
mod column_slots;
mod columns;
pub(crate) mod convert;
mod error;
mod inference;
mod inference_thread;
mod mapping;
mod part;

pub(crate) use acting::{Acting, WeightsOf};
pub use error::{PolicyBuildError, PolicyFault};
pub use inference::{Inference, InferenceClient, InferencePort};
pub use inference_thread::{InferenceState, InferenceThread};
pub use mapping::{MappingError, PolicyMapping};
pub use part::WorkerPolicy;
pub(crate) use part::{Part, Role};
