//! The report's memory of a run, of bounded size.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::series::Series;
use super::shorten::shortened;
use super::trouble::Trouble;
use crate::result::ResultDict;

/// The maximal number of small charts, which bounds the page for any number of policies.
pub(super) const MAX_SMALL_CHARTS: usize = 48;
/// The maximal length of a name.
const MAX_NAME_CHARS: usize = 120;

const POINTS: usize = 512;
const POINTS_OF_SMALL_CHARTS: usize = 256;

/// Curves over the whole run, and the newest value of other figures.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) n_results: u64,
    /// Episode return over env-steps.
    pub(super) returns: Series,
    /// Returns of single policies over env-steps.
    pub(super) policy_returns: IndexMap<String, SmallCurve>,
    /// Policy lag over env-steps.
    pub(super) lag: Series,
    /// Env-steps per second over seconds of wall time.
    pub(super) rate: Series,
    /// Statistics of the learner over env-steps, by policy and statistic.
    pub(super) stats: IndexMap<(String, String), SmallCurve>,
    /// Curves of the newest result without room.
    pub(super) n_left_out: usize,
    pub(super) newest: Newest,
    pub(super) trouble: Trouble,
}

/// A curve of a small chart.
#[derive(Debug)]
pub(super) struct SmallCurve {
    pub(super) series: Series,
    /// The newest result's figure; `None` if it is not finite.
    pub(super) last: Option<f64>,
    /// Results with the key, but without a finite number.
    pub(super) n_not_finite: u64,
}

/// Figures of the newest result with them.
#[derive(Debug, Default)]
pub(super) struct Newest {
    pub(super) env_steps: Option<u64>,
    pub(super) episode_return: Option<f64>,
    pub(super) time_total_secs: Option<f64>,
    pub(super) env_steps_per_s: Option<f64>,
    /// `ledger.steps`.
    pub(super) steps: Option<Value>,
    /// `ledger.time`.
    pub(super) time: Option<Map<String, Value>>,
    /// The last result's bottleneck sentence.
    pub(super) sentence: Option<String>,
    /// The last result's `policy_lag.histogram`.
    pub(super) lag_histogram: Option<Value>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            n_results: 0,
            returns: Series::new(POINTS, 1.0),
            policy_returns: IndexMap::new(),
            lag: Series::new(POINTS, 1.0),
            rate: Series::new(POINTS, 1e-3),
            stats: IndexMap::new(),
            n_left_out: 0,
            newest: Newest::default(),
            trouble: Trouble::default(),
        }
    }
}

impl Memory {
    /// Adds a result.
    pub(super) fn take(&mut self, result: &ResultDict) {
        self.n_results += 1;
        self.newest.take(result);
        let env_steps = self.newest.env_steps.unwrap_or_default();
        self.trouble.take(result, env_steps);

        let x = env_steps as f64;
        if let Some(mean) = episode_return(result) {
            let range = (result.number("episode_reward_min"), result.number("episode_reward_max"));
            self.returns.push(x, mean, range);
        }
        if let Some(mean) = result.number("policy_lag.mean") {
            self.lag.push(x, mean, (result.number("policy_lag.min"), result.number("policy_lag.max")));
        }
        if let (Some(secs), Some(rate)) = (result.number("time_total_s"), result.number("throughput.env_steps_per_s")) {
            self.rate.push(secs, rate, (None, None));
        }
        self.n_left_out = 0;
        self.take_policy_returns(result, x);
        self.take_stats(result, x);
    }

    fn take_policy_returns(&mut self, result: &ResultDict, x: f64) {
        let by_policy = |key: &str| result.get(key).and_then(Value::as_object);
        let of = |key: &str, policy: &str| by_policy(key)?.get(policy)?.as_f64();
        for (policy, mean) in by_policy("policy_reward_mean").into_iter().flatten() {
            let range = (of("policy_reward_min", policy), of("policy_reward_max", policy));
            // Half of the room is for the learner.
            if take(&mut self.policy_returns, shortened(policy, MAX_NAME_CHARS), MAX_SMALL_CHARTS / 2, |curve| {
                curve.push(x, mean.as_f64(), range);
            })
            .is_none()
            {
                self.n_left_out += 1;
            }
        }
    }

    fn take_stats(&mut self, result: &ResultDict, x: f64) {
        let policies = result.get("info.learner").and_then(Value::as_object);
        for (policy, info) in policies.into_iter().flatten() {
            let Some(stats) = info.get("learner_stats").and_then(Value::as_object) else { continue };
            for (stat, value) in stats {
                if !(value.is_number() || value.is_null()) {
                    continue;
                }
                let key = (shortened(policy, MAX_NAME_CHARS), shortened(stat, MAX_NAME_CHARS));
                let room = MAX_SMALL_CHARTS - self.policy_returns.len();
                if take(&mut self.stats, key, room, |curve| curve.push(x, value.as_f64(), (None, None))).is_none() {
                    self.n_left_out += 1;
                }
            }
        }
    }
}

/// Calls `push` with the curve of `key`, which it makes if there is room.
fn take<K: std::hash::Hash + Eq>(
    curves: &mut IndexMap<K, SmallCurve>,
    key: K,
    room: usize,
    push: impl FnOnce(&mut SmallCurve),
) -> Option<()> {
    if curves.len() >= room && !curves.contains_key(&key) {
        return None;
    }
    push(curves.entry(key).or_insert_with(SmallCurve::new));
    Some(())
}

impl SmallCurve {
    fn new() -> SmallCurve {
        SmallCurve { series: Series::new(POINTS_OF_SMALL_CHARTS, 1.0), last: None, n_not_finite: 0 }
    }

    fn push(&mut self, x: f64, value: Option<f64>, range: (Option<f64>, Option<f64>)) {
        self.last = value.filter(|value| value.is_finite());
        match self.last {
            Some(value) => self.series.push(x, value, range),
            None => self.n_not_finite += 1,
        }
    }
}

impl Newest {
    fn take(&mut self, result: &ResultDict) {
        fn renew<T>(old: &mut Option<T>, new: Option<T>) {
            if new.is_some() {
                *old = new;
            }
        }
        let count = |key: &str| result.get(key).and_then(Value::as_u64);
        renew(&mut self.env_steps, count("num_env_steps_sampled").or_else(|| count("timesteps_total")));
        renew(&mut self.episode_return, episode_return(result));
        renew(&mut self.time_total_secs, result.number("time_total_s"));
        renew(&mut self.env_steps_per_s, result.number("throughput.env_steps_per_s_since_start"));
        renew(&mut self.steps, result.get("ledger.steps").filter(|steps| steps.is_object()).cloned());
        renew(&mut self.time, result.get("ledger.time").and_then(Value::as_object).cloned());
        self.sentence = result.get("bottleneck.sentence").and_then(Value::as_str).map(|text| shortened(text, 2000));
        self.lag_histogram = result.get("policy_lag.histogram").cloned();
    }
}

fn episode_return(result: &ResultDict) -> Option<f64> {
    result.number("episode_return_mean").or_else(|| result.number("episode_reward_mean"))
}
