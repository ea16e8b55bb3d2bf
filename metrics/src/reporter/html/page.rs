//! The page from top to bottom.

use std::fmt::Write;

use serde_json::Value;

use super::line_chart::{Begin, LineChart, Size};
use super::memory::{Memory, SmallCurve};
use super::text::{counted, duration, escape, figure, nothing, section, shortened, whole};
use super::{lag_histogram, settings, step_bar, time_bars};

/// The whole page.
pub(super) fn page(memory: &Memory, settings: &Value) -> String {
    let name = run_name(settings);
    let mut out = String::new();
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <title>{name}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{TEXTURES}<main>\n"
    );
    head(memory, &name, &mut out);
    section(&mut out, "Learning", |out| learning(memory, out));
    section(&mut out, "Policy lag", |out| lag(memory, out));
    section(&mut out, "Throughput", |out| throughput(memory, out));
    section(&mut out, "Learner", |out| learner(memory, out));
    section(&mut out, "Where the time went", |out| time_bars::draw(memory.newest.time.as_ref(), out));
    section(&mut out, "What became of the steps", |out| step_bar::draw(memory.newest.steps.as_ref(), out));
    section(&mut out, "What went wrong", |out| memory.trouble.draw(out));
    section(&mut out, "Settings", |out| settings::draw(settings, out));
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

const STYLE: &str = include_str!("style.css");

/// What is laid over a colour when there are more names than colours.
const TEXTURES: &str = concat!(
    "<svg class=\"textures\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>\n",
    "<pattern id=\"t1\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">",
    "<rect class=\"ink\" width=\"2.2\" height=\"6\"/></pattern>\n",
    "<pattern id=\"t2\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(-45)\">",
    "<rect class=\"ink\" width=\"2.2\" height=\"6\"/></pattern>\n",
    "<pattern id=\"t3\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">",
    "<circle class=\"ink\" cx=\"3\" cy=\"3\" r=\"1.5\"/></pattern>\n",
    "</defs></svg>\n",
);

fn run_name(settings: &Value) -> String {
    let env = settings::named(settings, &["env", "environment", "env_id"]);
    let algorithm = settings::named(settings, &["algorithm", "algo"]);
    let names: Vec<&str> = env.into_iter().chain(algorithm).collect();
    if names.is_empty() { "A run".to_owned() } else { escape(&shortened(&names.join(" · "), 200)) }
}

fn head(memory: &Memory, name: &str, out: &mut String) {
    let newest = &memory.newest;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let rate = newest.env_steps_per_s.or_else(|| {
        let secs = newest.time_total_secs.filter(|secs| *secs > 0.0)?;
        Some(newest.env_steps? as f64 / secs)
    });
    let _ = writeln!(out, "<header>\n<h1>{name}</h1>\n<dl class=\"head\">");
    for (term, figure) in [
        ("Return reached", or_dash(newest.episode_return.map(figure))),
        ("Env-steps", or_dash(newest.env_steps.map(whole))),
        ("Wall time", or_dash(newest.time_total_secs.map(duration))),
        ("Env-steps/s", or_dash(rate.filter(|rate| rate.abs() < 1e18).map(|rate| whole(rate.round() as i128)))),
        ("Results", whole(memory.n_results)),
    ] {
        let _ = writeln!(out, "<div><dt>{term}</dt><dd>{figure}</dd></div>");
    }
    out.push_str("</dl>\n");
    if memory.n_results == 0 {
        nothing(out, "The run ended before its first result.");
    }
    let (is_closed, words) = ledgers(memory);
    let class = if is_closed { "good" } else { "bad" };
    let _ = writeln!(out, "<p class=\"{class}\">{words}</p>");
    if let Some(sentence) = &newest.sentence {
        let _ = writeln!(out, "<p class=\"sentence\">{}</p>", escape(sentence));
    }
    out.push_str("</header>\n");
}

/// Whether both ledgers close, and that in words.
fn ledgers(memory: &Memory) -> (bool, String) {
    let steps = memory.newest.steps.as_ref().map(step_bar::unexplained);
    let time = memory.newest.time.as_ref().map(|time| time_bars::open_threads(time).len() as u64);
    let steps = match steps {
        Some(Some((0, 0))) => Ok("the step ledger closes".to_owned()),
        Some(Some((env, agent))) => {
            let (env, agent) = (whole(env), whole(agent));
            Err(format!("the step ledger does not close ({env} env-steps and {agent} agent-steps unexplained)"))
        }
        Some(None) => Err("the step ledger lacks a figure".to_owned()),
        None => Err("there is no step ledger".to_owned()),
    };
    let time = match time {
        Some(0) => Ok("the time ledger closes".to_owned()),
        Some(n) => Err(format!("the time ledger does not close ({})", counted(n, "thread"))),
        None => Err("there is no time ledger".to_owned()),
    };
    match (steps, time) {
        (Ok(_), Ok(_)) => (true, "Both ledgers close: every step and every second is accounted for.".to_owned()),
        (steps, time) => {
            let words = |words: Result<String, String>| words.unwrap_or_else(|words| words);
            let (steps, time) = (words(steps), words(time));
            (false, format!("{}; {time}.", steps.replacen('t', "T", 1)))
        }
    }
}

fn env_steps(x: f64) -> String {
    format!("{} env-steps", whole(x.round() as i128))
}

fn learning(memory: &Memory, out: &mut String) {
    LineChart {
        title: "Episode return",
        note: "mean, and the range from least to greatest",
        x_name: "env-steps",
        x_value: env_steps,
        size: Size::Large,
        begin: Begin::NearLeast,
        if_empty: "No episode has ended.",
        warning: None,
    }
    .draw(&memory.returns, out);
    if memory.policy_returns.is_empty() {
        return;
    }
    out.push_str("<h3>Returns of single policies</h3>\n<div class=\"many\">\n");
    memory.policy_returns.iter().for_each(|(policy, curve)| small(policy, curve, out));
    out.push_str("</div>\n");
}

fn lag(memory: &Memory, out: &mut String) {
    LineChart {
        title: "Policy lag",
        note: "versions behind: mean, and the range from least to greatest",
        x_name: "env-steps",
        x_value: env_steps,
        size: Size::Large,
        begin: Begin::AtZero,
        if_empty: "No result tells how far behind the policy was.",
        warning: None,
    }
    .draw(&memory.lag, out);
    if let Some(histogram) = &memory.newest.lag_histogram {
        lag_histogram::draw(histogram, out);
    }
}

fn throughput(memory: &Memory, out: &mut String) {
    LineChart {
        title: "Env-steps per second",
        note: "of each result",
        x_name: "wall time, s",
        x_value: duration,
        size: Size::Large,
        begin: Begin::AtZero,
        if_empty: "No result has a throughput.",
        warning: None,
    }
    .draw(&memory.rate, out);
}

fn learner(memory: &Memory, out: &mut String) {
    if memory.stats.is_empty() {
        nothing(out, "No result has statistics of the learner.");
    }
    let mut policies: Vec<&str> = Vec::new();
    for (policy, _) in memory.stats.keys() {
        if !policies.contains(&policy.as_str()) {
            policies.push(policy);
        }
    }
    for policy in policies {
        let _ = write!(out, "<h3>{}</h3>\n<div class=\"many\">\n", escape(policy));
        let of_policy = memory.stats.iter().filter(|((owner, _), _)| owner == policy);
        of_policy.for_each(|((_, stat), curve)| small(stat, curve, out));
        out.push_str("</div>\n");
    }
    if !memory.stats.is_empty() {
        out.push_str("<p class=\"aside\">All over env-steps; the number is that of the last result.</p>\n");
    }
    if memory.n_left_out > 0 {
        let curves = counted(memory.n_left_out as u64, "further curve");
        nothing(out, &format!("And {curves} that found no room."));
    }
}

fn small(title: &str, curve: &SmallCurve, out: &mut String) {
    let last = curve.last.map_or_else(|| "not finite".to_owned(), figure);
    let n = curve.n_not_finite;
    LineChart {
        title,
        note: &last,
        x_name: "",
        x_value: env_steps,
        size: Size::Small,
        begin: Begin::NearLeast,
        if_empty: "No result has a finite number.",
        warning: (n > 0).then(|| format!("not finite in {}", counted(n, "result"))),
    }
    .draw(&curve.series, out);
}
