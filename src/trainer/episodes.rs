//! Episode statistics, smoothed over iterations.

use std::collections::VecDeque;

use pronk_buffer::Fold;
use pronk_metrics::{ByPolicy, ResultDict};
use pronk_rollout::{EpisodeStat, ReturnStat, WorkerReport};
use serde_json::{Value, json};

/// The newest finished episodes, enough of them for smoothing.
#[derive(Clone)]
pub(super) struct EpisodeHistory {
    smoothing: usize,
    newest: VecDeque<EpisodeStat>,
    /// Of each policy, the returns of the newest iterations.
    by_policy: ByPolicy<VecDeque<ReturnStat>>,
}

/// Figures over the episodes of one iteration, topped up from earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EpisodeSummary {
    pub(super) this_iteration: u64,
    pub(super) covered: u64,
    pub(super) enough: bool,
    pub(super) return_min: Option<f64>,
    pub(super) return_mean: Option<f64>,
    pub(super) return_max: Option<f64>,
    pub(super) len_mean: Option<f64>,
}

impl EpisodeHistory {
    pub(super) fn new(smoothing: usize) -> Self {
        Self { smoothing, newest: VecDeque::new(), by_policy: ByPolicy::new() }
    }

    /// The newest episodes, and the newest returns of each policy, for a checkpoint: also those of the
    /// `report`, which no result covers yet.
    pub(super) fn save(&self, report: &WorkerReport) -> (VecDeque<EpisodeStat>, ByPolicy<VecDeque<ReturnStat>>) {
        let mut all = self.clone();
        all.summarise(report);
        all.policies(report);
        (all.newest, all.by_policy)
    }

    /// Continues with saved ones.
    pub(super) fn load(&mut self, newest: VecDeque<EpisodeStat>, by_policy: ByPolicy<VecDeque<ReturnStat>>) {
        (self.newest, self.by_policy) = (newest, by_policy);
    }

    /// Adds the iteration's returns by policy, and summarises.
    pub(super) fn policies(&mut self, report: &WorkerReport) -> ByPolicy<ReturnStat> {
        for (policy, returns) in &report.policy_returns {
            let newest = self.by_policy.entry(policy.clone()).or_default();
            newest.push_back(*returns);
            // Drops the oldest once the others suffice.
            let mut n = 0;
            let is_needed = |returns: &&ReturnStat| {
                let before = n;
                n += returns.n;
                before < self.smoothing as u64
            };
            let needed = newest.iter().rev().take_while(is_needed).count();
            newest.drain(..newest.len() - needed);
        }
        let sum = |returns: &VecDeque<ReturnStat>| {
            returns.iter().copied().reduce(|mut sum, later| {
                sum.fold(later);
                sum
            })
        };
        self.by_policy.iter().filter_map(|(policy, returns)| Some((policy.clone(), sum(returns)?))).collect()
    }

    /// Adds the iteration's episodes and summarises.
    ///
    /// Covers all episodes of the iteration, plus the newest earlier ones if there are fewer than the
    /// smoothing needs.
    pub(super) fn summarise(&mut self, report: &WorkerReport) -> EpisodeSummary {
        self.newest.extend(&report.episodes);
        self.newest.drain(..self.newest.len().saturating_sub(self.smoothing));
        let this_iteration = report.n_episodes;
        if this_iteration >= self.smoothing as u64 {
            // The report lists only the newest episodes; its sums cover all.
            return EpisodeSummary {
                this_iteration,
                covered: this_iteration,
                enough: true,
                return_min: report.return_min,
                return_mean: report.episode_return_mean(),
                return_max: report.return_max,
                len_mean: report.episode_len_mean(),
            };
        }
        let returns = || self.newest.iter().map(|episode| episode.episode_return);
        let covered = self.newest.len();
        let mean = |sum: f64| (covered > 0).then(|| sum / covered as f64);
        EpisodeSummary {
            this_iteration,
            covered: covered as u64,
            enough: covered >= self.smoothing,
            return_min: returns().reduce(f64::min),
            return_mean: mean(returns().sum()),
            return_max: returns().reduce(f64::max),
            len_mean: mean(self.newest.iter().map(|episode| f64::from(episode.episode_len)).sum()),
        }
    }
}

impl EpisodeHistory {
    /// Writes RLlib's `hist_stats`: return and length of the newest episodes, oldest first, bounded by the
    /// smoothing.
    pub(super) fn write_histograms(&self, dict: &mut ResultDict) {
        let returns: Vec<_> = self.newest.iter().map(|episode| episode.episode_return).collect();
        let lens: Vec<_> = self.newest.iter().map(|episode| episode.episode_len).collect();
        for prefix in ["", "sampler_results."] {
            dict.set(&format!("{prefix}hist_stats.episode_reward"), json!(returns));
            dict.set(&format!("{prefix}hist_stats.episode_lengths"), json!(lens));
        }
    }
}

impl EpisodeSummary {
    /// Writes RLlib's episode keys, at the top level and under `sampler_results`.
    pub(super) fn write_into(&self, dict: &mut ResultDict) {
        for prefix in ["", "sampler_results."] {
            let mut set = |key: &str, value: serde_json::Value| dict.set(&format!("{prefix}{key}"), value);
            set("episode_reward_min", json!(self.return_min));
            set("episode_reward_mean", json!(self.return_mean));
            set("episode_reward_max", json!(self.return_max));
            set("episode_len_mean", json!(self.len_mean));
            set("episodes_this_iter", json!(self.this_iteration));
            set("episodes_covered", json!(self.covered));
        }
        // The newer name of the key.
        dict.set("episode_return_mean", json!(self.return_mean));
    }
}

/// RLlib's `policy_reward_{min,mean,max}`, by policy, each key after a prefix.
pub(super) fn write_policy_returns(dict: &mut ResultDict, prefix: &str, returns: &ByPolicy<ReturnStat>) {
    let by_policy = |figure: fn(&ReturnStat) -> f64| -> Value {
        returns.iter().map(|(policy, returns)| (policy.to_string(), json!(figure(returns)))).collect()
    };
    dict.set(&format!("{prefix}policy_reward_min"), by_policy(|returns| returns.min));
    dict.set(&format!("{prefix}policy_reward_mean"), by_policy(ReturnStat::mean));
    dict.set(&format!("{prefix}policy_reward_max"), by_policy(|returns| returns.max));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(returns: &[f64]) -> WorkerReport {
        let episode =
            |&episode_return: &f64| EpisodeStat { worker: 1, index: 0, seed: 0, episode_return, episode_len: 10 };
        WorkerReport {
            n_episodes: returns.len() as u64,
            return_sum: returns.iter().sum(),
            return_min: returns.iter().copied().reduce(f64::min),
            return_max: returns.iter().copied().reduce(f64::max),
            len_sum: 10 * returns.len() as u64,
            // As if the list had dropped all but the newest two.
            episodes: returns.iter().skip(returns.len().saturating_sub(2)).map(episode).collect(),
            ..WorkerReport::default()
        }
    }

    #[test]
    fn few_episodes_are_topped_up_from_earlier_iterations() {
        let mut history = EpisodeHistory::new(3);
        let first = history.summarise(&report(&[1.0, 2.0]));
        assert_eq!((first.return_mean, first.enough), (Some(1.5), false));
        let second = history.summarise(&report(&[6.0, 7.0]));
        assert_eq!((second.return_mean, second.enough, second.covered), (Some(5.0), true, 3));
        assert_eq!((second.return_min, second.return_max), (Some(2.0), Some(7.0)));
    }

    #[test]
    fn more_episodes_than_the_smoothing_are_all_used() {
        let mut history = EpisodeHistory::new(2);
        history.summarise(&report(&[100.0]));
        let many = history.summarise(&report(&[1.0, 2.0, 3.0, 4.0]));
        assert_eq!((many.return_mean, many.covered, many.this_iteration), (Some(2.5), 4, 4));
        let none = history.summarise(&report(&[]));
        assert_eq!((none.return_mean, none.this_iteration), (Some(3.5), 0));
    }

    #[test]
    fn returns_of_policies_cover_the_newest_iterations_that_are_enough() {
        let mut history = EpisodeHistory::new(3);
        let report = |value: f64, n: u64| {
            let returns = ReturnStat { n, sum: value * n as f64, min: value, max: value };
            WorkerReport { policy_returns: ByPolicy::from([("x".into(), returns)]), ..WorkerReport::default() }
        };
        history.policies(&report(-1.0, 2));
        let both = history.policies(&report(2.0, 1));
        assert_eq!((both["x"].n, both["x"].mean(), both["x"].min), (3, 0.0, -1.0));
        let newest = history.policies(&report(4.0, 2));
        assert_eq!((newest["x"].n, newest["x"].max), (3, 4.0));
        assert_eq!(history.policies(&WorkerReport::default())["x"].n, 3);
    }

    #[test]
    fn a_checkpoint_has_the_episodes_that_no_result_covers_yet() {
        let mut history = EpisodeHistory::new(3);
        history.summarise(&report(&[1.0, 2.0]));
        let returns = ReturnStat { n: 1, sum: 4.0, min: 4.0, max: 4.0 };
        let policy_returns = ByPolicy::from([("x".into(), returns)]);
        let (episodes, by_policy) = history.save(&WorkerReport { policy_returns, ..report(&[3.0, 4.0]) });
        let saved: Vec<_> = episodes.iter().map(|episode| episode.episode_return).collect();
        assert_eq!((saved, by_policy["x"].len()), (vec![2.0, 3.0, 4.0], 1));
        assert_eq!(history.newest.len(), 2, "the next result covers them");
    }

    #[test]
    fn histograms_hold_the_newest_episodes_one_by_one() {
        let mut history = EpisodeHistory::new(3);
        history.summarise(&report(&[1.0, 2.0]));
        history.summarise(&report(&[3.0, 4.0]));
        let mut dict = ResultDict::new();
        history.write_histograms(&mut dict);
        assert_eq!(dict.get("hist_stats.episode_reward"), Some(&json!([2.0, 3.0, 4.0])));
        assert_eq!(dict.get("sampler_results.hist_stats.episode_lengths"), Some(&json!([10, 10, 10])));
    }

    #[test]
    fn without_episodes_there_is_no_mean() {
        let none = EpisodeHistory::new(5).summarise(&WorkerReport::default());
        assert_eq!(none, EpisodeSummary::default());
    }
}
