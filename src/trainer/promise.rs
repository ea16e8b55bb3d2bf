//! [`Promise`]: up to where a run under deterministic admission repeats.

use serde_json::{Value, json};

/// Whether another run of the same seed and config has the same results: `deterministic` in the result dict.
pub(super) enum Promise {
    /// Never: admission is free.
    None,
    /// It holds.
    Kept,
    /// It held until the result named here, and why no longer.
    Ended(String),
}

impl Promise {
    /// Ends the promise, if it holds.
    pub(super) fn end(&mut self, iteration: u64, updates: u64, why: &str) {
        if let Self::Kept = self {
            *self = Self::Ended(format!("until iteration {iteration}, update {updates}: {why}"));
        }
    }

    /// `true`, `false`, or a text that says until when and why.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::None => json!(false),
            Self::Kept => json!(true),
            Self::Ended(until) => json!(until),
        }
    }
}
