//! What a training program needs, and what an implementation of [`Env`] names.

pub use crate::{
    ActionRef, Console, End, Env, EnvContext, EnvError, EnvSpec, ObsMut, Step, StopWhen, Trainer, TrainerConfig,
};
