//! The page: a template, the data as JSON, and the script that draws it.

use serde_json::{Value, json};

use super::memory::{Memory, SmallCurve};
use super::{settings, steps, threads};

/// The whole page.
pub(super) fn page(memory: &Memory, settings: &Value) -> String {
    let data = data(memory, settings);
    let name: String = data["name"].as_str().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    let name = name.replace('&', "&amp;").replace('<', "&lt;");
    // Only these could end or confuse a script element; escaped they mean the same.
    let data = data.to_string().replace('<', "\\u003c").replace('>', "\\u003e");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n<title>{name}</title>\n<style>\n{UPLOT_CSS}\n{CSS}</style>\n</head>\n<body>\n\
         <noscript>This page draws itself with JavaScript; results.jsonl has the same figures.</noscript>\n\
         <main></main>\n<script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{UPLOT}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

const CSS: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
const UPLOT: &str = include_str!("uplot/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("uplot/uPlot.min.css");

/// The data of `report.js`, which documents the fields.
fn data(memory: &Memory, settings: &Value) -> Value {
    let newest = &memory.newest;
    let rate = newest.env_steps_per_s.or_else(|| {
        let secs = newest.time_total_secs.filter(|secs| *secs > 0.0)?;
        Some(newest.env_steps? as f64 / secs)
    });
    let curve = |name: &str, curve: &SmallCurve| json!({"name": name, "last": curve.last, "not_finite": curve.n_not_finite, "curve": curve.series.to_json()});
    let policy_returns: Vec<_> = memory.policy_returns.iter().map(|(policy, own)| curve(policy, own)).collect();
    let mut learner = serde_json::Map::new();
    for ((policy, stat), own) in &memory.stats {
        let stats = learner.entry(policy).or_insert_with(|| json!([]));
        stats.as_array_mut().into_iter().for_each(|stats| stats.push(curve(stat, own)));
    }
    json!({
        "name": run_name(settings),
        "results": memory.n_results,
        // As text, because JavaScript rounds integers above 2^53.
        "env_steps": newest.env_steps.map(|steps| steps.to_string()),
        "episode_return": newest.episode_return,
        "wall_secs": newest.time_total_secs,
        "env_steps_per_s": rate,
        "sentence": newest.sentence,
        "returns": memory.returns.to_json(),
        "policy_returns": policy_returns,
        "lag": memory.lag.to_json(),
        "lag_histogram": newest.lag_histogram,
        "rate": memory.rate.to_json(),
        "learner": learner,
        "curves_left_out": memory.n_left_out,
        "threads": newest.time.as_ref().map(threads::folded),
        "open_threads": newest.time.as_ref().map(threads::open_threads),
        "steps": newest.steps.as_ref().map(steps::rows),
        "trouble": memory.trouble.to_json(),
        "settings": settings::rows(settings),
    })
}

fn run_name(settings: &Value) -> String {
    let env = settings::named(settings, &["env", "environment", "env_id"]);
    let algorithm = settings::named(settings, &["algorithm", "algo"]);
    let names: Vec<&str> = env.into_iter().chain(algorithm).collect();
    if names.is_empty() { "A run".to_owned() } else { super::shorten::shortened(&names.join(" · "), 200) }
}
