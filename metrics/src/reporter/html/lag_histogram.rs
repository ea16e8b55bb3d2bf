//! How many steps were how many versions behind.

use std::fmt::Write;

use serde_json::Value;

use super::axis::Axis;
use super::text::{figure, nothing, percent, whole};

/// More bars than that are joined two by two.
const MAX_BARS: usize = 40;
const MAX_LABELS: usize = 9;

/// One bar: from where, to where (`None`: no end), and how much.
type Bar = (f64, Option<f64>, f64);

/// Draws `{"edges": […], "counts": […]}`: one edge more than counts, or as many when the last bar has no end.
pub(super) fn draw(histogram: &Value, out: &mut String) {
    let Some(mut bars) = bars(histogram) else {
        return nothing(out, "The last result has a histogram of the policy lag whose edges do not fit its counts.");
    };
    // What nothing fell into is left out at both ends.
    let filled = |bar: &Bar| bar.2 > 0.0;
    let (Some(first), Some(last)) = (bars.iter().position(filled), bars.iter().rposition(filled)) else {
        return nothing(out, "The histogram of the policy lag in the last result is empty.");
    };
    bars = bars[first..=last].to_vec();
    while bars.len() > MAX_BARS {
        bars = bars.chunks(2).map(joined).collect();
    }
    let total: f64 = bars.iter().map(|bar| bar.2).sum();
    let most = bars.iter().map(|bar| bar.2).fold(0.0, f64::max);
    let axis = Axis::rounded_out(0.0, most / total * 100.0, 4);

    out.push_str(
        "<figure class=\"chart low\"><figcaption><b>Policy lag in the last result</b> \
         <span>share of all, %</span></figcaption>\n\
         <div class=\"frame\"><svg class=\"plot\" role=\"img\"><title>Histogram of the policy lag</title>",
    );
    let peak = bars.iter().max_by(|a, b| a.2.total_cmp(&b.2)).map_or_else(String::new, label);
    let _ = write!(out, "<desc>{} counted; most are at {peak}.</desc>", figure(total));
    for tick in axis.ticks() {
        let at = 100.0 * (1.0 - axis.place(*tick));
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{at:.2}%\" y2=\"{at:.2}%\"/>\
             <text class=\"y\" x=\"-7\" y=\"{at:.2}%\" dy=\"0.32em\">{}</text>",
            axis.label(*tick)
        );
    }
    let width = 100.0 / bars.len() as f64;
    let each = bars.len().div_ceil(MAX_LABELS);
    for (i, bar) in bars.iter().enumerate() {
        let left = width * i as f64;
        let height = 100.0 * axis.place(bar.2 / total * 100.0);
        let _ = write!(
            out,
            "<rect class=\"c0\" x=\"{:.2}%\" y=\"{:.2}%\" width=\"{:.2}%\" height=\"{height:.2}%\">\
             <title>{}: {} ({})</title></rect>",
            left + 0.08 * width,
            100.0 - height,
            0.84 * width,
            label(bar),
            figure(bar.2),
            percent(bar.2 / total)
        );
        if i % each == 0 {
            let middle = left + 0.5 * width;
            let _ = write!(out, "<text class=\"x\" x=\"{middle:.2}%\" y=\"100%\" dy=\"17\">{}</text>", label(bar));
        }
    }
    out.push_str("</svg></div><p class=\"axis\">versions behind</p></figure>\n");
}

fn bars(histogram: &Value) -> Option<Vec<Bar>> {
    let edges = histogram.get("edges")?.as_array()?;
    let counts = histogram.get("counts")?.as_array()?;
    if counts.is_empty() || !(edges.len() == counts.len() || edges.len() == counts.len() + 1) {
        return None;
    }
    let bar = |(i, count): (usize, &Value)| {
        let end = edges.get(i + 1).and_then(Value::as_f64);
        // Only the last may be without end.
        let is_bounded = end.is_some() || i + 1 == counts.len();
        let count = count.as_f64().filter(|count| *count >= 0.0)?;
        is_bounded.then_some((edges[i].as_f64()?, end, count))
    };
    counts.iter().enumerate().map(bar).collect()
}

fn joined(bars: &[Bar]) -> Bar {
    (bars[0].0, bars[bars.len() - 1].1, bars.iter().map(|bar| bar.2).sum())
}

/// `3` where only that number can be in the bar, else `4–7`, `0.5–1`, `64+`.
fn label(&(from, to, _): &Bar) -> String {
    let name = |edge: f64| if edge.fract() == 0.0 && edge.abs() < 1e15 { whole(edge as i128) } else { figure(edge) };
    let is_whole = |edge: f64| edge.fract() == 0.0;
    match to {
        None => format!("{}+", name(from)),
        Some(to) if is_whole(from) && is_whole(to) && to - from <= 1.0 => name(from),
        Some(to) if is_whole(from) && is_whole(to) => format!("{}–{}", name(from), name(to - 1.0)),
        Some(to) => format!("{}–{}", name(from), name(to)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(histogram: &Value) -> Vec<String> {
        bars(histogram).unwrap_or_default().iter().map(label).collect()
    }

    #[test]
    fn bars_are_named_after_what_can_be_in_them() {
        assert_eq!(labels(&json!({"edges": [0, 1, 2, 4, 8], "counts": [1, 2, 3, 4]})), ["0", "1", "2–3", "4–7"]);
        assert_eq!(labels(&json!({"edges": [0, 1, 2], "counts": [1, 2, 3]})), ["0", "1", "2+"]);
        assert_eq!(labels(&json!({"edges": [0, 0.5, null], "counts": [1, 2]})), ["0–0.5", "0.5+"]);
    }

    #[test]
    fn histograms_that_cannot_be_read_are_told_and_not_drawn() {
        for odd in [
            json!(3),
            json!({"edges": [], "counts": []}),
            json!({"edges": [0], "counts": [1, 2]}),
            json!({"edges": [0, null, 2], "counts": [1, 2]}),
            json!({"edges": [0, 1], "counts": [-1]}),
            json!({"edges": [0, 1], "counts": [0]}),
        ] {
            let mut out = String::new();
            draw(&odd, &mut out);
            assert!(out.contains("class=\"none\"") && !out.contains("<svg"), "{odd}: {out}");
        }
    }

    #[test]
    fn very_many_bars_are_joined() {
        let counts = vec![1; 5000];
        let edges: Vec<i32> = (0..=5000).collect();
        let mut out = String::new();
        draw(&json!({"edges": edges, "counts": counts}), &mut out);
        assert_eq!(out.matches("<rect").count(), 40);
    }
}
