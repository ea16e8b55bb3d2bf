//! Runner of `losses.json`: RLlib's IMPALA and APPO losses, values and gradients.

use anyhow::{Result, bail, ensure};
use pronk_learner::{
    AppoForm, AppoGrads, AppoLossConfig, AppoLossInput, ImpalaGrads, ImpalaLossConfig, ImpalaLossInput, LastStep,
    MaskedSteps, SurrogateConfig, Targets, ValueLoss, VtraceConfig, appo_loss, impala_loss,
};
use serde_json::Value;

use crate::json::{self, bool_at, flags_at, floats_at, name_of, number_at, section, str_at, usize_at, usizes_at};
use crate::row_distribution::RowDistribution;
use crate::{Case, Recorder};

const TOLERANCE: f64 = 1e-6;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "cases").iter().enumerate() {
        let name = name_of(entry, index);
        let stated = |key| str_at(entry, key).unwrap_or("unstated");
        let (algorithm, distribution) = (stated("algo"), stated("kind"));
        let kind = format!("cases/{algorithm}/{distribution}");
        match algorithm {
            "impala" => r.case(&kind, name, |c| impala(&Batch::of(entry)?, c)),
            "appo" => r.case(&kind, name, |c| appo(&Batch::of(entry)?, c)),
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

/// One case, time-major, with what all losses are made of.
struct Batch<'a> {
    entry: &'a Value,
    layout: Layout,
    distribution: RowDistribution,
    dist_len: usize,
    logits: Vec<f64>,
    behaviour_logits: Vec<f64>,
    actions: Vec<f64>,
    act_len: usize,
    behaviour_logp: Vec<f64>,
    logp: Vec<f64>,
    entropy: Vec<f64>,
    values: Vec<f64>,
    rewards: Vec<f64>,
    discounts: Vec<f64>,
    mask: Option<Vec<bool>>,
}

impl<'a> Batch<'a> {
    fn of(entry: &'a Value) -> Result<Self> {
        let layout = Layout { steps: usize_at(entry, "T")?, columns: usize_at(entry, "B")? };
        let distribution = RowDistribution::of(entry)?;
        let (dist_len, act_len) = (distribution.dist_len(), distribution.act_len());
        let input = |key: &str, row_len: usize| -> Result<Vec<f64>> {
            layout.to_time_major(key, &floats_at(entry, &format!("inputs.{key}"))?, row_len)
        };
        let gamma = number_at(entry, "gamma")?;
        let ends = flags_at(entry, "inputs.dones")?;
        let discounts: Vec<f64> = ends.into_iter().map(|done| if done { 0.0 } else { gamma }).collect();
        let (logits, actions) = (input("current_logits", dist_len)?, input("actions", act_len)?);
        Ok(Self {
            entry,
            behaviour_logits: input("behaviour_logits", dist_len)?,
            behaviour_logp: input("behaviour_logp", 1)?,
            logp: distribution.logps(&logits, &actions),
            entropy: logits.chunks_exact(dist_len).map(|row| distribution.entropy(row)).collect(),
            values: input("values", 1)?,
            rewards: input("rewards", 1)?,
            discounts: layout.to_time_major("dones", &discounts, 1)?,
            mask: mask(entry, &layout)?,
            layout,
            distribution,
            dist_len,
            logits,
            actions,
            act_len,
        })
    }

    fn input(&self, key: &str, row_len: usize) -> Result<Vec<f64>> {
        self.layout.to_time_major(key, &floats_at(self.entry, &format!("inputs.{key}"))?, row_len)
    }

    fn vtrace(&self) -> Result<Targets<'_, f64>> {
        let last_step = if bool_at(self.entry, "drop_last")? { LastStep::Drop } else { LastStep::OwnValue };
        Ok(Targets::Vtrace { rewards: &self.rewards, discounts: &self.discounts, last_step })
    }

    /// Compares time-major numbers with the file's.
    fn compare(&self, c: &mut Case, what: &str, time_major: &[f64], row_len: usize) -> Result<()> {
        let want = floats_at(self.entry, &format!("expected.{what}"))?;
        c.close_all(what, &self.layout.to_batch_major(time_major, row_len), &want, TOLERANCE);
        Ok(())
    }

    fn compare_inputs(&self, c: &mut Case) -> Result<()> {
        let behaviour_logp = self.distribution.logps(&self.behaviour_logits, &self.actions);
        self.compare(c, "behaviour_logp", &behaviour_logp, 1)?;
        self.compare(c, "current_logp", &self.logp, 1)?;
        self.compare(c, "current_entropy", &self.entropy, 1)
    }

    fn compare_numbers(&self, c: &mut Case, numbers: &[(&str, f64)]) -> Result<()> {
        for (what, got) in numbers {
            c.close(what, *got, number_at(self.entry, &format!("expected.{what}"))?, TOLERANCE);
        }
        Ok(())
    }

    /// Gradients of log-probability, entropy and divergence from `kl_from`, led back to the logits.
    fn d_logits(&self, d_logp: &[f64], d_entropy: &[f64], kl: Option<(&[f64], &[f64])>) -> Vec<f64> {
        let mut d_logits = vec![0.0; self.logits.len()];
        let rows = self.logits.chunks_exact(self.dist_len).zip(d_logits.chunks_exact_mut(self.dist_len));
        for (i, (row, d_row)) in rows.enumerate() {
            let action = &self.actions[i * self.act_len..][..self.act_len];
            self.distribution.logp_grad(row, action, d_logp[i], d_row);
            self.distribution.entropy_grad(row, d_entropy[i], d_row);
            if let Some((from, d_kl)) = kl {
                self.distribution.kl_grad_q(&from[i * self.dist_len..][..self.dist_len], row, d_kl[i], d_row);
            }
        }
        d_logits
    }
}

fn impala(batch: &Batch<'_>, c: &mut Case) -> Result<()> {
    batch.compare_inputs(c)?;
    let mut grads = ImpalaGrads::default();
    let input = ImpalaLossInput {
        steps: batch.layout.steps,
        columns: batch.layout.columns,
        behaviour_logp: &batch.behaviour_logp,
        logp: &batch.logp,
        entropy: &batch.entropy,
        values: &batch.values,
        targets: batch.vtrace()?,
        mask: batch.mask.as_deref(),
    };
    let stats = impala_loss(&config(batch.entry)?, &input, &mut grads)?;
    batch.compare(c, "grad_logits", &batch.d_logits(&grads.logp, &grads.entropy, None), batch.dist_len)?;
    batch.compare(c, "grad_values", &grads.values, 1)?;
    batch.compare_numbers(
        c,
        &[
            ("pi_loss", stats.policy_loss),
            ("vf_loss", stats.vf_loss),
            ("entropy", stats.entropy_sum),
            ("mean_entropy", stats.entropy_mean),
            ("total_loss", stats.total_loss),
            // The file has NaN where a single target leaves nothing to explain.
            ("vf_explained_var", stats.vf_explained_var.unwrap_or(f64::NAN)),
        ],
    )
}

fn appo(batch: &Batch<'_>, c: &mut Case) -> Result<()> {
    batch.compare_inputs(c)?;
    let entry = batch.entry;
    let vtrace = bool_at(entry, "vtrace")?;
    let (from, given) = if vtrace {
        (batch.input("target_logits", batch.dist_len)?, None)
    } else {
        (batch.behaviour_logits.clone(), Some((batch.input("advantages", 1)?, batch.input("value_targets", 1)?)))
    };
    let target_logp = batch.distribution.logps(&from, &batch.actions);
    let rows = from.chunks_exact(batch.dist_len).zip(batch.logits.chunks_exact(batch.dist_len));
    let kl: Vec<f64> = rows.map(|(p, q)| batch.distribution.kl(p, q)).collect();
    let impala = config(entry)?;
    let config = AppoLossConfig {
        form: AppoForm::Impact,
        surrogate: SurrogateConfig {
            clip_param: number_at(entry, "clip_param")?,
            vf_loss_coeff: impala.vf_loss_coeff,
            value_loss: ValueLoss::HalfSquared,
            entropy_coeff: impala.entropy_coeff,
            kl_coeff: if bool_at(entry, "use_kl_loss")? { number_at(entry, "kl_coeff")? } else { 0.0 },
        },
        vtrace: impala.vtrace,
        masked_steps: impala.masked_steps,
        standardize_advantages: false,
    };
    let input = AppoLossInput {
        steps: batch.layout.steps,
        columns: batch.layout.columns,
        behaviour_logp: &batch.behaviour_logp,
        target_logp: &target_logp,
        logp: &batch.logp,
        entropy: &batch.entropy,
        values: &batch.values,
        kl: Some(&kl),
        targets: match &given {
            None => batch.vtrace()?,
            Some((advantages, value_targets)) => Targets::Given { advantages, value_targets },
        },
        mask: batch.mask.as_deref(),
    };
    let mut grads = AppoGrads::default();
    let stats = appo_loss(&config, &input, &mut grads)?;
    let d = &grads.surrogate;
    let d_logits = batch.d_logits(&d.logp, &d.entropy, Some((&from, &d.kl)));
    batch.compare(c, "grad_logits", &d_logits, batch.dist_len)?;
    batch.compare(c, "grad_values", &d.values, 1)?;
    compare_targets(batch, &grads, c)?;
    let surrogate = &stats.surrogate;
    batch.compare_numbers(
        c,
        &[
            ("total_loss", surrogate.total_loss),
            ("mean_policy_loss", surrogate.policy_loss),
            ("mean_vf_loss", surrogate.vf_loss),
            ("mean_entropy", surrogate.entropy),
            ("vf_explained_var", surrogate.vf_explained_var.unwrap_or(f64::NAN)),
        ],
    )?;
    if config.surrogate.kl_coeff > 0.0 {
        batch.compare_numbers(c, &[("mean_kl_loss", surrogate.kl.unwrap_or(f64::NAN))])?;
    }
    match stats.is_ratio {
        Some((mean, variance)) => {
            batch.compare_numbers(c, &[("mean_IS", mean), ("var_IS", variance.unwrap_or(f64::NAN))])
        }
        None if vtrace => bail!("no importance ratios came back"),
        None => Ok(()),
    }
}

/// Value targets and ratios, which the file has time-major and for the steps that were learned from.
fn compare_targets(batch: &Batch<'_>, grads: &AppoGrads<f64>, c: &mut Case) -> Result<()> {
    let pairs = [("value_targets", &grads.vtrace.vs), ("is_ratio", &grads.is_ratios)];
    for (what, got) in pairs.into_iter().filter(|(_, got)| !got.is_empty()) {
        let want = floats_at(batch.entry, &format!("expected.{what}"))?;
        c.close_all(what, got, &want, TOLERANCE);
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
