//! What threads share and wait for: from the libraries, or from the stand-ins of a model, which is compiled
//! with `--cfg pronk_model`.

#[cfg(not(pronk_model))]
pub(crate) use crossbeam_channel as channel;
#[cfg(pronk_model)]
pub(crate) use pronk_model::{channel, thread, time::Instant};
#[cfg(not(pronk_model))]
pub(crate) use std::{thread, time::Instant};
