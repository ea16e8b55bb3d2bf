use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Steps;
use crate::result::ResultDict;

/// A snapshot of the step ledger. Each figure is counted independently, so that
/// [`is_closed`](Self::is_closed) can fail.
///
/// ```
/// use pronk_metrics::{StepTotals, Steps};
///
/// let mut totals = StepTotals::default();
/// assert!(totals.is_closed());
/// totals.sampled = Steps { env: 3, agent: 3 };
/// assert!(!totals.is_closed());
/// totals.in_flight = totals.sampled;
/// assert!(totals.is_closed());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTotals {
    /// Sampled steps.
    pub sampled: Steps,
    /// Steps trained on, each counted once.
    pub trained_once: Steps,
    /// Steps trained on, counted in every pass.
    pub trained_passes: Steps,
    /// Steps between sampling and learning.
    pub in_flight: Steps,
    /// Steps dropped on purpose, by reason.
    #[serde(with = "by_name")]
    pub dropped: BTreeMap<Arc<str>, Steps>,
    /// Steps lost by failures, by cause.
    #[serde(with = "by_name")]
    pub lost: BTreeMap<Arc<str>, Steps>,
}

/// Names that are shared in memory, as texts.
mod by_name {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::steps::Steps;

    pub(super) fn serialize<S: Serializer>(steps: &BTreeMap<Arc<str>, Steps>, to: S) -> Result<S::Ok, S::Error> {
        steps.iter().map(|(name, steps)| (&**name, *steps)).collect::<BTreeMap<&str, Steps>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Arc<str>, Steps>, D::Error> {
        let steps = BTreeMap::<String, Steps>::deserialize(from)?;
        Ok(steps.into_iter().map(|(name, steps)| (name.into(), steps)).collect())
    }
}

impl StepTotals {
    /// Whether `sampled = trained once + dropped + in flight + lost`, for env-steps and agent-steps.
    pub fn is_closed(&self) -> bool {
        let ended: Steps = self.dropped.values().chain(self.lost.values()).copied().sum();
        self.sampled == self.trained_once + self.in_flight + ended
    }

    /// Writes every figure below `path`.
    pub fn write_into(&self, dict: &mut ResultDict, path: &str) {
        let by_name = |steps: &BTreeMap<Arc<str>, Steps>| -> serde_json::Map<_, _> {
            steps.iter().map(|(name, steps)| (name.to_string(), json!(steps))).collect()
        };
        dict.set(
            path,
            json!({
                "sampled": self.sampled,
                "trained_once": self.trained_once,
                "trained_passes": self.trained_passes,
                "in_flight": self.in_flight,
                "dropped": by_name(&self.dropped),
                "lost": by_name(&self.lost),
            }),
        );
    }
}
