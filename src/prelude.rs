//! What almost every program with pronk needs.

pub use crate::{Console, Env, EnvContext, JsonLines, Reporter, StopWhen, Trainer, TrainerConfig};
