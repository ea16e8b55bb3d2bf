//! Runner of `vtrace_rlax.json`: rlax's V-trace of one trajectory, with its lambda mix, leaky ratios and
//! sample mask.

use anyhow::{Context, Result, ensure};
use pronk_learner::{PgBootstrap, VtraceConfig, VtraceInput, VtraceOutput, vtrace};
use serde_json::Value;

use crate::json::{self, floats_at, name_of, section};
use crate::{Case, Recorder};

const TOLERANCE: f64 = 1e-6;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "cases").iter().enumerate() {
        r.case("cases", name_of(entry, index), |c| trajectory(entry, c));
    }
}

fn trajectory(entry: &Value, c: &mut Case) -> Result<()> {
    let config = VtraceConfig {
        clip_rho: json::optional_number_at(entry, "clip_rho_threshold")?,
        clip_pg_rho: json::optional_number_at(entry, "clip_pg_rho_threshold")?,
        clip_c: Some(1.0),
        lambda: json::number_at(entry, "lambda")?,
        alpha: json::optional_number_at(entry, "alpha")?.unwrap_or(1.0),
        pg_bootstrap: PgBootstrap::LambdaMix,
    };
    let (values, next_values) = (floats_at(entry, "v_tm1")?, floats_at(entry, "v_t")?);
    // rlax takes the two apart; pronk takes one value per state, and the last is the bootstrap.
    let last = *next_values.last().context("`v_t` is empty")?;
    ensure!(
        next_values.len() == values.len() && next_values[..values.len() - 1] == values[1..],
        "`v_t` is not `v_tm1` one step later: a state has two values"
    );
    let rhos = floats_at(entry, "rho_tm1")?;
    let log_rhos: Vec<f64> = rhos.iter().map(|rho| rho.ln()).collect();
    let mask = json::optional(entry, "sample_mask").map(|_| json::flags_at(entry, "sample_mask")).transpose()?;
    let input = VtraceInput {
        steps: values.len(),
        columns: 1,
        log_rhos: &log_rhos,
        discounts: &floats_at(entry, "discount_t")?,
        rewards: &floats_at(entry, "r_t")?,
        values: &values,
        bootstrap: &[last],
        mask: mask.as_deref(),
    };
    let mut output = VtraceOutput::default();
    vtrace(&config, &input, &mut output)?;

    let errors: Vec<f64> = output.vs.iter().zip(&values).map(|(vs, value)| vs - value).collect();
    c.close_all("vs", &output.vs, &floats_at(entry, "expected.vs")?, TOLERANCE);
    c.close_all("errors", &errors, &floats_at(entry, "expected.errors")?, TOLERANCE);
    let advantages = floats_at(entry, "expected.pg_advantage")?;
    c.close_all("pg_advantage", &output.pg_advantages, &advantages, TOLERANCE);
    // The advantage is the weighted difference of estimate and value; a weight of 0 hides the estimate.
    for (t, &q_estimate) in floats_at(entry, "expected.q_estimate")?.iter().enumerate() {
        let weight = config.pg_rho(output.rhos[t]);
        if weight > 0.0 {
            let got = output.pg_advantages[t] / weight + values[t];
            c.close(format!("q_estimate[{t}]"), got, q_estimate, TOLERANCE);
        }
    }
    Ok(())
}
