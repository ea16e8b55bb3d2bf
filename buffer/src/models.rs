//! The protocols of this room under every schedule that is tried. `cargo xtask model` runs them; each says in
//! one sentence what holds.

mod admission;
mod loaders;
mod notifier;
mod pool;
mod queue;
mod weights;

use crate::{ActionKind, BatchShape, ObsKind};

/// Of a model that has too many schedules to try all.
const SCHEDULES: usize = 20_000;

/// Of a batch in a model.
const SHAPE: BatchShape = BatchShape {
    steps: 1,
    columns: 1,
    obs_len: 1,
    obs_kind: ObsKind::F32,
    act_len: 1,
    act_kind: ActionKind::U32,
    dist_len: 2,
    state_len: 0,
};
