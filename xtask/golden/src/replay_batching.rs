//! Runner of `replay_batching.json`: train batches and schedules. Replay and the KL coefficient have no room yet.

use anyhow::{Result, ensure};
use pronk_buffer::Accumulate;
use pronk_learner::Schedule;
use serde_json::Value;

use crate::{Case, Recorder, json};

/// What the file holds besides, and what is missing for it.
const NOT_YET: &[(&str, &str)] = &[
    ("mixin_op", "there is no mix-in replay"),
    ("mixin_buffer", "there is no mix-in replay"),
    ("config_replay_ratio", "there is no mix-in replay"),
    ("kl_coeff", "there is no loss with a KL term"),
];

/// Schedules are sums and products of a few doubles, in whatever order.
const TOLERANCE: f64 = 1e-9;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (kind, why) in NOT_YET {
        for (index, entry) in json::section(file, kind).iter().enumerate() {
            r.no_runner(kind, json::name_of(entry, index), why);
        }
    }
    for (index, entry) in json::section(file, "train_batches").iter().enumerate() {
        r.case("train_batches", json::name_of(entry, index), |c| train_batches(entry, c));
    }
    for (index, entry) in json::section(file, "piecewise_schedule").iter().enumerate() {
        r.case("piecewise_schedule", json::name_of(entry, index), |c| schedule(entry, c));
    }
}

/// Pieces of the sizes `in` go in one after the other; which of them come out together, and what stays?
fn train_batches(entry: &Value, c: &mut Case) -> Result<()> {
    let mut gathering = Accumulate::new(json::usize_at(entry, "train_batch_size")? as u64);
    let mut sizes = Vec::new();
    for (input, step) in json::array_at(entry, "steps")?.iter().enumerate() {
        let size = json::usize_at(step, "in")?;
        sizes.push(size);
        let emitted = gathering.push(input, size as u64);
        let want = json::array_at(step, "emitted")?;
        c.equal(format!("batches emitted at input {input}"), emitted.iter().len(), want.len());
        for (got, want) in emitted.iter().zip(want) {
            let count = json::usize_at(want, "count")? as u64;
            c.equal(format!("size of the batch emitted at input {input}"), got.size, count);
            // The reference knows inputs by their rows, so one without rows leaves no trace.
            let with_rows: Vec<usize> = got.pieces.iter().copied().filter(|&piece| sizes[piece] > 0).collect();
            let inputs = json::usizes_at(want, "from_inputs")?;
            c.equal(format!("inputs of the batch emitted at input {input}"), with_rows, inputs);
        }
    }
    c.equal("left over", gathering.size(), json::usize_at(entry, "left_over")? as u64);
    Ok(())
}

fn schedule(entry: &Value, c: &mut Case) -> Result<()> {
    let mut endpoints = Vec::new();
    for point in json::array_at(entry, "endpoints")? {
        let point = json::floats(point)?;
        ensure!(point.len() == 2, "an endpoint is [t, value], got {point:?}");
        endpoints.push((point[0], point[1]));
    }
    let schedule = match json::optional_number_at(entry, "outside_value")? {
        Some(value) => Schedule::piecewise_linear_with_outside_value(endpoints, value)?,
        None => Schedule::piecewise_linear(endpoints)?,
    };
    for value in json::array_at(entry, "values")? {
        let t = json::number_at(value, "t")?;
        let want = json::number_at(value, "value")?;
        c.close(format!("value({t})"), schedule.value(t), want, TOLERANCE);
    }
    Ok(())
}
