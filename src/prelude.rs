//! What a program that trains needs, and what the methods of an [`Env`] name.

pub use crate::{
    ActionRef, Console, End, Env, EnvContext, EnvError, EnvSpec, ObsMut, Step, StopWhen, Trainer, TrainerConfig,
};
