use std::collections::BTreeMap;

use pronk_buffer::Fold;
use pronk_metrics::{ByPolicy, PolicyId};
use pronk_policy::PolicyError;

use crate::act::MappingError;
use crate::env::{EnvFailure, EpisodeStat, ReturnStat};

/// The episodes of an evaluation; its figures are `None` without episodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// In the order in which they ended. The return of an episode is the sum over all its agents.
    pub episodes: Vec<EpisodeStat>,
    /// The agents of these episodes that acted, in the same order; empty for environments with one agent.
    pub agents: Vec<AgentStat>,
    /// How many of the episodes the limit of steps ended, and not their environments.
    pub n_cut_short: usize,
}

/// One agent in a finished episode.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentStat {
    /// The environment.
    pub index: u32,
    /// The seed of the episode.
    pub seed: u64,
    /// The agent's name.
    pub agent: String,
    /// The policy that it played.
    pub policy: PolicyId,
    /// The sum of its rewards.
    pub agent_return: f64,
    /// The length of its own episode: steps of the environment until it ended.
    pub agent_len: u32,
}

impl Evaluation {
    /// Mean return.
    pub fn return_mean(&self) -> Option<f64> {
        self.mean(|episode| episode.episode_return)
    }

    /// Standard deviation of the return (population form).
    pub fn return_std(&self) -> Option<f64> {
        let mean = self.return_mean()?;
        self.mean(|episode| (episode.episode_return - mean).powi(2)).map(f64::sqrt)
    }

    /// Mean length in steps.
    pub fn len_mean(&self) -> Option<f64> {
        self.mean(|episode| f64::from(episode.episode_len))
    }

    /// The returns of agents, by the policy that they played, as those of training; empty for environments
    /// with one agent.
    pub fn policy_returns(&self) -> ByPolicy<ReturnStat> {
        self.returns_by(|stat| &stat.policy)
    }

    /// The returns of agents, by name; empty for environments with one agent.
    pub fn agent_returns(&self) -> BTreeMap<String, ReturnStat> {
        self.returns_by(|stat| &stat.agent)
    }

    fn mean(&self, figure: impl Fn(&EpisodeStat) -> f64) -> Option<f64> {
        let n = self.episodes.len();
        (n > 0).then(|| self.episodes.iter().map(figure).sum::<f64>() / n as f64)
    }

    fn returns_by<K: Clone + Ord>(&self, key: impl Fn(&AgentStat) -> &K) -> BTreeMap<K, ReturnStat> {
        let mut returns = BTreeMap::new();
        for stat in &self.agents {
            let one = ReturnStat::of(stat.agent_return);
            returns.entry(key(stat).clone()).and_modify(|all: &mut ReturnStat| all.fold(one)).or_insert(one);
        }
        returns
    }
}

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// An environment failed.
    #[error(transparent)]
    Env(#[from] EnvFailure),
    /// The policy cannot act in this environment.
    #[error("the policy cannot act in {env}: {source}")]
    Policy {
        /// Name of the environment.
        env: String,
        /// Why.
        source: PolicyError,
    },
    /// One of several policies cannot act in this environment.
    #[error("the policy `{policy}` cannot act in {env}: {source}")]
    OfPolicy {
        /// Name of the environment.
        env: String,
        /// Name of the policy.
        policy: PolicyId,
        /// Why.
        source: Box<PolicyError>,
    },
    /// An agent of this environment has no policy that it can play.
    #[error("the agents of {env} cannot play: {source}")]
    Mapping {
        /// Name of the environment.
        env: String,
        /// Why.
        source: Box<MappingError>,
    },
    /// The run that it was beside has ended.
    #[error("the run ended before the evaluation")]
    Interrupted,
}
