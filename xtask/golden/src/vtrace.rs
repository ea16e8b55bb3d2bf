//! Runner of `vtrace.json`: RLlib's V-trace, from policy logits and from importance weights.

use anyhow::{Context, Result, bail, ensure};
use pronk_learner::{VtraceConfig, VtraceInput, VtraceOutput, vtrace};
use serde_json::Value;

use crate::json::{self, floats_at, name_of, section, usize_at, usizes_at};
use crate::row_distribution::RowDistribution;
use crate::{Case, Recorder};

const TOLERANCE: f64 = 1e-6;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "cases").iter().enumerate() {
        let name = name_of(entry, index);
        let stated = json::str_at(entry, "kind").unwrap_or("without kind");
        let kind = format!("cases/{stated}");
        match stated {
            "categorical" | "gaussian" => r.case(&kind, name, |c| from_logits(entry, c)),
            "importance_weights" => r.case(&kind, name, |c| from_importance_weights(entry, c)),
            _ => r.no_runner(&kind, name, "unknown kind"),
        }
    }
}

/// Inputs of distributions, `[T][B][dist_len]`, and actions, `[T][B]` or `[T][B][A]`, to log-probabilities,
/// ratios, targets and advantages.
fn from_logits(entry: &Value, c: &mut Case) -> Result<()> {
    let distribution = RowDistribution::of(entry)?;
    let actions = floats_at(entry, "actions")?;
    let rows = actions.len() / distribution.act_len();
    let log_probs = |logits: &str| -> Result<Vec<f64>> {
        let logits = floats_at(entry, logits)?;
        ensure!(logits.len() == rows * distribution.dist_len(), "{} logits for {rows} actions", logits.len());
        Ok(distribution.logps(&logits, &actions))
    };
    let (behaviour, target) = (log_probs("behaviour_logits")?, log_probs("target_logits")?);
    let log_rhos: Vec<f64> = target.iter().zip(&behaviour).map(|(target, behaviour)| target - behaviour).collect();
    for (what, got) in
        [("behaviour_action_log_probs", &behaviour), ("target_action_log_probs", &target), ("log_rhos", &log_rhos)]
    {
        c.close_all(what, got, &floats_at(entry, &format!("expected.{what}"))?, TOLERANCE);
    }
    from_log_rhos(entry, &log_rhos, c)
}

fn from_log_rhos(entry: &Value, log_rhos: &[f64], c: &mut Case) -> Result<()> {
    let config = config(entry)?;
    let discounts = floats_at(entry, "discounts")?;
    let input = VtraceInput {
        steps: usize_at(entry, "T")?,
        columns: usize_at(entry, "B")?,
        log_rhos,
        discounts: &discounts,
        rewards: &floats_at(entry, "rewards")?,
        values: &floats_at(entry, "values")?,
        bootstrap: &floats_at(entry, "bootstrap_value")?,
        mask: None,
    };
    let mut output = VtraceOutput::default();
    vtrace(&config, &input, &mut output)?;
    let weights = |weight: &dyn Fn(f64) -> f64| output.rhos.iter().map(|&rho| weight(rho)).collect::<Vec<_>>();
    for (what, got) in [
        ("rhos", weights(&|rho| rho)),
        ("clipped_rhos", weights(&|rho| config.rho(rho))),
        ("clipped_pg_rhos", weights(&|rho| config.pg_rho(rho))),
        ("cs", weights(&|rho| config.c(rho))),
        ("vs", output.vs.clone()),
        ("pg_advantages", output.pg_advantages.clone()),
    ] {
        c.close_all(what, &got, &floats_at(entry, &format!("expected.{what}"))?, TOLERANCE);
    }
    Ok(())
}

/// Arrays of `shape`, `[T, B, ...]`. Any dimension may be 1 instead and is then repeated; what follows `T`
/// are columns.
fn from_importance_weights(entry: &Value, c: &mut Case) -> Result<()> {
    let shape = usizes_at(entry, "shape")?;
    let (&steps, columns) = shape.split_first().context("`shape` is empty")?;
    let full = |key: &str, shape: &[usize]| -> Result<Vec<f64>> {
        let mut flat = Vec::new();
        broadcast(json::get(entry, key)?, shape, &mut flat).with_context(|| format!("at `{key}`"))?;
        Ok(flat)
    };
    let input = VtraceInput {
        steps,
        columns: columns.iter().product(),
        log_rhos: &full("log_rhos", &shape)?,
        discounts: &full("discounts", &shape)?,
        rewards: &full("rewards", &shape)?,
        values: &full("values", &shape)?,
        bootstrap: &full("bootstrap_value", columns)?,
        mask: None,
    };
    let mut output = VtraceOutput::default();
    vtrace(&config(entry)?, &input, &mut output)?;
    c.close_all("vs", &output.vs, &floats_at(entry, "expected.vs")?, TOLERANCE);
    c.close_all("pg_advantages", &output.pg_advantages, &floats_at(entry, "expected.pg_advantages")?, TOLERANCE);
    Ok(())
}

/// Appends `value` to `flat` as an array of `shape`.
fn broadcast(value: &Value, shape: &[usize], flat: &mut Vec<f64>) -> Result<()> {
    let Some((&length, inner)) = shape.split_first() else {
        flat.push(json::number(value)?);
        return Ok(());
    };
    match value {
        Value::Array(items) if items.len() == length => items.iter().try_for_each(|item| broadcast(item, inner, flat)),
        Value::Array(items) if items.len() == 1 => (0..length).try_for_each(|_| broadcast(&items[0], inner, flat)),
        Value::Array(items) => bail!("{} items where {length} or 1 are needed", items.len()),
        _ => bail!("a number where an array of {length} is needed"),
    }
}

fn config(entry: &Value) -> Result<VtraceConfig<f64>> {
    let default = VtraceConfig::default();
    Ok(VtraceConfig {
        clip_rho: json::optional_number_at(entry, "clip_rho_threshold")?,
        clip_pg_rho: json::optional_number_at(entry, "clip_pg_rho_threshold")?,
        // RLlib has no such option: a case that does not speak of it clips at 1.
        clip_c: match entry.get("clip_c_threshold") {
            Some(_) => json::optional_number_at(entry, "clip_c_threshold")?,
            None => default.clip_c,
        },
        lambda: json::optional_number_at(entry, "lambda")?.unwrap_or(default.lambda),
        ..default
    })
}
