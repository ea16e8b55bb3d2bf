//! The protocols of this room under every schedule that is tried. `cargo xtask model` runs them; each says in
//! one sentence what holds.

mod admission;
mod bell;
mod loaders;
mod pool;
mod queue;
mod weights;

/// Of a model that has too many schedules to try all.
const SCHEDULES: usize = 20_000;
