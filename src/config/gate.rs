//! The gate of the inqueue in config files.

use pronk_buffer::Gate;
use serde::{Deserialize, Serialize};

/// How a [`Gate`] is spelled in a file; `buffer` has no serde.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Gate", rename_all = "snake_case")]
pub(super) enum Spelling {
    Bounded,
    FillThenDrain,
}
