//! The protocols of this room under many schedules. `cargo xtask model` runs them; each says in one sentence
//! what holds.

mod relay;
mod stay;
mod waiting;

use pronk_metrics::ByPolicy;
use pronk_policy::{ParamLayout, Params};

use crate::sync::Arc;

/// Of each model; they have too many to try all.
const SCHEDULES: usize = 4_000;

fn layout() -> Arc<ParamLayout> {
    Arc::new(ParamLayout::new([("weight", vec![2])]))
}

fn params(fill: f32) -> ByPolicy<Params> {
    ByPolicy::from([("default_policy".into(), Params::new(layout(), vec![fill; 2]).unwrap())])
}
