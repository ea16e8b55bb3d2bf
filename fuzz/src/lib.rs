//! What pronk reads and others may have written or damaged: one function for each reader, which takes any
//! bytes.

mod folder;
mod seeds;
mod target;
mod targets;

use std::alloc::System;

use cap::Cap;

pub use folder::Folder;
pub use seeds::{ENV_STEPS, Kind, checkpoints, go_on, record, repeat};
pub use target::Target;

/// The sizes that a file claims must not be believed: allocations beyond this many bytes in all end the
/// process.
pub const MEMORY_BYTES: usize = 512 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, MEMORY_BYTES);

/// All targets.
pub const TARGETS: &[Target] = &[
    targets::answers::TARGET,
    targets::batch::TARGET,
    targets::checkpoint::TARGET,
    targets::config::TARGET,
    targets::damage::TARGET,
    targets::forged::TARGET,
    targets::frames::TARGET,
    targets::golden::TARGET,
    targets::greeting::TARGET,
    targets::http::TARGET,
    targets::onnx::TARGET,
    targets::record::TARGET,
    targets::replies::TARGET,
    targets::results::TARGET,
    targets::scrape::TARGET,
    targets::set::TARGET,
    targets::space::TARGET,
];
