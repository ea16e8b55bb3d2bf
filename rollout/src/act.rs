//! How does a policy act for rows of observations?

mod action_sampler;
mod column_storage;
mod columns;
pub(crate) mod convert;
mod error;
mod inference;
mod inference_thread;
mod mapping;
mod policy_actor;

pub(crate) use action_sampler::{ActionSampler, WeightsOf};
pub(crate) use column_storage::SavedColumn;
pub use error::{PolicyBuildError, PolicyFault};
pub use inference::{Inference, InferenceClient, InferencePort};
pub use inference_thread::{InferenceState, InferenceThread};
pub use mapping::{MappingError, PolicyMapping};
pub(crate) use policy_actor::PolicyActor;
pub use policy_actor::WorkerPolicy;
