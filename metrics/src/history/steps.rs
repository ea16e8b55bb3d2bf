//! The step ledger, summed exactly.

use serde_json::{Value, json};

use super::shorten::shortened;

/// More reasons or causes share the last row.
const MAX_ROWS: usize = 12;
const MAX_NAME_CHARS: usize = 120;

/// Env-steps and agent-steps; `None` if the ledger lacks the figure.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Count {
    env: Option<i128>,
    agent: Option<i128>,
}

const ZERO: Count = Count { env: Some(0), agent: Some(0) };

/// `ledger.steps` as rows, with their sum and the unexplained rest, 0 if the ledger closes; null if a figure
/// is missing.
pub(super) fn rows(steps: &Value) -> Value {
    let count = |key: &str| read(steps.get(key));
    let mut rows = vec![("trained once".to_owned(), "trained", count("trained_once"))];
    rows.extend(by_name(steps, "dropped"));
    rows.push(("in flight".to_owned(), "in_flight", count("in_flight")));
    rows.extend(by_name(steps, "lost"));
    let (sampled, sum) = (count("sampled"), rows.iter().map(|(.., count)| *count).fold(ZERO, Count::plus));
    let minus = |a: Option<i128>, b: Option<i128>| Some(a? - b?);
    let unexplained = Count { env: minus(sampled.env, sum.env), agent: minus(sampled.agent, sum.agent) };
    let whole = sampled.env.unwrap_or(0).max(sum.env.unwrap_or(0));
    let row = |name: &str, kind: &str, count: Count| {
        // No shares of 0.
        let share = count.env.filter(|_| whole > 0).map(|env| env as f64 / whole as f64);
        json!({"name": name, "kind": kind, "count": count.to_json(), "share": share})
    };
    json!({
        "rows": rows.iter().map(|(name, kind, count)| row(name, kind, *count)).collect::<Vec<_>>(),
        "sum": row("together", "sum", sum),
        "sampled": row("sampled", "sampled", sampled),
        "passes": row("trained, counting every pass", "passes", count("trained_passes")),
        "unexplained": unexplained.env.and(unexplained.agent).map(|_| unexplained.to_json()),
    })
}

/// A row for each reason or cause, largest first.
fn by_name(steps: &Value, key: &'static str) -> Vec<(String, &'static str, Count)> {
    let counts = steps.get(key).and_then(Value::as_object).into_iter().flatten();
    let name = |name: &str| format!("{key}: {}", shortened(name, MAX_NAME_CHARS));
    let mut rows: Vec<_> = counts.map(|(reason, count)| (name(reason), key, read(Some(count)))).collect();
    rows.sort_by_key(|(.., count)| -count.env.unwrap_or(0));
    if rows.len() > MAX_ROWS {
        let rest = rows.split_off(MAX_ROWS - 1);
        let sum = rest.iter().map(|(.., count)| *count).fold(ZERO, Count::plus);
        rows.push((format!("{key}: {} others", rest.len()), key, sum));
    }
    rows
}

impl Count {
    fn plus(self, other: Count) -> Count {
        let add = |a: Option<i128>, b: Option<i128>| Some(a? + b?);
        Count { env: add(self.env, other.env), agent: add(self.agent, other.agent) }
    }

    /// As text, because JavaScript rounds integers above 2^53.
    fn to_json(self) -> Value {
        json!({"env": self.env.map(|n| n.to_string()), "agent": self.agent.map(|n| n.to_string())})
    }
}

fn read(steps: Option<&Value>) -> Count {
    let count = |key: &str| steps?.get(key)?.as_u64().map(i128::from);
    Count { env: count("env"), agent: count("agent") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(sampled: u64) -> Value {
        let both = |n: u64| json!({"env": n, "agent": n});
        json!({
            "sampled": both(sampled),
            "trained_once": both((1 << 53) + 1),
            "trained_passes": both(1 << 54),
            "in_flight": both(1),
            "dropped": {"too_old": both(7), "over": both(9)},
            "lost": {"worker <1>": both(3)},
        })
    }

    #[test]
    fn a_ledger_closes_to_the_last_step_even_beyond_what_floats_can_count() {
        assert_eq!(rows(&ledger((1 << 53) + 21))["unexplained"], json!({"env": "0", "agent": "0"}));
        let open = rows(&ledger((1 << 53) + 22));
        assert_eq!(open["unexplained"], json!({"env": "1", "agent": "1"}));
        assert_eq!(open["sampled"]["count"]["env"], "9007199254741014");
    }

    #[test]
    fn missing_figures_are_reported_and_not_taken_for_nothing() {
        let mut steps = ledger(20);
        steps["in_flight"] = Value::Null;
        let rows = rows(&steps);
        assert!(rows["unexplained"].is_null() && rows["sum"]["count"]["env"].is_null(), "{rows}");
    }

    #[test]
    fn very_many_reasons_share_a_row_and_lose_no_step() {
        let mut steps = ledger((1 << 53) + 21 + 500);
        for i in 0..500 {
            steps["dropped"][format!("reason {i}")] = json!({"env": 1, "agent": 1});
        }
        let rows = rows(&steps);
        assert_eq!(rows["rows"].as_array().unwrap().len(), 2 + MAX_ROWS + 1);
        assert_eq!(rows["unexplained"], json!({"env": "0", "agent": "0"}));
    }

    #[test]
    fn a_run_without_steps_has_no_shares() {
        let rows = rows(&json!({"sampled": {"env": 0, "agent": 0}}));
        assert!(rows["sampled"]["share"].is_null());
    }
}
