//! [`Checker`]: whether what the process of a cell prints, and what it has, is as it should be.

mod ending;
mod flat;
#[cfg(test)]
mod tests;

pub(crate) use ending::Exit;
pub(crate) use flat::Memory;

use std::collections::{BTreeMap, VecDeque};
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

/// So many samples since the last new env-steps found no thread that runs or waits for a processor or a disk.
/// No fault takes that long, and a busy machine has threads that wait for a processor.
const IDLE_SAMPLES: u64 = 15;

/// A run without new env-steps hangs after so many times its patience, even if threads run.
const BUSY_PATIENCE: u32 = 5;

/// The time of a run may differ from the driver's by so many seconds: a step of the wall clock is longer.
const CLOCKS: f64 = 60.0;

/// Most results in a row that no checkpoint has, if they are more than these seconds apart: checkpoints are
/// due every second, but a run may have dozens of results in one, and a busy machine none in a minute.
const UNSAVED: (usize, f64) = (120, 50.0);

/// The numbers of a result by their paths.
type Figures = BTreeMap<String, f64>;

/// What a process had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Seconds since the beginning.
    at: f64,
    pub(crate) census: Census,
    /// What it had allocated and not freed.
    heap_kib: u64,
}

/// What is known of one cell.
pub(crate) struct Checker {
    pub(crate) cell: &'static Cell,
    pub(crate) began: Instant,
    pub(crate) share: Duration,
    pub(crate) samples: Vec<Sample>,
    /// What was allocated at the last result.
    heap_kib: u64,
    /// Seconds from the beginning to the last result.
    last_result: f64,
    /// The newest result that a checkpoint has, and all after it. A figure that later results do not have
    /// stays as it was.
    saved: Figures,
    unsaved: VecDeque<Figures>,
    /// Whether the process that printed the last result was killed, or one after it.
    was_killed: bool,
    /// The driver's time and the run's, of the first result of this process.
    clocks: Option<(Instant, f64)>,
    pub(crate) results: u64,
    pub(crate) processes: u64,
    pub(crate) env_steps: f64,
    /// When env-steps were last seen to grow, or the process to begin, and how many samples since then found
    /// no thread that runs.
    progress: (Instant, u64),
    pub(crate) longest_stall: Duration,
    /// What the process has printed of its end.
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
            share,
            samples: Vec::new(),
            heap_kib: 0,
            last_result: 0.0,
            saved: Figures::new(),
            unsaved: VecDeque::new(),
            was_killed: false,
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

    /// Another process runs the cell, from the last result of one that ended, or from the newest checkpoint
    /// of one that was killed.
    pub(crate) fn restarted(&mut self, was_killed: bool) {
        self.processes += 1;
        self.progress = (Instant::now(), 0);
        let had_result = self.clocks.take().is_some();
        self.ended = None;
        self.was_killed = was_killed || self.was_killed && !had_result;
        if let Some(last) = self.unsaved.pop_back().filter(|_| !was_killed) {
            self.saved = last;
        }
        self.unsaved.clear();
        self.saved.retain(|path, _| !path.starts_with(OF_A_PROCESS));
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

    /// Why the run is taken to hang, if it is.
    pub(crate) fn hang(&self) -> Option<String> {
        let (patience, still) = (self.cell.patience(), self.progress.0.elapsed());
        let hangs = self.progress.1 >= patience.as_secs() || still > BUSY_PATIENCE * patience;
        hangs.then(|| format!("no new env-steps for {still:.0?}, {} samples without a running thread", self.progress.1))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// What the process has now.
    pub(crate) fn sample(&mut self, census: Census) {
        self.progress.1 += u64::from(census.running == 0);
        if self.progress.1 == IDLE_SAMPLES {
            self.fail("stall", || format!("no new env-steps, and {IDLE_SAMPLES} samples without a running thread"));
        }
        // What a run starts with and gives back, both in milliseconds, is judged by the process itself.
        if self.clocks.is_some() && self.ended.is_none() {
            self.samples.push(Sample { at: self.began.elapsed().as_secs_f64(), census, heap_kib: self.heap_kib });
        }
    }

    /// A line of the process.
    pub(crate) fn line(&mut self, line: &str) {
        match serde_json::from_str::<Value>(line) {
            Ok(mut value) if value.get("ended").is_some() => self.ended = Some(value["ended"].take()),
            Ok(line) => match line["heap_kib"].as_u64() {
                Some(heap_kib) => self.heap_kib = heap_kib,
                None => self.result(&line),
            },
            Err(error) => self.fail("line", || format!("{error}: {line:.200}")),
        }
    }

    fn result(&mut self, result: &Value) {
        self.results += 1;
        self.last_result = self.began.elapsed().as_secs_f64();
        let mut figures = Figures::new();
        flatten(result, String::new(), &mut figures);
        let is_first = self.clocks.is_none();
        self.follows(&figures, is_first);
        self.clock(figures.get("time_total_s").copied().unwrap_or(f64::NAN));
        if let Err(why) = steps_add_up(&result["ledger"]["steps"], Some(&result["counters"])) {
            self.fail("steps", || why);
        }
        if let Err(why) = time_adds_up(&result["ledger"]["time"]) {
            self.fail("time", || why);
        }
        self.env_steps = figures.get("num_env_steps_sampled").copied().unwrap_or(f64::NAN);
        if self.last().get("num_env_steps_sampled").is_none_or(|before| self.env_steps > *before) {
            if !is_first {
                self.longest_stall = self.longest_stall.max(self.progress.0.elapsed());
            }
            self.progress = (Instant::now(), 0);
        }
        self.keep(figures);
    }

    /// The figures of the last result; after a kill, of the newest one that a checkpoint has.
    fn last(&self) -> &Figures {
        self.unsaved.back().unwrap_or(&self.saved)
    }

    /// Keeps the figures of a result until a checkpoint has those of a later one.
    fn keep(&mut self, figures: Figures) {
        let saved = figures.get("checkpoint.last_iteration").copied();
        let mut last = self.last().clone();
        last.extend(figures);
        self.unsaved.push_back(last);
        let is_saved = |figures: &Figures| saved >= figures.get("training_iteration").copied();
        while let Some(oldest) = self.unsaved.pop_front_if(|oldest| is_saved(oldest)) {
            self.saved = oldest;
        }
        let time = |figures: Option<&Figures>| figures.and_then(|figures| figures.get("time_total_s").copied());
        let secs = time(self.unsaved.back()).zip(time(self.unsaved.front())).map_or(0.0, |(last, first)| last - first);
        let n = self.unsaved.len();
        if n > UNSAVED.0 && secs > UNSAVED.1 {
            self.fail("checkpoint", || format!("none has any of the last {n} results, of {secs:.0} s"));
            self.unsaved.pop_front();
        }
    }

    /// Nothing goes back, and no result is left out.
    fn follows(&mut self, figures: &Figures, is_first: bool) {
        let back = |path: &str, earlier: f64, figure: f64| {
            // A process that resumes a run begins another life of it.
            never_goes_down(path) && (figure < earlier - 1e-6 || is_first && path == "life" && figure <= earlier)
        };
        let both = figures.iter().filter_map(|(path, figure)| Some((path.clone(), *self.last().get(path)?, *figure)));
        for (path, earlier, figure) in both.collect::<Vec<_>>() {
            if back(&path, earlier, figure) {
                self.fail("goes back", || format!("{path} was {earlier} and is {figure}"));
            }
            // A checkpoint may be newer than the last result of a process that is killed.
            if path == "training_iteration" && figure > earlier + 1.0 && !(is_first && self.was_killed) {
                self.fail("gap", || format!("result {figure} follows {earlier}"));
            }
        }
    }

    /// The time of the run passes as the driver's does.
    fn clock(&mut self, time_total: f64) {
        let (since, first) = *self.clocks.get_or_insert_with(|| (Instant::now(), time_total));
        let (of_run, of_driver) = (time_total - first, since.elapsed().as_secs_f64());
        if of_run.is_nan() || (of_run - of_driver).abs() > CLOCKS {
            self.fail("clock", || format!("the run took {of_run:.1} s by its clock, {of_driver:.1} s by the driver's"));
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
fn flatten(value: &Value, path: String, figures: &mut Figures) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                flatten(value, if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, figures);
            }
        }
        value => figures.extend(value.as_f64().map(|number| (path, number))),
    }
}

/// Whether all steps sampled are somewhere, by the figures themselves: pronk's own check is not used.
fn steps_add_up(steps: &Value, counters: Option<&Value>) -> Result<(), String> {
    for unit in ["env", "agent"] {
        let of = |what: &str| steps[what][unit].as_u64().ok_or(format!("{what}.{unit} is missing in {steps}"));
        let by_name = |what: &str| -> u64 {
            steps[what].as_object().into_iter().flatten().filter_map(|(_, steps)| steps[unit].as_u64()).sum()
        };
        let (sampled, dropped, lost) = (of("sampled")?, by_name("dropped"), by_name("lost"));
        let (trained, passes, in_flight) = (of("trained_once")?, of("trained_passes")?, of("in_flight")?);
        if sampled != trained + in_flight + dropped + lost {
            return Err(format!(
                "{sampled} {unit}-steps are not {trained} + {in_flight} + {dropped} + {lost}: {steps}"
            ));
        }
        if passes < trained {
            return Err(format!("more {unit}-steps are trained on than in passes: {steps}"));
        }
        let Some(counters) = counters else { continue };
        let same = [("sampled", sampled), ("trained_once", trained), ("trained", passes)];
        // There are no counters of agent-steps dropped and lost.
        let same = same.into_iter().chain([("dropped", dropped), ("lost", lost)].into_iter().filter(|_| unit == "env"));
        for (what, figure) in same {
            let counter = &counters[format!("num_{unit}_steps_{what}")];
            if counter.as_u64() != Some(figure) {
                return Err(format!("the counter of {unit}-steps {what} is {counter} and the ledger has {figure}"));
            }
        }
    }
    Ok(())
}

/// Whether the states of each thread make its time, which is read at one instant in nanoseconds.
fn time_adds_up(threads: &Value) -> Result<(), String> {
    let threads = threads.as_object().filter(|threads| !threads.is_empty()).ok_or("there are no threads")?;
    for (thread, time) in threads {
        let states = time["states"].as_object().into_iter().flatten();
        let sum: f64 = states.filter_map(|(_, secs)| secs.as_f64()).sum();
        let wall = time["wall_secs"].as_f64().unwrap_or(f64::NAN);
        if wall.is_nan() || (sum - wall).abs() > 1e-3 + 1e-9 * wall {
            return Err(format!("the states of {thread} take {sum} s of {wall} s: {time}"));
        }
    }
    Ok(())
}
