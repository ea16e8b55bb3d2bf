//! Runner of `stats.json`: RLlib's `WindowStat` and Ray's `_Timer`.

use std::num::NonZeroUsize;

use anyhow::{Context, Result, bail};
use pronk_metrics::{ResultDict, TimerStat, WindowStat};
use serde_json::Value;

use crate::json::{self, name_of, section};
use crate::{Case, Recorder};

const TOLERANCE: f64 = 1e-12;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "window_stat").iter().enumerate() {
        r.case("window_stat", name_of(entry, index), |c| window_stat(entry, c));
    }
    for (index, entry) in section(file, "timer").iter().enumerate() {
        r.case("timer", name_of(entry, index), |c| timer(entry, c));
    }
}

/// Pushes `values` one by one and compares with each snapshot when its number of pushes is reached.
fn window_stat(entry: &Value, c: &mut Case) -> Result<()> {
    let name = json::str_at(entry, "name")?;
    let mut window = WindowStat::new(name, size_at(entry, "n")?);
    let values = json::floats_at(entry, "values")?;
    let mut snapshots: Vec<(usize, &Value)> = Vec::new();
    for snapshot in json::array_at(entry, "snapshots")? {
        snapshots.push((json::usize_at(snapshot, "after")?, snapshot));
    }
    for n_pushed in 0..=values.len() {
        if let Some(&value) = n_pushed.checked_sub(1).and_then(|last| values.get(last)) {
            window.push(value);
        }
        for (_, snapshot) in snapshots.iter().filter(|(after, _)| *after == n_pushed) {
            compare_window(&window, snapshot, &format!("after {n_pushed}"), c)?;
        }
    }
    let reached = snapshots.iter().filter(|(after, _)| *after <= values.len()).count();
    c.equal("snapshots reached", reached, snapshots.len());
    Ok(())
}

fn compare_window(window: &WindowStat, snapshot: &Value, at: &str, c: &mut Case) -> Result<()> {
    // The edge to the result dict has null for what numpy calls NaN.
    c.close(format!("{at}: mean"), or_nan(window.mean()), json::number_at(snapshot, "mean")?, TOLERANCE);
    c.close(format!("{at}: std"), or_nan(window.std()), json::number_at(snapshot, "std")?, TOLERANCE);

    let mut dict = ResultDict::new();
    window.write_into(&mut dict, "window");
    let written = dict.get("window").and_then(Value::as_object).context("the window wrote nothing")?;
    let stats = json::get(snapshot, "stats")?.as_object().context("`stats` is not an object")?;
    let keys = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
    c.equal(format!("{at}: keys"), keys(written), keys(stats));
    for (key, want) in stats {
        let got = written.get(key).unwrap_or(&Value::Null);
        let what = format!("{at}: {key}");
        match want {
            Value::Array(_) => c.close_all(what, &numbers_or_nan(got)?, &json::floats(want)?, TOLERANCE),
            _ if key.ends_with("_count") => c.equal(what, got, want),
            _ => c.close(what, or_nan(got.as_f64()), json::number(want)?, TOLERANCE),
        }
    }
    Ok(())
}

/// Applies each operation and compares with the state noted beside it.
fn timer(entry: &Value, c: &mut Case) -> Result<()> {
    let mut timer = match json::optional(entry, "window_size") {
        Some(_) => TimerStat::with_window(size_at(entry, "window_size")?),
        None => TimerStat::new(),
    };
    for (index, op) in json::array_at(entry, "ops")?.iter().enumerate() {
        apply(&mut timer, op).with_context(|| format!("op {index}"))?;
        compare_timer(&timer, op, index, c)?;
    }
    Ok(())
}

fn apply(timer: &mut TimerStat, op: &Value) -> Result<()> {
    if op.get("push").is_some() {
        timer.push_secs(json::number_at(op, "push")?);
    } else if op.get("units").is_some() {
        timer.push_units(json::number_at(op, "units")?);
    } else if op.get("block").is_some() {
        match json::floats_at(op, "block")?[..] {
            [start, end] => timer.push_secs(end - start),
            _ => bail!("`block` is not a pair of clock reads"),
        }
    } else {
        bail!("neither push, units nor block: {op}");
    }
    Ok(())
}

fn compare_timer(timer: &TimerStat, op: &Value, index: usize, c: &mut Case) -> Result<()> {
    // What there is none of is 0 at the edge to the result dict.
    for (key, got) in [
        ("mean", timer.mean_secs().unwrap_or(0.0)),
        ("mean_units_processed", timer.mean_units().unwrap_or(0.0)),
        ("mean_throughput", timer.mean_throughput().unwrap_or(0.0)),
        ("total_time", timer.total_secs()),
        ("count", timer.count() as f64),
    ] {
        c.close(format!("op {index}: {key}"), got, json::number_at(op, key)?, TOLERANCE);
    }
    // Rounded figures are equal or wrong: the tie between two thousandths is decided by the last bit of the
    // mean.
    let want = json::number_at(op, "mean_ms_rounded")?;
    c.equal(format!("op {index}: mean_ms_rounded"), timer.mean_ms_rounded(), want);
    let want = json::bool_at(op, "has_units_processed")?;
    c.equal(format!("op {index}: has_units_processed"), timer.has_units(), want);
    Ok(())
}

fn size_at(entry: &Value, path: &str) -> Result<NonZeroUsize> {
    NonZeroUsize::new(json::usize_at(entry, path)?).with_context(|| format!("`{path}` is zero"))
}

fn or_nan(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

fn numbers_or_nan(value: &Value) -> Result<Vec<f64>> {
    let items = value.as_array().with_context(|| format!("expected an array, got {value}"))?;
    Ok(items.iter().map(|item| or_nan(item.as_f64())).collect())
}
