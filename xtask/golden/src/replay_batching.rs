//! Runner of `replay_batching.json`: mix-in replay, train batches, schedules and the weight of a divergence.

use std::num::NonZeroUsize;

use anyhow::{Context, Result, ensure};
use pronk_buffer::{Accumulate, MixIn, MixInConfig, RandomSource};
use pronk_learner::{KlCoeff, Schedule};
use serde_json::Value;

use crate::ratio_replay::RatioReplay;
use crate::{Case, Recorder, json};

/// What RLlib 2.x makes of its own setting.
const RATIO_IS_INVERTED: &str = "RLlib 2.x takes 1 / replay_proportion for the ratio, which replays the less the more \
                                 is asked for; pronk replays `replay_proportion` per fresh fragment";

/// Schedules are sums and products of a few doubles, in whatever order.
const TOLERANCE: f64 = 1e-9;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in json::section(file, "kl_coeff").iter().enumerate() {
        r.case("kl_coeff", json::name_of(entry, index), |c| kl_coeff(entry, c));
    }
    for (index, entry) in json::section(file, "mixin_op").iter().enumerate() {
        r.case("mixin_op", json::name_of(entry, index), |c| mix_in(entry, c));
    }
    for (index, entry) in json::section(file, "mixin_buffer").iter().enumerate() {
        r.case("mixin_buffer", json::name_of(entry, index), |c| ratio_replay(entry, c));
    }
    for (index, entry) in json::section(file, "config_replay_ratio").iter().enumerate() {
        r.deviation("config_replay_ratio", json::name_of(entry, index), RATIO_IS_INVERTED);
    }
    for (index, entry) in json::section(file, "train_batches").iter().enumerate() {
        r.case("train_batches", json::name_of(entry, index), |c| train_batches(entry, c));
    }
    for (index, entry) in json::section(file, "piecewise_schedule").iter().enumerate() {
        r.case("piecewise_schedule", json::name_of(entry, index), |c| schedule(entry, c));
    }
}

/// Every input comes out first, and after it what is drawn to be replayed.
fn mix_in(entry: &Value, c: &mut Case) -> Result<()> {
    let mut mix_in = MixIn::new(MixInConfig {
        replay_buffer_num_slots: json::usize_at(entry, "num_slots")?,
        replay_proportion: json::number_at(entry, "replay_proportion")?,
    })?;
    let mut script = Script::new(entry)?;
    for (index, step) in json::array_at(entry, "steps")?.iter().enumerate() {
        let fresh = json::usize_at(step, "in")?;
        mix_in.store(fresh);
        let mut out = vec![fresh];
        while let Some(replayed) = mix_in.replay(&mut script) {
            out.push(*replayed);
        }
        c.equal(format!("steps[{index}].out"), out, json::usizes_at(step, "out")?);
        script.compare_used(&format!("steps[{index}]"), step, c)?;
    }
    Ok(())
}

fn ratio_replay(entry: &Value, c: &mut Case) -> Result<()> {
    let capacity = NonZeroUsize::new(json::usize_at(entry, "capacity")?).context("`capacity` is 0")?;
    let mut buffer = RatioReplay::new(capacity, json::number_at(entry, "replay_ratio")?);
    let want = json::optional_number_at(entry, "replay_proportion_inside")?;
    match (buffer.proportion(), want) {
        (Some(got), Some(want)) => c.close("replay_proportion_inside", got, want, TOLERANCE),
        (got, want) => c.equal("replay_proportion_inside", got, want),
    }
    let mut script = Script::new(entry)?;
    for (index, op) in json::array_at(entry, "ops")?.iter().enumerate() {
        let at = format!("ops[{index}]");
        if json::optional(op, "add").is_some() {
            buffer.add(json::usize_at(op, "add")?);
            continue;
        }
        ensure!(op.get("replay").is_some(), "{at} is neither an add nor a replay: {op}");
        let want = json::optional(op, "out").map(|_| json::usizes_at(op, "out")).transpose()?;
        c.equal(format!("{at}.out"), buffer.replay(&mut script), want);
        script.compare_used(&at, op, c)?;
    }
    Ok(())
}

/// The random numbers of a case. A choice is taken modulo the number of things to choose from.
struct Script {
    uniforms: Vec<f64>,
    choices: Vec<usize>,
    used: (usize, usize),
    compared: (usize, usize),
}

impl Script {
    fn new(entry: &Value) -> Result<Self> {
        let (uniforms, choices) = (json::floats_at(entry, "uniforms")?, json::usizes_at(entry, "choices")?);
        Ok(Self { uniforms, choices, used: (0, 0), compared: (0, 0) })
    }

    /// Compares how many numbers were used since the last comparison.
    fn compare_used(&mut self, at: &str, op: &Value, c: &mut Case) -> Result<()> {
        let used = (self.used.0 - self.compared.0, self.used.1 - self.compared.1);
        self.compared = self.used;
        c.equal(format!("{at}.used_uniforms"), used.0, json::usize_at(op, "used_uniforms")?);
        c.equal(format!("{at}.used_choices"), used.1, json::usize_at(op, "used_choices")?);
        Ok(())
    }
}

impl RandomSource for Script {
    fn uniform(&mut self) -> f64 {
        self.used.0 += 1;
        // One number too many ends the draw, and the counts then differ.
        self.uniforms.get(self.used.0 - 1).copied().unwrap_or(f64::INFINITY)
    }

    fn index(&mut self, n: usize) -> usize {
        self.used.1 += 1;
        self.choices.get(self.used.1 - 1).map_or(0, |choice| choice % n.max(1))
    }
}

/// MicroBatches of the sizes `in` go in one after the other; which of them come out together, and what stays?
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

/// The weight of a divergence after each of some updates.
fn kl_coeff(entry: &Value, c: &mut Case) -> Result<()> {
    let mut weight = KlCoeff::new(json::number_at(entry, "kl_coeff")?, json::number_at(entry, "kl_target")?);
    for update in json::array_at(entry, "updates")? {
        weight.add(json::number_at(update, "kl")?);
        weight.adapt();
        c.close("coeff", weight.value(), json::number_at(update, "coeff")?, TOLERANCE);
    }
    Ok(())
}
