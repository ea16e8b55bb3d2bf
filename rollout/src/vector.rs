//! How do several environments step together?

mod keeps;
mod kernel;
mod kernel_action;
mod last_frame;
mod multi_agent;
mod native;
mod serial;
pub(crate) mod sin_cos;
mod slot;
mod vector_env;

pub use kernel::{Kernel, Outcome};
pub use kernel_action::KernelAction;
pub(crate) use multi_agent::{MultiAgentEnvs, MultiAgentSlot, SavedAgentsEnv, SavedAgentsEnvs};
pub use native::NativeVectorEnv;
pub use serial::SerialVectorEnv;
pub(crate) use sin_cos::sin_cos;
pub(crate) use slot::Slot;
pub use vector_env::{VectorEnv, VectorStep};
