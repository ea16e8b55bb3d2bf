//! What a learner tells workers on other machines, and expects of them.

use pronk_buffer::{InqueueSender, MailboxSender, MultiAgentBatch, Pool, WeightCell};
use pronk_hosts::{HostEdges, Hosts, HostsConfig, Listen, Terms, Welcome};
use pronk_metrics::{ByPolicy, StepLedger, TimeLedger};
use pronk_policy::Params;
use pronk_rollout::WorkerReport;

use super::run_spec::RunSpec;
use crate::config::{ConfigError, TrainerConfig};
use crate::error::{HostsError, TrainError};

/// Where a run listens for hosts, and how it treats them.
pub(super) struct HostsPlan {
    pub(super) listen: Box<dyn Listen>,
    pub(super) terms: Terms,
}

impl HostsPlan {
    /// Refuses what cannot be combined with hosts.
    pub(super) fn check(config: &TrainerConfig, is_replay: bool) -> Result<(), ConfigError> {
        if config.learner.admission.is_deterministic() {
            let reason = "hosts come and go, so their workers cannot take turns in a fixed order; set admission to free \
                          and record the run, or do not listen";
            return Err(ConfigError::caused_by("admission", "deterministic", &reason));
        }
        if is_replay {
            let reason = "a replay samples by itself what hosts have sampled; replay without listening";
            return Err(ConfigError::caused_by("listen", "a replay", &reason));
        }
        Ok(())
    }

    /// What hosts are told, and what is expected of them.
    pub(super) fn with(
        self,
        config: &TrainerConfig,
        spec: &RunSpec,
        weights: WeightCell<ByPolicy<Params>>,
        pool: Pool,
    ) -> Result<ReadyHosts, TrainError> {
        let text = serde_json::to_string(config).map_err(HostsError::from)?;
        let config = HostsConfig {
            terms: self.terms,
            welcome: Welcome::new(spec.life, text),
            facts: spec.facts()?,
            expected: spec.expected(config)?,
            policies: spec.policy_ids(),
            first_worker: config.workers.num_rollout_workers as u32 + 1,
        };
        Ok(ReadyHosts { listen: self.listen, config, weights, pool })
    }
}

/// Hosts that need only the edges to be listened to.
pub(super) struct ReadyHosts {
    listen: Box<dyn Listen>,
    config: HostsConfig,
    weights: WeightCell<ByPolicy<Params>>,
    pool: Pool,
}

impl ReadyHosts {
    /// Opens the listening end.
    pub(super) fn open(
        self,
        fragments: InqueueSender<MultiAgentBatch>,
        reports: MailboxSender<WorkerReport>,
        steps: &StepLedger,
        time: &TimeLedger,
    ) -> Result<Hosts, HostsError> {
        let Self { listen, config, weights, pool } = self;
        let (steps, time) = (steps.clone(), time.clone());
        Ok(Hosts::open(listen, config, HostEdges { fragments, weights, reports, steps, time, pool })?)
    }
}
