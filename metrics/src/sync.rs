//! What threads share and wait for. A model puts loom's in its place.

pub(crate) use std::{
    hint,
    sync::{Arc, atomic},
    thread,
    time::Instant,
};
