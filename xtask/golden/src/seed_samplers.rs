//! Runner of `seed_samplers.json`: rules of published samplers, each stated by a model of it.
//!
//! `gate` is the gate of a DPPO queue: workers fill it, then the learner empties it. `step_recv` is how long
//! a sampler waits for the processes that step its environments, each miss of which is waited for again.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pronk_buffer::{Gate, InqueueReceiver, InqueueSender, PopError, ShutdownGuard, TryPushError, inqueue, shutdown};
use pronk_rollout::{Arrivals, Gather};
use serde_json::Value;

use crate::json::{array_at, bool_at, name_of, number_at, section, str_at, usize_at};
use crate::{Case, Recorder};

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "gate").iter().enumerate() {
        r.case("gate", name_of(entry, index), |c| gate(entry, c));
    }
    for (index, entry) in section(file, "step_recv").iter().enumerate() {
        r.case("step_recv", name_of(entry, index), |c| step_recv(entry, c));
    }
}

fn gate(entry: &Value, c: &mut Case) -> Result<()> {
    let (capacity, ops) = (usize_at(entry, "max_qsize")?, array_at(entry, "ops")?);
    let queue = Queue::new(capacity)?;
    for (index, op) in ops.iter().enumerate() {
        let at = format!("ops[{index}]");
        c.equal(format!("{at}.granted"), queue.is_granted(op)?, bool_at(op, "granted")?);
        c.equal(format!("{at}.len"), queue.receiver.len(), usize_at(op, "len")?);
        let want = str_at(op, "phase_after")?;
        c.equal(format!("{at}.phase_after"), phase_after(capacity, &ops[..=index])?, want);
    }
    Ok(())
}

fn step_recv(entry: &Value, c: &mut Case) -> Result<()> {
    let secs = |value: f64| Duration::from_secs_f64(value);
    let arrivals = array_at(entry, "arrivals")?.iter().filter_map(Value::as_f64).map(secs);
    let mut arrivals: Vec<_> = arrivals.enumerate().collect();
    let running = arrivals.len();
    arrivals.sort_by_key(|(_, at)| *at);
    let mut processes = Processes { now: secs(number_at(entry, "t0")?), arrivals: arrivals.into() };
    let received = Gather::EachWithin(secs(number_at(entry, "tau")?)).collect(running, &mut processes)?;

    let expected = entry.get("expected").context("`expected` is missing")?;
    if expected.get("result").is_some_and(Value::is_null) {
        // The original says that nobody runs; here nobody is waited for.
        c.equal("received", received.len(), 0);
        return Ok(());
    }
    let want: Vec<_> = array_at(expected, "received")?.iter().filter_map(Value::as_u64).collect();
    c.equal("received", format!("{received:?}"), format!("{want:?}"));
    c.close("end", processes.now.as_secs_f64(), number_at(expected, "end")?, CLOCK);
    c.equal("still_running", processes.arrivals.len(), usize_at(expected, "still_running")?);
    Ok(())
}

/// The clock here counts whole nanoseconds.
const CLOCK: f64 = 1e-8;

/// Processes that answer at known times, on a clock that only waiting moves.
struct Processes {
    now: Duration,
    /// Who answers, and when: in the order of their answers.
    arrivals: VecDeque<(usize, Duration)>,
}

impl Arrivals for Processes {
    type Answer = usize;
    type Error = anyhow::Error;

    fn now(&self) -> Duration {
        self.now
    }

    fn next(&mut self, deadline: Option<Duration>) -> Result<Option<usize>> {
        let in_time = |at: Duration| at <= self.now || deadline.is_none_or(|deadline| at < deadline);
        match (self.arrivals.pop_front_if(|(_, at)| in_time(*at)), deadline) {
            (Some((process, at)), _) => {
                self.now = self.now.max(at);
                Ok(Some(process))
            }
            (None, Some(deadline)) => {
                self.now = self.now.max(deadline);
                Ok(None)
            }
            (None, None) => bail!("nobody answers who is waited for"),
        }
    }
}

/// What a phase is shows in what it grants, so a queue that went the same way is asked for a place.
fn phase_after(capacity: usize, ops: &[Value]) -> Result<&'static str> {
    let queue = Queue::new(capacity)?;
    for op in ops {
        queue.is_granted(op)?;
    }
    Ok(if queue.is_pushed()? { "collect" } else { "update" })
}

/// Both ends of an inqueue that is filled and drained by turns.
struct Queue {
    sender: InqueueSender<()>,
    receiver: InqueueReceiver<()>,
    _guard: ShutdownGuard,
}

impl Queue {
    fn new(capacity: usize) -> Result<Self> {
        let (shutdown, token) = shutdown();
        let (sender, receiver) = inqueue(capacity, Gate::FillThenDrain, &token)?;
        Ok(Self { sender, receiver, _guard: shutdown })
    }

    fn is_granted(&self, op: &Value) -> Result<bool> {
        match str_at(op, "op")? {
            "put" => self.is_pushed(),
            "get" => self.is_popped(),
            other => bail!("neither put nor get: {other}"),
        }
    }

    fn is_pushed(&self) -> Result<bool> {
        match self.sender.try_push(()) {
            Ok(()) => Ok(true),
            Err(TryPushError::Full(())) => Ok(false),
            Err(error @ TryPushError::Closed(())) => bail!("{error}"),
        }
    }

    fn is_popped(&self) -> Result<bool> {
        match self.receiver.pop(Duration::ZERO) {
            Ok(()) => Ok(true),
            Err(PopError::TimedOut) => Ok(false),
            Err(error @ PopError::Closed) => bail!("{error}"),
        }
    }
}
