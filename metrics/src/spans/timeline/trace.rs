use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process;

use serde_json::{Value, json};

use super::lane::Lane;

/// Writes the events of a trace, nested in each lane.
#[derive(Debug)]
pub(super) struct Trace {
    /// `None` once closed or failed.
    pub(super) out: Option<BufWriter<File>>,
    /// A failure not reported yet.
    failure: Option<io::Error>,
    has_events: bool,
    /// Queried once, because it is a system call.
    pid: u32,
    lanes: BTreeMap<u32, Lane>,
    n_lanes: u32,
    /// Spans that may still begin.
    begins_left: usize,
    n_left_out: u64,
}

impl Trace {
    pub(super) fn new(out: BufWriter<File>, max_events: usize) -> Trace {
        Trace {
            out: Some(out),
            failure: None,
            has_events: false,
            pid: process::id(),
            lanes: BTreeMap::new(),
            n_lanes: 0,
            // A begin reserves room for its end.
            begins_left: max_events / 2,
            n_left_out: 0,
        }
    }

    /// Begins the first span of a thread and returns its lane; `None` if no more spans can begin.
    pub(super) fn begin_first(&mut self, thread: &str, span: u64, name: &'static str, now_ns: u64) -> Option<u32> {
        // A closed file leaves nothing out.
        self.out.as_ref()?;
        if self.begins_left == 0 {
            self.n_left_out += 1;
            return None;
        }
        self.n_lanes += 1;
        let lane = self.n_lanes;
        self.lanes.insert(lane, Lane::default());
        self.write(&json!({
            "name": "thread_name", "ph": "M", "pid": self.pid, "tid": lane, "args": {"name": thread}
        }));
        self.begin(lane, span, name, now_ns);
        Some(lane)
    }

    pub(super) fn begin(&mut self, id: u32, span: u64, name: &'static str, now_ns: u64) {
        if self.out.is_none() {
            return;
        }
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        if self.begins_left == 0 {
            self.n_left_out += 1;
            lane.leave_out(span);
            return;
        }
        self.begins_left -= 1;
        lane.push(span, name);
        let at_ns = lane.at(now_ns);
        self.write_begin(id, name, at_ns);
    }

    pub(super) fn end(&mut self, id: u32, span: u64, now_ns: u64) {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        let Some(at) = lane.ends(span) else {
            return;
        };
        let at_ns = lane.at(now_ns);
        let inner = lane.open.split_off(at + 1);
        lane.open.truncate(at);
        for _ in 0..=inner.len() {
            self.write_end(id, at_ns);
        }
        for open in inner {
            self.begin(id, open.span, open.name, at_ns);
        }
    }

    /// Ends a lane and its open spans.
    pub(super) fn end_lane(&mut self, id: u32, now_ns: u64) {
        if let Some(mut lane) = self.lanes.remove(&id) {
            let at_ns = lane.at(now_ns);
            for _ in &lane.open {
                self.write_end(id, at_ns);
            }
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.as_mut().map_or(Ok(()), Write::flush);
        self.stop_on(flushed);
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Ends all open spans and the file. Idempotent.
    pub(super) fn close(&mut self, now_ns: u64) -> io::Result<()> {
        while let Some((&id, _)) = self.lanes.first_key_value() {
            self.end_lane(id, now_ns);
        }
        if self.n_left_out > 0 {
            self.write(&json!({
                "name": "spans left out", "ph": "i", "s": "g", "ts": now_ns as f64 / 1e3, "pid": self.pid, "tid": 0,
                "args": {"spans": self.n_left_out}
            }));
        }
        let opening = if self.has_events { "" } else { "[" };
        let ended = self.out.as_mut().map_or(Ok(()), |out| out.write_all(format!("{opening}\n]\n").as_bytes()));
        self.stop_on(ended);
        let outcome = self.flush();
        self.out = None;
        outcome
    }

    fn write_begin(&mut self, lane: u32, name: &str, at_ns: u64) {
        // `Value` quotes and escapes text as JSON.
        let (name, at, pid) = (Value::from(name), Micros(at_ns), self.pid);
        self.write(&format_args!(r#"{{"name":{name},"ph":"B","ts":{at},"pid":{pid},"tid":{lane}}}"#));
    }

    fn write_end(&mut self, lane: u32, at_ns: u64) {
        let (at, pid) = (Micros(at_ns), self.pid);
        self.write(&format_args!(r#"{{"ph":"E","ts":{at},"pid":{pid},"tid":{lane}}}"#));
    }

    fn write(&mut self, event: &dyn Display) {
        let Some(out) = &mut self.out else {
            return;
        };
        let before = if self.has_events { ",\n" } else { "[\n" };
        self.has_events = true;
        let written = write!(out, "{before}{event}");
        self.stop_on(written);
    }

    /// Writes nothing after a failure.
    fn stop_on(&mut self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            self.failure = Some(error);
            if let Some(out) = self.out.take() {
                // Taken apart, because dropping it would write again.
                drop(out.into_parts());
            }
        }
    }
}

/// Nanoseconds, shown as microseconds.
struct Micros(u64);

impl Display for Micros {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}
