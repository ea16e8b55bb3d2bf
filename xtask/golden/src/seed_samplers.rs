//! Runner of `seed_samplers.json`: rules of published samplers, each stated by a model of it.
//!
//! `gate` is the gate of a DPPO queue: workers fill it, then the learner empties it.

use std::time::Duration;

use anyhow::{Result, bail};
use pronk_buffer::{Gate, InqueueReceiver, InqueueSender, Lifeline, PopError, TryPushError, inqueue, lifeline};
use serde_json::Value;

use crate::json::{array_at, bool_at, name_of, section, str_at, usize_at};
use crate::{Case, Recorder};

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "gate").iter().enumerate() {
        r.case("gate", name_of(entry, index), |c| gate(entry, c));
    }
    for (index, entry) in section(file, "step_recv").iter().enumerate() {
        r.no_runner("step_recv", name_of(entry, index), "nothing receives from stepping processes");
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
    _lifeline: Lifeline,
}

impl Queue {
    fn new(capacity: usize) -> Result<Self> {
        let (lifeline, tether) = lifeline();
        let (sender, receiver) = inqueue(capacity, Gate::FillThenDrain, &tether)?;
        Ok(Self { sender, receiver, _lifeline: lifeline })
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
