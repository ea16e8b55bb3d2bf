//! Runner of `minibatch_buffer.json`: RLlib's `MinibatchBuffer`, get by get.
//!
//! `grid` reads a queue filled beforehand. `scripted` puts and gets in turn, some gets timing out, and
//! compares the whole state of the ring after each get.

use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pronk_buffer::{
    Gate, InqueueReceiver, InqueueSender, MinibatchBuffer, NextError, ShutdownGuard, inqueue, shutdown,
};
use serde_json::Value;

use crate::json::{array_at, bool_at, floats_at, name_of, number_at, section, usize_at, usizes_at};
use crate::{Case, Recorder};

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (kind, body) in [("grid", grid as Body), ("scripted", scripted)] {
        for (index, entry) in section(file, kind).iter().enumerate() {
            r.case(kind, name_of(entry, index), |c| body(entry, c));
        }
    }
}

type Body = fn(&Value, &mut Case) -> Result<()>;

fn grid(entry: &Value, c: &mut Case) -> Result<()> {
    let gets = array_at(entry, "gets")?;
    // No get can load more than one item, so the queue cannot run dry.
    let mut ring = Ring::new(entry, gets.len())?;
    for item in 0..gets.len() {
        ring.put(item)?;
    }
    let mut passes_on_load = Vec::new();
    for (index, want) in gets.iter().enumerate() {
        if ring.loads_next() {
            passes_on_load.push(ring.buffer.next_load_passes() as usize);
        }
        let got = ring.get(Duration::ZERO)?.with_context(|| format!("gets[{index}] timed out"))?;
        c.equal(format!("gets[{index}].item"), got.0, usize_at(want, "0")?);
        c.equal(format!("gets[{index}].released"), got.1, bool_at(want, "1")?);
    }
    c.equal("ttl_on_load", passes_on_load, usizes_at(entry, "ttl_on_load")?);
    let consumed = gets.len() - ring.buffer.source().len();
    c.equal("items_consumed", consumed, usize_at(entry, "items_consumed")?);
    Ok(())
}

fn scripted(entry: &Value, c: &mut Case) -> Result<()> {
    let trace = array_at(entry, "trace")?;
    let timeout = Duration::try_from_secs_f64(number_at(entry, "timeout_s")?)?;
    let mut ring = Ring::new(entry, trace.len())?;
    for (index, op) in trace.iter().enumerate() {
        if op.get("put").is_some() {
            ring.put(usize_at(op, "put")?)?;
            continue;
        }
        ensure!(op.get("get").is_some(), "trace[{index}] is neither a put nor a get: {op}");
        let what = |field: &str| format!("trace[{index}].{field}");
        let got = ring.get(timeout)?;
        if op.get("empty").is_some() {
            c.equal(what("empty"), got.is_none(), bool_at(op, "empty")?);
        } else {
            let want = (usize_at(op, "item")?, bool_at(op, "released")?);
            c.equal(what("item and released"), got, Some(want));
        }
        c.equal(what("idx"), ring.buffer.position(), usize_at(op, "idx")?);
        let passes_left: Vec<f64> = ring.buffer.passes_left().map(|left| left as f64).collect();
        c.equal(what("ttl"), passes_left, floats_at(op, "ttl")?);
        let next_load_passes = ring.buffer.next_load_passes() as usize;
        c.equal(what("next_load_passes"), next_load_passes, usize_at(op, "next_load_passes")?);
        c.equal(what("inqueue_len"), ring.buffer.source().len(), usize_at(op, "inqueue_len")?);
    }
    Ok(())
}

/// The buffer of a case and the queue before it.
struct Ring {
    sender: InqueueSender<usize>,
    buffer: MinibatchBuffer<InqueueReceiver<usize>>,
    _guard: ShutdownGuard,
}

impl Ring {
    fn new(entry: &Value, capacity: usize) -> Result<Self> {
        let (shutdown, token) = shutdown();
        let (sender, receiver) = inqueue(capacity.max(1), Gate::Bounded, &token)?;
        let size = NonZeroUsize::new(usize_at(entry, "size")?).context("`size` is 0")?;
        let passes = |key| anyhow::Ok(u32::try_from(usize_at(entry, key)?)?);
        let buffer = MinibatchBuffer::new(receiver, size, passes("num_passes")?, passes("init_num_passes")?);
        Ok(Self { sender, buffer, _guard: shutdown })
    }

    fn put(&self, item: usize) -> Result<()> {
        self.sender.try_push(item).context("the queue of the case")
    }

    /// `(item, released)`, or `None` after a time-out.
    fn get(&mut self, timeout: Duration) -> Result<Option<(usize, bool)>> {
        match self.buffer.next(timeout) {
            Ok(shown) => Ok(Some((*shown.pass.item(), shown.pass.is_last()))),
            Err(NextError::TimedOut) => Ok(None),
            Err(error) => bail!(error),
        }
    }

    fn loads_next(&self) -> bool {
        let mut passes_left = self.buffer.passes_left();
        passes_left.nth(self.buffer.position()).is_none_or(|left| left <= 0)
    }
}
