//! [`RunHistory`]: a run in bounded memory.

mod pipeline;
mod series;
pub mod settings;
mod shorten;
mod steps;
mod threads;
mod trouble;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use self::pipeline::Pipeline;
use self::series::Series;
use self::shorten::shortened;
use self::threads::Lately;
use self::trouble::Trouble;
use crate::result::ResultDict;

/// The maximal number of small charts, which bounds the page for any number of policies.
const MAX_SMALL_CHARTS: usize = 48;
/// The maximal length of a name.
const MAX_NAME_CHARS: usize = 120;

const POINTS: usize = 512;
const POINTS_OF_SMALL_CHARTS: usize = 256;

/// What pages show of a run: curves over all its results, and the newest value of other figures.
///
/// Memory stays within some hundred kilobytes: a full curve halves its resolution, and each point keeps
/// minimum, mean and maximum.
///
/// ```
/// use pronk_metrics::{ResultDict, RunHistory};
/// use serde_json::json;
///
/// let mut history = RunHistory::default();
/// for iteration in 1..=10_000 {
///     let mut result = ResultDict::new();
///     result.set("num_env_steps_sampled", 1000 * iteration);
///     result.set("episode_return_mean", f64::from(iteration).sqrt());
///     history.take(&result);
/// }
/// let page = history.to_json(&json!({"env": "CartPole-v1"}));
/// assert_eq!(page["env_steps"], "10000000");
/// assert!(page["returns"]["x"].as_array().is_some_and(|x| x.len() <= 512));
/// ```
#[derive(Clone, Debug)]
pub struct RunHistory {
    n_results: u64,
    /// Episode return over env-steps.
    returns: Series,
    /// Episode return of evaluations over the env-steps at which they began.
    evaluation: Series,
    n_evaluations: u64,
    /// Seconds of wall time over env-steps.
    clock: Series,
    /// Returns of single policies over env-steps.
    policy_returns: IndexMap<String, SmallCurve>,
    /// Policy lag over env-steps.
    lag: Series,
    /// Env-steps per second over seconds of wall time.
    rate: Series,
    /// Statistics of the learner over env-steps, by policy and statistic.
    stats: IndexMap<(String, String), SmallCurve>,
    /// Curves of the newest result without room.
    n_left_out: usize,
    newest: Newest,
    lately: Lately,
    trouble: Trouble,
}

/// A curve of a small chart.
#[derive(Clone, Debug)]
struct SmallCurve {
    series: Series,
    /// The newest result's figure; `None` if it is not finite.
    last: Option<f64>,
    /// Results with the key, but without a finite number.
    n_not_finite: u64,
}

/// Figures of the newest result with them.
#[derive(Clone, Debug, Default)]
struct Newest {
    env_steps: Option<u64>,
    episode_return: Option<f64>,
    time_total_secs: Option<f64>,
    env_steps_per_s: Option<f64>,
    /// `ledger.steps`.
    steps: Option<Value>,
    /// `ledger.time`.
    time: Option<Map<String, Value>>,
    /// The last result's bottleneck sentence.
    sentence: Option<String>,
    /// The last result's `policy_lag.histogram`.
    lag_histogram: Option<Value>,
    pipeline: Pipeline,
}

impl Default for RunHistory {
    fn default() -> RunHistory {
        RunHistory {
            n_results: 0,
            returns: Series::new(POINTS, 1.0),
            evaluation: Series::new(POINTS, 1.0),
            n_evaluations: 0,
            clock: Series::new(POINTS, 1.0),
            policy_returns: IndexMap::new(),
            lag: Series::new(POINTS, 1.0),
            rate: Series::new(POINTS, 1e-3),
            stats: IndexMap::new(),
            n_left_out: 0,
            newest: Newest::default(),
            lately: Lately::default(),
            trouble: Trouble::default(),
        }
    }
}

impl RunHistory {
    /// Adds a result; results are added in their order.
    pub fn take(&mut self, result: &ResultDict) {
        self.n_results += 1;
        self.newest.take(result);
        let env_steps = self.newest.env_steps.unwrap_or_default();
        self.trouble.take(result, env_steps);
        self.lately.take(result);

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
        if let Some(secs) = result.number("time_total_s") {
            self.clock.push(x, secs, (None, None));
        }
        self.take_evaluation(result);
        self.n_left_out = 0;
        self.take_policy_returns(result, x);
        self.take_stats(result, x);
    }

    /// Everything as JSON, of at most some hundred kilobytes; the first lines of
    /// [`charts::SCRIPT`](crate::charts::SCRIPT) document the fields. `settings` are those of the run, of
    /// which `env` and `algorithm` make its name.
    pub fn to_json(&self, settings: &Value) -> Value {
        let newest = &self.newest;
        let rate = newest.env_steps_per_s.or_else(|| {
            let secs = newest.time_total_secs.filter(|secs| *secs > 0.0)?;
            Some(newest.env_steps? as f64 / secs)
        });
        let curve = |name: &str, curve: &SmallCurve| json!({"name": name, "last": curve.last, "not_finite": curve.n_not_finite, "curve": curve.series.to_json()});
        let policy_returns: Vec<_> = self.policy_returns.iter().map(|(policy, own)| curve(policy, own)).collect();
        let mut learner = serde_json::Map::new();
        for ((policy, stat), own) in &self.stats {
            let stats = learner.entry(policy).or_insert_with(|| json!([]));
            stats.as_array_mut().into_iter().for_each(|stats| stats.push(curve(stat, own)));
        }
        json!({
            "name": run_name(settings),
            "results": self.n_results,
            // As text, because JavaScript rounds integers above 2^53.
            "env_steps": newest.env_steps.map(|steps| steps.to_string()),
            "episode_return": newest.episode_return,
            "wall_secs": newest.time_total_secs,
            "env_steps_per_s": rate,
            "sentence": newest.sentence,
            "returns": self.returns.to_json(),
            "evaluation": self.evaluation.to_json(),
            "clock": self.clock.to_json(),
            "policy_returns": policy_returns,
            "lag": self.lag.to_json(),
            "lag_histogram": newest.lag_histogram,
            "rate": self.rate.to_json(),
            "learner": learner,
            "curves_left_out": self.n_left_out,
            "pipeline": newest.pipeline.to_json(settings),
            "threads": newest.time.as_ref().map(threads::folded),
            "open_threads": newest.time.as_ref().map(threads::open_threads),
            "threads_lately": newest.time.as_ref().map(|now| self.lately.bars(now)),
            "steps": newest.steps.as_ref().map(steps::rows),
            "trouble": self.trouble.to_json(),
            "settings": settings::rows(settings),
        })
    }

    /// The curves by which runs are compared: of the fields of [`to_json`](Self::to_json), `returns`,
    /// `evaluation` and `clock`.
    pub fn curves(&self) -> Value {
        let (returns, evaluation) = (self.returns.to_json(), self.evaluation.to_json());
        json!({"returns": returns, "evaluation": evaluation, "clock": self.clock.to_json()})
    }

    /// An evaluation stands in every result until the next one has ended: only a higher count makes it new.
    fn take_evaluation(&mut self, result: &ResultDict) {
        let made = result.get("evaluation.made").and_then(Value::as_u64).unwrap_or(0);
        if made <= self.n_evaluations {
            return;
        }
        self.n_evaluations = made;
        let figure = |key: &str| result.number(&format!("evaluation.{key}"));
        if let (Some(at), Some(mean)) = (figure("at_env_steps"), figure("episode_reward_mean")) {
            self.evaluation.push(at, mean, (figure("episode_reward_min"), figure("episode_reward_max")));
        }
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
        self.pipeline = Pipeline::of(result);
    }
}

fn episode_return(result: &ResultDict) -> Option<f64> {
    result.number("episode_return_mean").or_else(|| result.number("episode_reward_mean"))
}

fn run_name(settings: &Value) -> String {
    let names: Vec<&str> = settings::env(settings).into_iter().chain(settings::algorithm(settings)).collect();
    if names.is_empty() { "A run".to_owned() } else { shortened(&names.join(" · "), 200) }
}

#[cfg(test)]
mod tests;
