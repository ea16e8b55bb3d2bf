//! Runner of `losses.json`: RLlib's IMPALA and APPO losses, values and gradients.

use anyhow::{Result, ensure};
use pronk_learner::{ImpalaGrads, ImpalaLossConfig, ImpalaLossInput, LastStep, MaskedSteps, VtraceConfig, impala_loss};
use pronk_policy::categorical;
use serde_json::Value;

use crate::json::{self, bool_at, flags_at, floats_at, name_of, number_at, section, str_at, usize_at, usizes_at};
use crate::{Case, Recorder};

const TOLERANCE: f64 = 1e-6;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "cases").iter().enumerate() {
        let name = name_of(entry, index);
        let stated = |key| str_at(entry, key).unwrap_or("unstated");
        let (algorithm, distribution) = (stated("algo"), stated("kind"));
        let kind = format!("cases/{algorithm}/{distribution}");
        match (algorithm, distribution, bool_at(entry, "vtrace").unwrap_or(true)) {
            ("impala", "categorical", true) => r.case(&kind, name, |c| impala(entry, c)),
            ("impala", _, true) => r.no_runner(&kind, name, format!("there is no {distribution} distribution")),
            ("impala", _, false) => r.no_runner(&kind, name, "there is no loss without V-trace"),
            _ => r.no_runner(&kind, name, format!("there is no {algorithm} loss")),
        }
    }
}

/// Where the golden file and pronk keep step `t` of column `b`: rows `b * T + t` there, `t * B + b` here.
struct Layout {
    steps: usize,
    columns: usize,
}

impl Layout {
    /// Rows of `row_len` numbers from batch-major to time-major.
    fn to_time_major(&self, name: &str, batch_major: &[f64], row_len: usize) -> Result<Vec<f64>> {
        let expected = self.steps * self.columns * row_len;
        ensure!(batch_major.len() == expected, "{name} has {} numbers, {expected} are needed", batch_major.len());
        Ok(rows_transposed(batch_major, self.columns, self.steps, row_len))
    }

    fn to_batch_major(&self, time_major: &[f64], row_len: usize) -> Vec<f64> {
        rows_transposed(time_major, self.steps, self.columns, row_len)
    }
}

/// `[outer][inner][row_len]` to `[inner][outer][row_len]`.
fn rows_transposed(numbers: &[f64], outer: usize, inner: usize, row_len: usize) -> Vec<f64> {
    let row = |o: usize, i: usize| &numbers[(o * inner + i) * row_len..][..row_len];
    (0..inner).flat_map(|i| (0..outer).flat_map(move |o| row(o, i))).copied().collect()
}

fn impala(entry: &Value, c: &mut Case) -> Result<()> {
    let layout = Layout { steps: usize_at(entry, "T")?, columns: usize_at(entry, "B")? };
    let n_actions = usize_at(entry, "A")?;
    let input = |key: &str, row_len: usize| -> Result<Vec<f64>> {
        layout.to_time_major(key, &floats_at(entry, &format!("inputs.{key}"))?, row_len)
    };
    let gamma = number_at(entry, "gamma")?;
    let ends = flags_at(entry, "inputs.dones")?;
    let discounts: Vec<f64> = ends.into_iter().map(|done| if done { 0.0 } else { gamma }).collect();
    let actions: Vec<usize> = input("actions", 1)?.into_iter().map(|action| action as usize).collect();
    let (logits, behaviour_logits) = (input("current_logits", n_actions)?, input("behaviour_logits", n_actions)?);
    let log_probs = |logits: &[f64]| -> Vec<f64> {
        logits.chunks_exact(n_actions).zip(&actions).map(|(row, &action)| categorical::logp(row, action)).collect()
    };
    let (logp, behaviour_logp) = (log_probs(&logits), input("behaviour_logp", 1)?);
    let entropy: Vec<f64> = logits.chunks_exact(n_actions).map(categorical::entropy).collect();
    let mut compare = |what: &str, time_major: &[f64], row_len: usize| -> Result<()> {
        let want = floats_at(entry, &format!("expected.{what}"))?;
        c.close_all(what, &layout.to_batch_major(time_major, row_len), &want, TOLERANCE);
        Ok(())
    };
    compare("behaviour_logp", &log_probs(&behaviour_logits), 1)?;
    compare("current_logp", &logp, 1)?;
    compare("current_entropy", &entropy, 1)?;

    let mut grads = ImpalaGrads::default();
    let stats = impala_loss(
        &config(entry)?,
        &ImpalaLossInput {
            steps: layout.steps,
            columns: layout.columns,
            behaviour_logp: &behaviour_logp,
            logp: &logp,
            entropy: &entropy,
            values: &input("values", 1)?,
            last_step: if bool_at(entry, "drop_last")? { LastStep::Drop } else { LastStep::OwnValue },
            rewards: &input("rewards", 1)?,
            discounts: &layout.to_time_major("dones", &discounts, 1)?,
            mask: mask(entry, &layout)?.as_deref(),
        },
        &mut grads,
    )?;
    let mut d_logits = vec![0.0; logits.len()];
    let rows = logits.chunks_exact(n_actions).zip(d_logits.chunks_exact_mut(n_actions));
    for (i, (row, d_row)) in rows.enumerate() {
        categorical::logp_grad(row, actions[i], grads.logp[i], d_row);
        categorical::entropy_grad(row, grads.entropy[i], d_row);
    }
    compare("grad_logits", &d_logits, n_actions)?;
    compare("grad_values", &grads.values, 1)?;
    for (what, got) in [
        ("pi_loss", stats.policy_loss),
        ("vf_loss", stats.vf_loss),
        ("entropy", stats.entropy_sum),
        ("mean_entropy", stats.entropy_mean),
        ("total_loss", stats.total_loss),
        // The file has NaN where a single target leaves nothing to explain.
        ("vf_explained_var", stats.vf_explained_var.unwrap_or(f64::NAN)),
    ] {
        c.close(what, got, number_at(entry, &format!("expected.{what}"))?, TOLERANCE);
    }
    Ok(())
}

fn config(entry: &Value) -> Result<ImpalaLossConfig<f64>> {
    Ok(ImpalaLossConfig {
        vf_loss_coeff: number_at(entry, "vf_loss_coeff")?,
        entropy_coeff: number_at(entry, "entropy_coeff")?,
        vtrace: VtraceConfig {
            clip_rho: json::optional_number_at(entry, "clip_rho_threshold")?,
            clip_pg_rho: json::optional_number_at(entry, "clip_pg_rho_threshold")?,
            ..VtraceConfig::default()
        },
        masked_steps: MaskedSteps::Recurse,
    })
}

/// `t < seq_len`, time-major; `None` where the case is not recurrent.
fn mask(entry: &Value, layout: &Layout) -> Result<Option<Vec<bool>>> {
    if json::optional(entry, "seq_lens").is_none() {
        return Ok(None);
    }
    let lengths = usizes_at(entry, "seq_lens")?;
    ensure!(lengths.len() == layout.columns, "{} seq_lens for {} columns", lengths.len(), layout.columns);
    Ok(Some((0..layout.steps).flat_map(|t| lengths.iter().map(move |&length| t < length)).collect()))
}
