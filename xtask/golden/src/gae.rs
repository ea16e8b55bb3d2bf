//! Runner of `gae.json`: RLlib's advantages, and the same over columns with ends of both kinds.

use anyhow::{Result, ensure};
use pronk_learner::{Advantages, GaeInput, GaeOutput, gae};
use serde_json::Value;

use crate::json::{bool_at, flags_at, floats_at, number_at, section, usize_at};
use crate::{Case, Recorder};

const TOLERANCE: f64 = 1e-6;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "segments").iter().enumerate() {
        r.case("segments", format!("segment {index}"), |c| segment(entry, c));
    }
    for (index, entry) in section(file, "vector").iter().enumerate() {
        r.case("vector", format!("vector {index}"), |c| vector(entry, c));
    }
    for (index, entry) in section(file, "discount_cumsum").iter().enumerate() {
        r.case("discount_cumsum", format!("sum {index}"), |c| discounted_sum(entry, c));
    }
}

/// One piece of one episode.
fn segment(entry: &Value, c: &mut Case) -> Result<()> {
    let (rewards, values) = (floats_at(entry, "rewards")?, floats_at(entry, "values")?);
    let kind = match (bool_at(entry, "use_gae")?, bool_at(entry, "use_critic")?) {
        (true, _) => Advantages::Gae,
        (false, true) => Advantages::Return,
        (false, false) => Advantages::ReturnAlone,
    };
    let input = GaeInput {
        steps: rewards.len(),
        columns: 1,
        discounts: &vec![number_at(entry, "gamma")?; rewards.len()],
        rewards: &rewards,
        values: &values,
        bootstrap: &[number_at(entry, "last_r")?],
    };
    compare(number_at(entry, "lambda")?, kind, &input, entry, c)
}

/// Several columns, whose episodes end on the way.
fn vector(entry: &Value, c: &mut Case) -> Result<()> {
    let (steps, columns) = (usize_at(entry, "T")?, usize_at(entry, "B")?);
    let gamma = number_at(entry, "gamma")?;
    let (mut rewards, values) = (floats_at(entry, "rewards")?, floats_at(entry, "values")?);
    let next_values = floats_at(entry, "next_values")?;
    let (terminated, truncated) = (flags_at(entry, "terminated")?, flags_at(entry, "truncated")?);
    ensure!(next_values.len() == steps * columns, "next_values has {} numbers", next_values.len());
    let mut discounts = vec![gamma; rewards.len()];
    for i in 0..rewards.len() {
        if terminated[i] || truncated[i] {
            discounts[i] = 0.0;
            rewards[i] += if terminated[i] { 0.0 } else { gamma * next_values[i] };
        }
    }
    // Where no episode ends, the next value is that of the next row.
    let bootstrap = &next_values[(steps - 1) * columns..];
    let input = GaeInput { steps, columns, rewards: &rewards, discounts: &discounts, values: &values, bootstrap };
    compare(number_at(entry, "lambda")?, Advantages::Gae, &input, entry, c)
}

fn compare(lambda: f64, kind: Advantages, input: &GaeInput<'_, f64>, entry: &Value, c: &mut Case) -> Result<()> {
    let mut output = GaeOutput::default();
    gae(lambda, kind, input, &mut output)?;
    for (what, got) in [("advantages", &output.advantages), ("value_targets", &output.value_targets)] {
        c.close_all(what, got, &floats_at(entry, what)?, TOLERANCE);
    }
    Ok(())
}

/// A discounted sum is a return without values.
fn discounted_sum(entry: &Value, c: &mut Case) -> Result<()> {
    let x = floats_at(entry, "x")?;
    let zeros = vec![0.0; x.len()];
    let input = GaeInput {
        steps: x.len(),
        columns: 1,
        rewards: &x,
        discounts: &vec![number_at(entry, "gamma")?; x.len()],
        values: &zeros,
        bootstrap: &[0.0],
    };
    let mut output = GaeOutput::default();
    gae(1.0, Advantages::ReturnAlone, &input, &mut output)?;
    c.close_all("expected", &output.advantages, &floats_at(entry, "expected")?, TOLERANCE);
    Ok(())
}
