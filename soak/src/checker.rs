//! [`Checker`]: whether what a cell says and what it has is as it should be.

mod ending;
mod flat;

pub(crate) use ending::Exit;
pub(crate) use flat::Memory;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cells::Cell;
use crate::census::Census;

/// Figures that never go down, by the beginnings of their paths. All but those of one process do not either
/// where a run is resumed.
const NEVER_DOWN: [&str; 14] = [
    "training_iteration",
    "time_total_s",
    "timesteps_total",
    "agent_timesteps_total",
    "num_env_steps_sampled",
    "num_env_steps_trained",
    "num_agent_steps_sampled",
    "num_agent_steps_trained",
    "counters.",
    "ledger.steps.",
    "workers.restarts",
    "workers.num_abandoned",
    OF_A_PROCESS,
    "life",
];

const OF_A_PROCESS: &str = "ledger.time.";

/// So many looks in a row at a run that has no new env-steps, and no thread that runs or waits for a
/// processor or a disk. No fault explains more, and a busy machine none.
const IDLE_LOOKS: u64 = 15;

/// A run without new env-steps hangs after so long, even if threads run.
const BUSY_PATIENCE: u32 = 5;

/// The time of a run may differ from ours by so much: a step of the wall clock is longer.
const CLOCKS: f64 = 60.0;

/// What is known of one cell.
pub(crate) struct Checker {
    cell: &'static Cell,
    began: Instant,
    warm_up: Duration,
    /// Seconds since the beginning, and what the process had.
    pub(crate) samples: Vec<(f64, Census)>,
    /// The figures of the last result.
    last: BTreeMap<String, f64>,
    /// Our time and the run's, of the first result of this process.
    clocks: Option<(Instant, f64)>,
    pub(crate) results: u64,
    pub(crate) processes: u64,
    pub(crate) env_steps: f64,
    /// When env-steps were last seen to grow, or the process to begin, and how many looks since then saw no
    /// thread that runs.
    progress: (Instant, u64),
    pub(crate) longest_stall: Duration,
    /// What the process has said of its end.
    ended: Option<Value>,
    /// Each kind of failure: the first, and how many.
    failures: BTreeMap<&'static str, (String, u64)>,
}

impl Checker {
    pub(crate) fn new(cell: &'static Cell, share: Duration) -> Self {
        let now = Instant::now();
        Self {
            cell,
            began: now,
            warm_up: (share / 4).clamp(Duration::from_secs(2), Duration::from_secs(180)),
            samples: Vec::new(),
            last: BTreeMap::new(),
            clocks: None,
            results: 0,
            processes: 0,
            env_steps: 0.0,
            progress: (now, 0),
            longest_stall: Duration::ZERO,
            ended: None,
            failures: BTreeMap::new(),
        }
    }

    /// Another process plays the cell, `from` the checkpoint of one that ended or of one that was killed.
    pub(crate) fn restarted(&mut self, was_killed: bool) {
        self.processes += 1;
        self.progress = (Instant::now(), 0);
        self.clocks = None;
        self.ended = None;
        self.last.retain(|path, _| !was_killed && !path.starts_with(OF_A_PROCESS));
    }

    pub(crate) fn fail(&mut self, kind: &'static str, what: impl FnOnce() -> String) {
        self.failures.entry(kind).or_insert_with(|| (what(), 0)).1 += 1;
    }

    /// The failures, a line each.
    pub(crate) fn failures(&self) -> Vec<String> {
        let line = |(kind, (what, n)): (&&str, &(String, u64))| match n {
            1 => format!("{kind}: {what}"),
            n => format!("{kind}: {what} (and {} more)", n - 1),
        };
        self.failures.iter().map(line).collect()
    }

    /// How long nothing has moved.
    pub(crate) fn still_for(&self) -> Duration {
        self.progress.0.elapsed()
    }

    /// Whether that is a hang.
    pub(crate) fn hangs(&self) -> bool {
        let patience = Duration::from_secs(self.cell.patience_secs);
        self.progress.1 >= patience.as_secs() || self.still_for() > BUSY_PATIENCE * patience
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// What the process has now.
    pub(crate) fn sample(&mut self, census: Census) {
        self.progress.1 += u64::from(census.running == 0);
        if self.progress.1 == IDLE_LOOKS {
            self.fail("stall", || format!("{IDLE_LOOKS} s in which no thread ran"));
        }
        // What a run starts with and gives back, both in milliseconds, is judged by the process itself.
        if self.clocks.is_some() && self.ended.is_none() {
            self.samples.push((self.began.elapsed().as_secs_f64(), census));
        }
    }

    /// A line of the process.
    pub(crate) fn line(&mut self, line: &str) {
        match serde_json::from_str::<Value>(line) {
            Ok(mut said) if said.get("ended").is_some() => self.ended = Some(said["ended"].take()),
            Ok(result) => self.result(&result),
            Err(error) => self.fail("line", || format!("{error}: {line:.200}")),
        }
    }

    fn result(&mut self, result: &Value) {
        self.results += 1;
        let mut figures = BTreeMap::new();
        flatten(result, String::new(), &mut figures);
        self.follows(&figures);
        let is_first = self.clocks.is_none();
        self.clock(figures.get("time_total_s").copied().unwrap_or(f64::NAN));
        if let Err(why) = steps_add_up(&result["ledger"]["steps"], &result["counters"]) {
            self.fail("steps", || why);
        }
        if let Err(why) = time_adds_up(&result["ledger"]["time"]) {
            self.fail("time", || why);
        }
        let env_steps = figures.get("num_env_steps_sampled").copied().unwrap_or(f64::NAN);
        let moved = self.last.get("num_env_steps_sampled").is_none_or(|before| env_steps > *before);
        if moved {
            if !is_first {
                self.longest_stall = self.longest_stall.max(self.still_for());
            }
            self.progress = (Instant::now(), 0);
        }
        self.env_steps = env_steps;
        self.last.extend(figures);
    }

    /// Nothing goes back, and no result is left out.
    fn follows(&mut self, figures: &BTreeMap<String, f64>) {
        let before = std::mem::take(&mut self.last);
        for (path, figure) in figures {
            let Some(earlier) = before.get(path) else { continue };
            if never_goes_down(path) && *figure < earlier - 1e-6 {
                self.fail("goes back", || format!("{path} was {earlier} and is {figure}"));
            }
            // The last result of a run is not always said: its limits may be reached within it.
            if path == "training_iteration" && *figure > earlier + 1.0 {
                self.fail("gap", || format!("result {figure} follows {earlier}"));
            }
        }
        self.last = before;
    }

    /// The time of the run passes as ours does.
    fn clock(&mut self, time_total: f64) {
        let (since, first) = *self.clocks.get_or_insert_with(|| (Instant::now(), time_total));
        let (theirs, ours) = (time_total - first, since.elapsed().as_secs_f64());
        if theirs.is_nan() || (theirs - ours).abs() > CLOCKS {
            self.fail("clock", || format!("the run took {theirs:.1} s, and really {ours:.1} s"));
        }
    }
}

fn never_goes_down(path: &str) -> bool {
    let is_a_state_of_now = path.contains(".in_flight.") || path.ends_with("this_iter");
    // The threads of a host begin anew when it joins again; the time of those before is under `left/`.
    let is_of_a_host = path.contains('/') && !path.starts_with("ledger.time.left/");
    NEVER_DOWN.iter().any(|start| path.starts_with(start)) && !is_a_state_of_now && !is_of_a_host
}

/// Every number with its path.
fn flatten(value: &Value, path: String, figures: &mut BTreeMap<String, f64>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                flatten(value, if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, figures);
            }
        }
        value => figures.extend(value.as_f64().map(|number| (path, number))),
    }
}

/// Whether all steps sampled are somewhere, by the figures themselves: pronk's own check is not asked.
fn steps_add_up(steps: &Value, counters: &Value) -> Result<(), String> {
    for unit in ["env", "agent"] {
        let of = |what: &str| steps[what][unit].as_u64().ok_or(format!("{what}.{unit} is missing in {steps}"));
        let by_name = |what: &str| -> u64 {
            steps[what].as_object().into_iter().flatten().filter_map(|(_, steps)| steps[unit].as_u64()).sum()
        };
        let (sampled, dropped, lost) = (of("sampled")?, by_name("dropped"), by_name("lost"));
        let (trained, in_flight) = (of("trained_once")?, of("in_flight")?);
        if sampled != trained + in_flight + dropped + lost {
            return Err(format!(
                "{sampled} {unit}-steps are not {trained} + {in_flight} + {dropped} + {lost}: {steps}"
            ));
        }
        if of("trained_passes")? < trained {
            return Err(format!("more {unit}-steps are trained on than in passes: {steps}"));
        }
        let same = [("sampled", sampled), ("trained_once", trained), ("dropped", dropped), ("lost", lost)];
        for (what, figure) in same {
            let counter = &counters[format!("num_{unit}_steps_{what}")];
            if counter.as_u64().is_some_and(|counter| counter != figure) {
                return Err(format!("the counter of {unit}-steps {what} is {counter} and the ledger has {figure}"));
            }
        }
    }
    Ok(())
}

/// Whether the states of each thread make its time.
fn time_adds_up(threads: &Value) -> Result<(), String> {
    let threads = threads.as_object().filter(|threads| !threads.is_empty()).ok_or("there are no threads")?;
    for (thread, time) in threads {
        let states = time["states"].as_object().into_iter().flatten();
        let sum: f64 = states.filter_map(|(_, secs)| secs.as_f64()).sum();
        let wall = time["wall_secs"].as_f64().unwrap_or(f64::NAN);
        if wall.is_nan() || (sum - wall).abs() > 1e-3 * wall + 1e-3 {
            return Err(format!("the states of {thread} take {sum} s of {wall} s: {time}"));
        }
    }
    Ok(())
}
