//! The time ledger, folded to a bounded number of bars.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::shorten::shortened;
use crate::result::ResultDict;

/// More threads share a bar by kind.
const MAX_BARS: usize = 24;
const MAX_NAME_CHARS: usize = 120;

/// The time of one thread, or of several folded together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bar {
    n_threads: u64,
    wall_secs: f64,
    states: IndexMap<String, f64>,
}

/// The time ledger of some seconds ago.
#[derive(Clone, Debug, Default)]
pub(super) struct Lately {
    /// `time_total_s` and `ledger.time` of a result at least [`LATELY_SECS`] before the newest, if there is
    /// one.
    before: Option<(f64, Map<String, Value>)>,
    /// Of the first result after that.
    between: Option<(f64, Map<String, Value>)>,
}

/// What counts as lately is one to two times this long.
const LATELY_SECS: f64 = 5.0;

impl Lately {
    pub(super) fn take(&mut self, result: &ResultDict) {
        let time = result.get("ledger.time").and_then(Value::as_object);
        let (Some(secs), Some(time)) = (result.number("time_total_s"), time) else { return };
        if self.between.as_ref().is_none_or(|(between, _)| secs - between >= LATELY_SECS) {
            self.before = self.between.replace((secs, time.clone()));
        }
    }

    /// The bars of the time from then to `now`, or since the start of a run that is shorter.
    pub(super) fn bars(&self, now: &Map<String, Value>) -> Vec<Value> {
        let before = self.before.as_ref().map(|(_, before)| before);
        let since = |(name, thread): (&String, &Value)| {
            let earlier = before.and_then(|before| before.get(name)).map(read).unwrap_or_default();
            (name.clone(), read(thread).since(&earlier))
        };
        to_json(now.iter().map(since).collect())
    }
}

/// Threads whose states do not account for their wall time, to 0.1 % and a microsecond.
pub(super) fn open_threads(time: &Map<String, Value>) -> Vec<String> {
    let is_open = |bar: &Bar| {
        let difference = bar.states.values().sum::<f64>() - bar.wall_secs;
        difference.abs() > 1e-3 * bar.wall_secs + 1e-6
    };
    time.iter().filter(|(_, thread)| is_open(&read(thread))).map(|(name, _)| shortened(name, MAX_NAME_CHARS)).collect()
}

impl Bar {
    /// The time after that of `earlier`. A thread that has ended has none, and fewer threads of a name may
    /// have less than before.
    fn since(mut self, earlier: &Bar) -> Bar {
        for (state, secs) in &mut self.states {
            *secs = (*secs - earlier.states.get(state).unwrap_or(&0.0)).max(0.0);
        }
        self.wall_secs = self.states.values().sum();
        self
    }

    fn add(&mut self, other: Bar) {
        self.n_threads += other.n_threads;
        self.wall_secs += other.wall_secs;
        for (state, secs) in other.states {
            *self.states.entry(state).or_default() += secs;
        }
    }
}

fn read(thread: &Value) -> Bar {
    let secs = |value: &Value| value.as_f64().filter(|secs| secs.is_finite()).unwrap_or(0.0).clamp(0.0, 1e15);
    let states = thread.get("states").and_then(Value::as_object);
    Bar {
        n_threads: thread.get("threads").and_then(Value::as_u64).unwrap_or(1),
        wall_secs: thread.get("wall_secs").map_or(0.0, secs),
        states: states.into_iter().flatten().map(|(state, value)| (state.clone(), secs(value))).collect(),
    }
}

/// `ledger.time` as bars: with many threads those of one kind share a bar, with many kinds those with the
/// least time.
pub(super) fn folded(time: &Map<String, Value>) -> Vec<Value> {
    to_json(time.iter().map(|(name, thread)| (name.clone(), read(thread))).collect())
}

fn to_json(mut bars: IndexMap<String, Bar>) -> Vec<Value> {
    if bars.len() > MAX_BARS {
        bars = fold(bars.into_iter(), kind);
    }
    if bars.len() > MAX_BARS {
        let mut by_time: Vec<(String, Bar)> = bars.into_iter().collect();
        by_time.sort_by(|a, b| b.1.wall_secs.total_cmp(&a.1.wall_secs));
        let others = fold(by_time.split_off(MAX_BARS - 1).into_iter(), |_| "all others".to_owned());
        bars = by_time.into_iter().chain(others).collect();
    }
    let bar = |(name, mut bar): (String, Bar)| {
        fold_states(&mut bar.states);
        let states = bar.states.into_iter().map(|(state, secs)| (shortened(&state, MAX_NAME_CHARS), json!(secs)));
        let states: Map<_, _> = states.collect();
        let name = shortened(&name, MAX_NAME_CHARS);
        json!({"name": name, "threads": bar.n_threads, "wall_secs": bar.wall_secs, "states": states})
    };
    bars.into_iter().map(bar).collect()
}

/// Folds the smallest of many states into one.
fn fold_states(states: &mut IndexMap<String, f64>) {
    const MAX_STATES: usize = 24;
    if states.len() > MAX_STATES {
        let mut by_time: Vec<(String, f64)> = std::mem::take(states).into_iter().collect();
        by_time.sort_by(|a, b| b.1.total_cmp(&a.1));
        let rest: f64 = by_time.split_off(MAX_STATES - 1).iter().map(|(_, secs)| secs).sum();
        states.extend(by_time);
        *states.entry("other".to_owned()).or_default() += rest;
    }
}

fn fold(bars: impl Iterator<Item = (String, Bar)>, name: impl Fn(&str) -> String) -> IndexMap<String, Bar> {
    let mut folded: IndexMap<String, Bar> = IndexMap::new();
    for (thread, bar) in bars {
        folded.entry(name(&thread)).or_default().add(bar);
    }
    folded
}

/// `rollout-*` of `rollout-17`, `rollout-*.*` of `rollout-17.3`.
fn kind(name: &str) -> String {
    let mut kind = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            c if !c.is_ascii_digit() => kind.push(c),
            _ if kind.ends_with('*') => {}
            _ => kind.push('*'),
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(names: impl Iterator<Item = String>) -> Map<String, Value> {
        names.map(|name| (name, json!({"wall_secs": 3.0, "states": {"idle": 1.0, "busy": 2.0}}))).collect()
    }

    #[test]
    fn a_bar_says_how_many_threads_had_its_name() {
        let time = json!({"rollout-1": {"wall_secs": 900.0, "threads": 300, "states": {"idle": 300.0, "busy": 600.0}}});
        let bars = folded(time.as_object().unwrap());
        let states = json!({"idle": 300.0, "busy": 600.0});
        assert_eq!(bars, [json!({"name": "rollout-1", "threads": 300, "wall_secs": 900.0, "states": states})]);
    }

    #[test]
    fn threads_of_a_kind_share_a_bar_only_when_there_are_many() {
        let few = time((1..=8).map(|n| format!("rollout-{n}")));
        assert_eq!(folded(&few).len(), 8);
        let many = time((1..=500).map(|n| format!("rollout-{n}.1")).chain(["learner".to_owned()]));
        let names: Vec<_> = folded(&many).into_iter().map(|bar| bar["name"].clone()).collect();
        assert_eq!(names, ["rollout-*.*", "learner"]);
        let odd = time((0..500).map(|n| format!("{}!", "x".repeat(n))));
        let bars = folded(&odd);
        assert_eq!(bars.len(), MAX_BARS);
        assert_eq!(bars.iter().filter_map(|bar| bar["threads"].as_u64()).sum::<u64>(), 500);
        assert_eq!(bars.iter().filter_map(|bar| bar["wall_secs"].as_f64()).sum::<f64>(), 1500.0);
    }

    #[test]
    fn threads_whose_states_do_not_add_up_are_named() {
        let mut time = time(["learner".to_owned()].into_iter());
        assert!(open_threads(&time).is_empty());
        time.insert("<odd>".into(), json!({"wall_secs": 3.0, "states": {"idle": 1.0}}));
        assert_eq!(open_threads(&time), ["<odd>"]);
    }

    #[test]
    fn lately_is_the_time_of_the_newest_seconds() {
        let mut lately = Lately::default();
        for secs in 0..=30 {
            let secs = f64::from(secs);
            // Busy for 20 seconds, then idle.
            let states = json!({"busy": secs.min(20.0), "idle": (secs - 20.0).max(0.0)});
            let mut result = ResultDict::new();
            result.set("time_total_s", secs);
            result.set("ledger.time.learner", json!({"wall_secs": secs, "states": states}));
            lately.take(&result);
            let bar = &lately.bars(result.get("ledger.time").unwrap().as_object().unwrap())[0];
            match secs {
                3.0 => assert_eq!(bar["states"], json!({"busy": 3.0, "idle": 0.0})),
                30.0 => {
                    assert_eq!((&bar["states"], &bar["wall_secs"]), (&json!({"busy": 0.0, "idle": 5.0}), &json!(5.0)))
                }
                _ => {}
            }
        }
    }

    #[test]
    fn times_that_are_no_numbers_are_nothing() {
        let odd =
            json!({"a": 3, "b": {"wall_secs": null, "states": {"x": null, "y": -1, "z": "?"}}, "c": {"states": []}});
        let bars = folded(odd.as_object().unwrap());
        assert_eq!(bars[1]["states"], json!({"x": 0.0, "y": 0.0, "z": 0.0}));
        assert_eq!((bars.len(), &bars[0]["wall_secs"]), (3, &json!(0.0)));
    }
}
