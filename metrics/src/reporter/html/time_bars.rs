//! Where the time of each thread went, as bars.

use std::fmt::Write;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::memory::MAX_NAME_CHARS;
use super::palette;
use super::text::{counted, duration, escape, nothing, percent, shortened};

/// With more bars than that, threads of one kind share one.
const MAX_BARS: usize = 24;
/// A state that took less than this share of every bar is not in the legend.
const SEEN_SHARE: f64 = 0.0005;

/// The time of one thread, or of several that were folded together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bar {
    n_threads: u64,
    wall_secs: f64,
    states: IndexMap<String, f64>,
}

/// The threads whose states do not account for their wall time, to 0.1 % and a microsecond.
pub(super) fn open_threads(time: &Map<String, Value>) -> Vec<&str> {
    let is_open = |bar: &Bar| {
        let difference = bar.states.values().sum::<f64>() - bar.wall_secs;
        difference.abs() > 1e-3 * bar.wall_secs + 1e-6
    };
    time.iter().filter(|(_, thread)| is_open(&read(thread))).map(|(name, _)| name.as_str()).collect()
}

/// Draws `ledger.time`.
pub(super) fn draw(time: Option<&Map<String, Value>>, out: &mut String) {
    let Some(time) = time.filter(|time| !time.is_empty()) else {
        return nothing(out, "No result has a time ledger.");
    };
    let bars = folded(time);
    let mut seen: IndexMap<&str, f64> = IndexMap::new();
    for bar in bars.values() {
        for (state, secs) in &bar.states {
            let share = seen.entry(state).or_default();
            *share = share.max(secs / bar.whole());
        }
    }
    let paints = palette::paints(seen.keys().copied());
    let entries = seen.iter().filter(|(_, share)| **share >= SEEN_SHARE);
    palette::legend(out, entries.filter_map(|(state, _)| Some((*state, *paints.get(state)?))));
    for (name, bar) in &bars {
        bar.draw(name, &paints, out);
    }
    let open = open_threads(time);
    if !open.is_empty() {
        let names: Vec<&str> = open.iter().copied().take(5).collect();
        let _ = writeln!(
            out,
            "<p class=\"bad\">The states of {} do not add up to the wall time: {}{}.</p>",
            counted(open.len() as u64, "thread"),
            escape(&shortened(&names.join(", "), 5 * MAX_NAME_CHARS)),
            if open.len() > names.len() { ", …" } else { "" }
        );
    }
}

impl Bar {
    /// What the whole width of the bar stands for.
    fn whole(&self) -> f64 {
        self.wall_secs.max(self.states.values().sum()).max(f64::MIN_POSITIVE)
    }

    fn add(&mut self, other: Bar) {
        self.n_threads += other.n_threads;
        self.wall_secs += other.wall_secs;
        for (state, secs) in other.states {
            *self.states.entry(state).or_default() += secs;
        }
    }

    fn draw(&self, name: &str, paints: &std::collections::BTreeMap<&str, palette::Paint>, out: &mut String) {
        let name = escape(&shortened(name, MAX_NAME_CHARS));
        let threads = if self.n_threads == 1 {
            String::new()
        } else {
            format!("{}, together ", counted(self.n_threads, "thread"))
        };
        let mut by_share: Vec<(&str, f64)> =
            self.states.iter().map(|(state, secs)| (state.as_str(), secs / self.whole())).collect();
        by_share.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut words: Vec<String> = by_share
            .iter()
            .filter(|(_, share)| *share >= SEEN_SHARE)
            .map(|(state, share)| format!("{} {}", escape(&shortened(state, MAX_NAME_CHARS)), percent(*share)))
            .collect();
        let in_none = 1.0 - by_share.iter().map(|(_, share)| share).sum::<f64>();
        if !words.is_empty() && in_none >= 2.0 * SEEN_SHARE {
            words.push(format!("in no state {}", percent(in_none)));
        }
        let words = if words.is_empty() { "no time spent in any state".to_owned() } else { words.join(" · ") };
        let _ = write!(
            out,
            "<div class=\"thread\"><p class=\"who\"><b>{name}</b> <span>{threads}{}</span></p>\
             <svg class=\"bar\" role=\"img\"><title>Time of {name}</title><desc>{words}</desc>",
            duration(self.wall_secs)
        );
        let mut left = 0.0;
        for (state, secs) in &self.states {
            let width = 100.0 * secs / self.whole();
            let paint = paints.get(state.as_str()).filter(|_| width > 0.0005);
            if let Some(paint) = paint {
                let title = format!("{}: {}, {}", escape(state), percent(width / 100.0), duration(*secs));
                palette::rect(out, *paint, left, width, &title);
                palette::rect_label(out, *paint, left, width, state);
            }
            left += width;
        }
        let _ = writeln!(out, "</svg><p class=\"shares\">{words}</p></div>");
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

/// Threads of one name have one bar; where that leaves too many, so do threads of one kind; where that leaves too many still, so
/// do those with the least time.
fn folded(time: &Map<String, Value>) -> IndexMap<String, Bar> {
    let mut bars: IndexMap<String, Bar> = time.iter().map(|(name, thread)| (name.clone(), read(thread))).collect();
    if bars.len() > MAX_BARS {
        bars = fold(bars.into_iter(), kind);
    }
    if bars.len() > MAX_BARS {
        let mut by_time: Vec<(String, Bar)> = bars.into_iter().collect();
        by_time.sort_by(|a, b| b.1.wall_secs.total_cmp(&a.1.wall_secs));
        let others = fold(by_time.split_off(MAX_BARS - 1).into_iter(), |_| "all others".to_owned());
        bars = by_time.into_iter().chain(others).collect();
    }
    for bar in bars.values_mut() {
        fold_states(&mut bar.states);
    }
    bars
}

/// Of very many states, those with the least time become one.
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
    use serde_json::json;

    use super::*;

    fn time(names: impl Iterator<Item = String>) -> Map<String, Value> {
        names.map(|name| (name, json!({"wall_secs": 3.0, "states": {"idle": 1.0, "busy": 2.0}}))).collect()
    }

    #[test]
    fn a_bar_says_how_many_threads_had_its_name() {
        let time = json!({"rollout-1": {"wall_secs": 900.0, "threads": 300, "states": {"idle": 300.0, "busy": 600.0}}});
        let bars = folded(time.as_object().unwrap());
        assert_eq!((bars[0].n_threads, bars[0].wall_secs, bars[0].states["busy"]), (300, 900.0, 600.0));
    }

    #[test]
    fn threads_of_a_kind_share_a_bar_only_when_there_are_many() {
        let few = time((1..=8).map(|n| format!("rollout-{n}")));
        assert_eq!(folded(&few).len(), 8);
        let many = time((1..=500).map(|n| format!("rollout-{n}.1")).chain(["learner".to_owned()]));
        assert_eq!(folded(&many).keys().collect::<Vec<_>>(), ["rollout-*.*", "learner"]);
        let odd = time((0..500).map(|n| format!("{}!", "x".repeat(n))));
        let bars = folded(&odd);
        assert_eq!(bars.len(), MAX_BARS);
        assert_eq!(bars.values().map(|bar| bar.n_threads).sum::<u64>(), 500);
        assert_eq!(bars.values().map(|bar| bar.wall_secs).sum::<f64>(), 1500.0);
    }

    #[test]
    fn threads_whose_states_do_not_add_up_are_named() {
        let mut time = time(["learner".to_owned()].into_iter());
        assert!(open_threads(&time).is_empty());
        time.insert("<odd>".into(), json!({"wall_secs": 3.0, "states": {"idle": 1.0}}));
        assert_eq!(open_threads(&time), ["<odd>"]);
        let mut out = String::new();
        draw(Some(&time), &mut out);
        assert!(out.contains("idle 33.3 % · in no state 66.7 %"), "{out}");
        assert!(out.contains("1 thread do not add up to the wall time: &lt;odd&gt;."), "{out}");
    }

    #[test]
    fn times_that_are_no_numbers_are_nothing() {
        let odd =
            json!({"a": 3, "b": {"wall_secs": null, "states": {"x": null, "y": -1, "z": "?"}}, "c": {"states": []}});
        let mut out = String::new();
        draw(odd.as_object(), &mut out);
        assert!(!out.contains("NaN") && out.matches("class=\"thread\"").count() == 3, "{out}");
    }
}
