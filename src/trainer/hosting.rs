//! A learner that listens: how it is asked to, and what its results say of hosts.

use pronk_hosts::{Listen, Terms};
use pronk_metrics::ResultDict;
use serde_json::{Map, Value, json};

use super::builder::TrainerBuilder;
use super::handle::Trainer;
use super::hosts_plan::HostsPlan;

impl<Agents> TrainerBuilder<Agents> {
    /// Accepts workers on other machines, beside those of this one or, with `num_rollout_workers: 0`, instead
    /// of them: the same program there calls [`connect`](TrainerBuilder::connect) instead of `build`.
    ///
    /// Hosts come and go. Without any, the run waits, and results say so. See `docs/hosts.md`.
    ///
    /// *Errors* of `build`: deterministic admission, a replay, or an address that cannot be listened on.
    ///
    /// # Example
    /// Two ends in one process, over a network without sockets.
    /// ```
    /// use pronk::envs::CartPole;
    /// use pronk::hosts::{MemoryNetwork, Terms};
    /// use pronk::prelude::*;
    ///
    /// let mut config = TrainerConfig::default();
    /// config.workers.num_rollout_workers = 0;
    /// config.results.min_time_s_per_iteration = 0.01;
    /// let run = || Trainer::builder(config.clone()).env(|_: &EnvContext| CartPole::new());
    /// let network = MemoryNetwork::new();
    ///
    /// let trainer = run().listen(network.listen(), Terms::default()).build()?;
    /// let host = run().connect(network.dial("host-a")).workers(2);
    /// let host = std::thread::spawn(|| host.run());
    /// let run = trainer.run(StopWhen { env_steps: Some(10_000), ..StopWhen::default() })?;
    /// assert!(run.ledger_closed());
    /// assert!(host.join().unwrap()?.env_steps >= 10_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn listen(mut self, at: impl Listen + 'static, terms: Terms) -> Self {
        self.parts.listen = Some(HostsPlan { listen: Box::new(at), terms });
        self
    }
}

impl Trainer {
    /// Where actors reach the run, with the port that the system chose; `None` if it does not listen.
    pub fn listens_at(&self) -> Option<String> {
        Some(self.engine.as_ref()?.hosts()?.address())
    }

    /// What results say about hosts.
    pub(super) fn write_hosts(&self, dict: &mut ResultDict) {
        let Some(hosts) = self.engine.as_ref().and_then(|engine| engine.hosts()) else { return };
        let status = hosts.status();
        let shown: Map<String, Value> = status
            .hosts
            .iter()
            .filter(|host| host.is_listed)
            .map(|host| {
                let per_env_step = host.bytes as f64 / host.env_steps.max(1) as f64;
                let value = json!({
                    "workers": host.workers,
                    "gave_up": host.gave_up,
                    "fragments": host.fragments,
                    "env_steps": host.env_steps,
                    "lost": host.lost,
                    "bytes": host.bytes,
                    "bytes_per_env_step": per_env_step,
                    "weights_bytes": host.weights_bytes,
                    "duplicates": host.duplicates,
                    "silent_secs": host.silent.as_secs_f64(),
                });
                (host.name.clone(), value)
            })
            .collect();
        dict.set("hosts.connected", status.hosts.len());
        dict.set("hosts.workers", status.hosts.iter().map(|host| host.workers).sum::<usize>());
        dict.set("hosts.joined", status.joined);
        dict.set("hosts.lost", status.lost);
        dict.set("hosts.by_name", shown);
    }
}
