//! Maps each number of a result to its metric.

use std::collections::BTreeMap;

use pronk_metrics::ResultDict;

/// The label names and values of a sample.
pub(super) type Labels = Vec<(&'static str, String)>;

/// The metrics of one result, by name without the prefix and the unit.
#[derive(Debug, Default)]
pub(super) struct Families(BTreeMap<String, Family>);

/// All samples of one name.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) kind: Kind,
    pub(super) help: String,
    pub(super) samples: BTreeMap<Labels, f64>,
}

/// The type of a metric, and whether its unit is the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    SecondsCounter,
    Gauge,
    SecondsGauge,
}

impl Families {
    /// Every number of `result`, once.
    pub(super) fn of(result: &ResultDict) -> Families {
        let mut families = Families::default();
        for (way, value) in result.leaves() {
            if let Some(value) = value.as_f64()
                && let Some(figure) = figure(&way, result)
            {
                families.add(figure, value);
            }
        }
        families
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Family)> {
        self.0.iter().map(|(name, family)| (name.as_str(), family))
    }

    fn add(&mut self, figure: Figure, value: f64) {
        let Figure { name, kind, help, labels, scale } = figure;
        let counts = matches!(kind, Kind::Counter | Kind::SecondsCounter);
        // The format allows neither counters below zero nor metrics without a name.
        if name.is_empty() || !value.is_finite() || (counts && value < 0.0) {
            return;
        }
        let family = self.0.entry(name).or_insert_with(|| Family { kind, help, samples: BTreeMap::new() });
        // A user's key can map to an existing name; the first one keeps it.
        let is_alone = |labels: &Labels| labels.is_empty();
        if family.kind != kind || family.samples.keys().any(|other| is_alone(other) != is_alone(&labels)) {
            return;
        }
        let value = value * scale;
        family.samples.entry(labels).or_insert(value);
    }
}

/// The metric of a number.
struct Figure {
    name: String,
    kind: Kind,
    help: String,
    labels: Labels,
    /// From the result's unit to the metric's.
    scale: f64,
}

impl Figure {
    fn new(kind: Kind, name: impl Into<String>, help: impl Into<String>) -> Figure {
        Figure { name: name.into(), kind, help: help.into(), labels: Labels::new(), scale: 1.0 }
    }

    fn counter(name: &str, help: &str) -> Figure {
        Figure::new(Kind::Counter, name, help)
    }

    fn gauge(name: &str, help: &str) -> Figure {
        Figure::new(Kind::Gauge, name, help)
    }

    fn label(mut self, name: &'static str, value: &str) -> Figure {
        self.labels.push((name, value.to_owned()));
        self
    }

    /// The metric of a figure known only by its path `way` of keys.
    fn unknown(counts: bool, way: &[&str]) -> Figure {
        let help = format!("{} of the result.", way.join(".").replace(['\\', '"', '\n', '\r'], "_"));
        // Keys under `info` and `counters` are unambiguous without the prefix.
        let keys = if matches!(way, ["info" | "counters", _, ..]) { &way[1..] } else { way };
        let name = snake_case(&keys.join("_"));
        let name = if counts { name.strip_prefix("num_").unwrap_or(&name) } else { &name };
        let name = name.replace("_per_s_", "_per_second_");
        let per_second = name.strip_suffix("_per_s").map(|rest| format!("{rest}_per_second"));
        let secs = ["_s", "_secs", "_seconds"].iter().find_map(|unit| name.strip_suffix(unit));
        let (name, is_time, scale) = match (per_second, secs, name.strip_suffix("_ms")) {
            (Some(name), ..) => (name, false, 1.0),
            (_, Some(name), _) => (name.to_owned(), true, 1.0),
            (_, _, Some(name)) => (name.to_owned(), true, 1e-3),
            _ => (name, false, 1.0),
        };
        // The format appends this suffix to counters and reserves it for them.
        let name = name.trim_end_matches("_total");
        let kind = match (counts, is_time) {
            (true, true) => Kind::SecondsCounter,
            (true, false) => Kind::Counter,
            (false, true) => Kind::SecondsGauge,
            (false, false) => Kind::Gauge,
        };
        Figure { scale, ..Figure::new(kind, name, help) }
    }
}

/// The metric at `way`; `None` if it is exported elsewhere or follows from others.
fn figure(way: &[&str], result: &ResultDict) -> Option<Figure> {
    Some(match way {
        ["training_iteration"] => Figure::counter("training_iterations", "Results so far."),
        ["time_total_s"] => Figure::new(Kind::SecondsCounter, "run", "Time since the run started."),
        ["progress"] => Figure::gauge("progress_ratio", "How much of the run is done."),
        ["episode_reward_min"] => Figure::gauge("episode_return_min", "Smallest return of the recent episodes."),
        ["episode_return_mean"] => Figure::gauge("episode_return_mean", "Mean return of the recent episodes."),
        ["episode_reward_max"] => Figure::gauge("episode_return_max", "Largest return of the recent episodes."),
        ["policy_reward_min", policy] => policy_return("", "min", policy),
        ["policy_reward_mean", policy] => policy_return("", "mean", policy),
        ["policy_reward_max", policy] => policy_return("", "max", policy),
        ["workers", "restarts"] => Figure::counter("worker_restarts", "Workers started again after a failure."),
        ["learner_health", "batches_quarantined"] => {
            Figure::counter("batches_quarantined", "Batches that the learner refused to learn from.")
        }
        ["evaluation", "episode_reward_min"] => evaluated("min", "Smallest"),
        ["evaluation", "episode_reward_mean"] => evaluated("mean", "Mean"),
        ["evaluation", "episode_reward_max"] => evaluated("max", "Largest"),
        ["evaluation", "policy_reward_min", policy] => policy_return("evaluation_", "min", policy),
        ["evaluation", "policy_reward_mean", policy] => policy_return("evaluation_", "mean", policy),
        ["evaluation", "policy_reward_max", policy] => policy_return("evaluation_", "max", policy),
        ["evaluation", "best", "episode_reward_mean"] => {
            Figure::gauge("evaluation_best_return_mean", "Highest mean return of all evaluations.")
        }
        ["evaluation", "made"] => Figure::counter("evaluations", "Evaluations with figures."),
        ["evaluation", "failed"] => Figure::counter("evaluations_failed", "Evaluations that failed."),
        ["evaluation", "skipped"] => Figure::counter("evaluations_skipped", "Evaluations that were left out."),
        ["ledger", "steps", steps @ ..] => steps_figure(steps)?,
        ["ledger", "time", thread, "states", state] => {
            let help = "Where the time of each thread went.";
            let figure = Figure::new(Kind::SecondsCounter, "thread_state", help);
            figure.label("thread", thread).label("state", state)
        }
        ["ledger", "time", process, "processor_secs"] => {
            let help = "Processor time of the processes of environments.";
            Figure::new(Kind::SecondsCounter, "env_process_cpu", help).label("process", process)
        }
        // A thread's wall time is the sum of its states, and the shares of an iteration are rates.
        ["ledger", "time" | "time_this_iter", ..] => return None,
        ["info", "learner", policy, "num_grad_updates_lifetime"] => {
            Figure::counter("learner_updates", "Updates of each policy so far.").label("policy", policy)
        }
        ["info", "learner", policy, "learner_stats", stat @ ..] | ["info", "learner", policy, stat @ ..]
            if !stat.is_empty() =>
        {
            let help = "What the updates found out.";
            Figure::gauge("learner", help).label("policy", policy).label("stat", &stat.join("."))
        }
        _ if is_told_elsewhere(way, result) => return None,
        ["counters", ..] => Figure::unknown(true, way),
        _ => Figure::unknown(false, way),
    })
}

fn evaluated(which: &str, what: &str) -> Figure {
    let help = format!("{what} return of the newest evaluation.");
    Figure::new(Kind::Gauge, format!("evaluation_return_{which}"), help)
}

fn policy_return(of: &str, which: &str, policy: &str) -> Figure {
    let episodes = if of.is_empty() { "the recent episodes" } else { "the newest evaluation" };
    let help = format!("Return of each policy in {episodes}: {which}.");
    Figure::new(Kind::Gauge, format!("{of}policy_return_{which}"), help).label("policy", policy)
}

/// The step ledger: sampled is in flight plus the sum over all fates.
fn steps_figure(way: &[&str]) -> Option<Figure> {
    let fate = |fate: &str| Figure::counter("steps", "What became of steps.").label("fate", fate);
    Some(match way {
        ["sampled", unit] => Figure::counter("steps_sampled", "Steps made.").label("unit", unit),
        ["in_flight", unit] => {
            Figure::gauge("steps_in_flight", "Steps on their way to the learner.").label("unit", unit)
        }
        ["trained_passes", unit] => {
            Figure::counter("steps_trained_passes", "Steps learned from, counted once per pass.").label("unit", unit)
        }
        ["trained_once", unit] => fate("trained").label("unit", unit),
        ["dropped", reason, unit] => fate("dropped").label("reason", reason).label("unit", unit),
        ["lost", cause, unit] => fate("lost").label("reason", cause).label("unit", unit),
        _ => return None,
    })
}

/// RLlib's keys whose number is exported under another name, or follows from exported ones.
const TOLD_ELSEWHERE: &[(&str, &str)] = &[
    ("agent_timesteps_total", "ledger.steps.sampled.agent"),
    ("episode_reward_mean", "episode_return_mean"),
    ("num_agent_steps_sampled", "ledger.steps.sampled.agent"),
    ("num_agent_steps_trained", "ledger.steps.trained_passes.agent"),
    ("num_agent_steps_trained_once", "ledger.steps.trained_once.agent"),
    ("num_agent_steps_sampled_this_iter", "ledger.steps.sampled.agent"),
    ("num_agent_steps_trained_this_iter", "ledger.steps.trained_passes.agent"),
    ("num_batches_quarantined", "learner_health.batches_quarantined"),
    ("num_env_steps_dropped", "ledger.steps.dropped"),
    ("num_env_steps_lost", "ledger.steps.lost"),
    ("num_env_steps_sampled", "ledger.steps.sampled.env"),
    ("num_env_steps_sampled_this_iter", "ledger.steps.sampled.env"),
    ("num_env_steps_trained", "ledger.steps.trained_passes.env"),
    ("num_env_steps_trained_once", "ledger.steps.trained_once.env"),
    ("num_env_steps_trained_this_iter", "ledger.steps.trained_passes.env"),
    ("num_healthy_workers", "workers.healthy"),
    ("num_in_flight_async_reqs", "workers.healthy"),
    ("num_remote_worker_restarts", "workers.restarts"),
    ("num_steps_trained_this_iter", "ledger.steps.trained_passes.env"),
    ("timesteps_total", "ledger.steps.sampled.env"),
];

fn is_told_elsewhere(way: &[&str], result: &ResultDict) -> bool {
    let is_there = |path: &str| result.get(path).is_some();
    let counted = |key: &str| is_there(&format!("counters.{key}"));
    match way {
        ["sampler_results", rest @ ..] => is_there(&rest.join(".")),
        [key] | ["counters" | "info", key] => {
            TOLD_ELSEWHERE.iter().any(|(told, path)| told == key && is_there(path))
                || (way[0] != "counters" && counted(key))
        }
        _ => false,
    }
}

/// `text` reduced to the characters allowed in a metric's name.
fn snake_case(text: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    text.chars().map(allowed).collect()
}
