//! What became of every step, as a bar and a table.

use std::fmt::Write;

use serde_json::Value;

use super::memory::MAX_NAME_CHARS;
use super::palette::{self, BLUE, N_TEXTURES, ORANGE, Paint, SKY, VERMILLION};
use super::text::{escape, nothing, percent, shortened, whole};

/// More reasons or causes than that share their last row.
const MAX_ROWS: usize = 12;

/// Steps of environments and of agents; `None` when the ledger does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    env: Option<i128>,
    agent: Option<i128>,
}

/// One of the ways that steps went.
struct Row {
    name: String,
    count: Count,
    paint: Paint,
}

/// How many env- and agent-steps the rows of the ledger leave unexplained: both 0 when it closes. `None` when a figure is
/// missing.
pub(super) fn unexplained(steps: &Value) -> Option<(i128, i128)> {
    let sampled = read(steps.get("sampled"));
    let sum = sum(&rows(steps));
    Some((sampled.env? - sum.env?, sampled.agent? - sum.agent?))
}

/// Draws `ledger.steps`.
pub(super) fn draw(steps: Option<&Value>, out: &mut String) {
    let Some(steps) = steps else {
        return nothing(out, "No result has a step ledger.");
    };
    let sampled = read(steps.get("sampled"));
    let rows = rows(steps);
    let whole_bar = sampled.env.unwrap_or(0).max(sum(&rows).env.unwrap_or(0));
    let share = |count: Option<i128>| Some(count? as f64 / whole_bar as f64).filter(|share| share.is_finite());
    if whole_bar == 0 {
        nothing(out, "No env-step was made.");
    } else {
        draw_bar(&rows, share, out);
        palette::legend(out, rows.iter().filter(|row| row.count.env != Some(0)).map(|row| (&*row.name, row.paint)));
    }
    out.push_str(
        "<div class=\"scroll\"><table class=\"numbers\"><thead><tr><th scope=\"col\"></th><th scope=\"col\">env-steps</th>\
         <th scope=\"col\">share</th><th scope=\"col\">agent-steps</th></tr></thead>\n<tbody>",
    );
    let mut row = |class: &str, name: &str, count: Count| {
        let number = |count: Option<i128>| count.map_or_else(|| "–".to_owned(), whole);
        let _ = writeln!(
            out,
            "<tr{class}><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(name),
            number(count.env),
            share(count.env).map_or_else(|| "–".to_owned(), percent),
            number(count.agent)
        );
    };
    rows.iter().for_each(|part| row("", &part.name, part.count));
    row(" class=\"sum\"", "together", sum(&rows));
    row("", "sampled", sampled);
    row(" class=\"aside\"", "trained, counting every pass", read(steps.get("trained_passes")));
    out.push_str("</tbody></table></div>\n");
    let _ = match unexplained(steps) {
        Some((0, 0)) => writeln!(out, "<p>The ledger closes: every step that was sampled is accounted for.</p>"),
        Some((env, agent)) => writeln!(
            out,
            "<p class=\"bad\">The ledger does not close: {} env-steps and {} agent-steps are unexplained.</p>",
            whole(env),
            whole(agent)
        ),
        None => {
            writeln!(out, "<p class=\"bad\">A figure is missing, so it cannot be said whether the ledger closes.</p>")
        }
    };
}

fn draw_bar(rows: &[Row], share: impl Fn(Option<i128>) -> Option<f64>, out: &mut String) {
    out.push_str("<svg class=\"bar\" role=\"img\"><title>What became of the sampled env-steps</title><desc>");
    let parts = || rows.iter().filter_map(|row| Some((row, share(row.count.env)?)));
    let words: Vec<String> = parts().map(|(row, share)| format!("{} {}", escape(&row.name), percent(share))).collect();
    let _ = write!(out, "{}</desc>", words.join(", "));
    let mut left = 0.0;
    for (row, share) in parts() {
        let width = 100.0 * share;
        if width > 0.0 {
            palette::rect(out, row.paint, left, width, &format!("{}: {}", escape(&row.name), percent(share)));
            palette::rect_label(out, row.paint, left, width, &row.name);
        }
        left += width;
    }
    out.push_str("</svg>\n");
}

fn rows(steps: &Value) -> Vec<Row> {
    let plain = |name: &str, key: &str, colour| Row {
        name: name.to_owned(),
        count: read(steps.get(key)),
        paint: Paint { colour, texture: 0 },
    };
    let mut rows = vec![plain("trained once", "trained_once", BLUE)];
    rows.extend(by_name(steps, "dropped", ORANGE));
    rows.push(plain("in flight", "in_flight", SKY));
    rows.extend(by_name(steps, "lost", VERMILLION));
    rows
}

/// A row for each reason or cause, those with the most env-steps first.
fn by_name(steps: &Value, key: &str, colour: u8) -> Vec<Row> {
    let counts = steps.get(key).and_then(Value::as_object);
    let mut counts: Vec<(String, Count)> = counts
        .into_iter()
        .flatten()
        .map(|(name, count)| (format!("{key}: {}", shortened(name, MAX_NAME_CHARS)), read(Some(count))))
        .collect();
    counts.sort_by_key(|(_, count)| -count.env.unwrap_or(0));
    if counts.len() > MAX_ROWS {
        let rest = counts.split_off(MAX_ROWS - 1);
        let sum = rest.iter().map(|(_, count)| *count).fold(ZERO, Count::plus);
        counts.push((format!("{key}: {} others", rest.len()), sum));
    }
    let textures = (0..N_TEXTURES).cycle();
    let row = |((name, count), texture)| Row { name, count, paint: Paint { colour, texture } };
    counts.into_iter().zip(textures).map(row).collect()
}

const ZERO: Count = Count { env: Some(0), agent: Some(0) };

impl Count {
    fn plus(self, other: Count) -> Count {
        let add = |a: Option<i128>, b: Option<i128>| Some(a? + b?);
        Count { env: add(self.env, other.env), agent: add(self.agent, other.agent) }
    }
}

fn sum(rows: &[Row]) -> Count {
    rows.iter().map(|row| row.count).fold(ZERO, Count::plus)
}

fn read(steps: Option<&Value>) -> Count {
    let count = |key: &str| steps?.get(key)?.as_u64().map(i128::from);
    Count { env: count("env"), agent: count("agent") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        assert_eq!(unexplained(&ledger((1 << 53) + 21)), Some((0, 0)));
        assert_eq!(unexplained(&ledger((1 << 53) + 22)), Some((1, 1)));
        let mut out = String::new();
        draw(Some(&ledger((1 << 53) + 22)), &mut out);
        assert!(out.contains("1 env-steps and 1 agent-steps are unexplained"), "{out}");
        assert!(out.contains("<td>9,007,199,254,741,014</td>"), "{out}");
    }

    #[test]
    fn missing_figures_are_told_and_not_taken_for_nothing() {
        let mut steps = ledger(20);
        steps["in_flight"] = Value::Null;
        assert_eq!(unexplained(&steps), None);
        let mut out = String::new();
        draw(Some(&steps), &mut out);
        assert!(out.contains("A figure is missing") && out.contains("<td>–</td>"), "{out}");
    }

    #[test]
    fn very_many_reasons_share_a_row_and_lose_no_step() {
        let mut steps = ledger((1 << 53) + 21 + 500);
        for i in 0..500 {
            steps["dropped"][format!("reason {i}")] = json!({"env": 1, "agent": 1});
        }
        assert_eq!(rows(&steps).len(), 2 + MAX_ROWS + 1);
        assert_eq!(unexplained(&steps), Some((0, 0)));
    }

    #[test]
    fn a_run_without_steps_has_no_bar() {
        let mut out = String::new();
        draw(Some(&json!({"sampled": {"env": 0, "agent": 0}})), &mut out);
        assert!(out.contains("No env-step was made.") && !out.contains("NaN"), "{out}");
    }
}
