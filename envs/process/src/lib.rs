//! How do environments of another language, in another process, become environments of pronk?
//!
//! [`ProcessEnvs`] is a factory: it starts processes, each with several environments, and steps all of them
//! beside each other. [`Gymnasium`], [`AtariVector`] and [`PettingZoo`] say which environments of Python; a
//! [`Program`] of any other language speaks the protocol that `PROTOCOL.md` documents. Actions and
//! observations pass through shared memory, and a byte over a pipe says that they are there.

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
mod program;
mod python;
mod settings;
mod single;
mod vector;

pub use error::ProcessError;
pub use program::Program;
pub use python::{AtariVector, Gymnasium, PettingZoo, Wrapper};
pub use settings::{ChildOutput, ProcessEnvs};
pub use single::ProcessEnv;
