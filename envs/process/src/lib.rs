//! How do environments in other processes and languages join a run?
//!
//! [`ProcessEnvs`] is a factory: it starts processes with several environments each, and steps them in
//! parallel. [`Gymnasium`], [`AtariVector`] and [`PettingZoo`] are Python environments; a [`Program`] in any
//! other language implements `PROTOCOL.md`. Actions and observations pass through shared memory, synchronised
//! by a byte over a pipe.

#[cfg(not(target_os = "linux"))]
compile_error!("pronk-env-process needs memfd and its seals, which Linux has");

mod child;
mod clock;
mod envs;
mod error;
mod greeting;
mod group;
mod layout;
mod memory;
mod order;
mod output;
mod program;
mod python;
mod rerun;
mod settings;
mod shared;
mod single;
mod vector;

/// What the two sides of `PROTOCOL.md` say and share, for programs that check or play a child.
pub mod protocol {
    pub use crate::greeting::{BadLine, Introduction, agreed, hello};
    pub use crate::layout::Layout;
    pub use crate::memory::Unmapped;
    pub use crate::shared::{Broken, Shared};
}

pub use error::ProcessError;
pub use program::Program;
pub use python::{AtariVector, Gymnasium, PettingZoo, Wrapper};
pub use settings::{ChildOutput, ProcessEnvs};
pub use single::ProcessEnv;
