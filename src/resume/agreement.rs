//! [`Agreement`]: what a resuming run must have in common with the saved one.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use pronk_metrics::ByPolicy;
use pronk_policy::{Params, instructions};
use serde_json::{Value, json};

use super::error::ResumeError;
use crate::config::{TrainerConfig, first_difference};
use crate::digest::Digest;

/// What a resuming run must have in common with the saved one, as JSON by name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Agreement(pub(crate) BTreeMap<String, Value>);

impl Agreement {
    /// Of a run with these settings and trained policies; `frozen` is the digest of the weights of others.
    pub(crate) fn of(config: &TrainerConfig, env: &str, trained: &ByPolicy<Params>, frozen: Digest) -> Self {
        let entries = [
            // A config can always be written as JSON; null would be refused.
            ("config", serde_json::to_value(config).unwrap_or_default()),
            ("environment", json!(env)),
            ("layout of the weights", json!(Digest::of_layouts(trained).to_string())),
            ("weights of frozen policies", json!(frozen.to_string())),
            ("instructions", json!(instructions())),
        ];
        Self(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Refuses a run that differs from the saved one, of the checkpoint at `path`, and names the first
    /// difference. Other settings are a warning if the run does not go on exactly anyway.
    pub(crate) fn check(&self, saved: &Self, path: &Path, is_exact: bool) -> Result<(), ResumeError> {
        for (name, own) in &self.0 {
            let saved = saved.0.get(name).unwrap_or(&Value::Null);
            let difference = match name.as_str() {
                "config" => {
                    // A setting that the saving version did not have was as its default is.
                    let saved = serde_json::to_value(TrainerConfig::of_checkpoint(saved, path)).unwrap_or_default();
                    first_difference(&saved, own)
                        .map(|(what, saved, own)| (format!("the setting `{what}`"), saved, own))
                }
                _ if saved == own => None,
                _ => Some((format!("the {name}"), saved.to_string(), own.to_string())),
            };
            match difference {
                None => {}
                Some((what, saved, own)) if name == "instructions" || (name == "config" && !is_exact) => {
                    tracing::warn!(%what, %saved, %own, "the resumed run differs from the saved one");
                }
                Some((what, saved, own)) => {
                    return Err(ResumeError::Other { path: path.to_owned(), what, saved, own });
                }
            }
        }
        Ok(())
    }
}
