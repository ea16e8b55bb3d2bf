//! IMPALA: V-trace actor-critic. Formula, source and what differs: `impala/README.md`.

mod loss;
#[cfg(test)]
mod tests;

use pronk_buffer::{ActionView, SampleBatch};
use pronk_metrics::{Info, Reduction};
use pronk_policy::{ActionsRef, OutputGrads};
use serde::{Deserialize, Serialize};

pub use loss::{ImpalaGrads, ImpalaLossConfig, ImpalaLossInput, ImpalaLossStats, LastStep, MaskedSteps, impala_loss};

use crate::{Algorithm, EpisodeEnds, LearnError, LossInputs, PgBootstrap, Schedule, VtraceConfig};

/// Settings of [`Impala`]. Names and defaults are RLlib's, where it has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImpalaConfig {
    /// Discount of future rewards.
    pub gamma: f64,
    /// Weight of the value loss.
    pub vf_loss_coeff: f64,
    /// Weight of the entropy bonus over env-steps; never negative.
    pub entropy_coeff: Schedule,
    /// Bar on the importance ratio in value targets; `None` leaves it as it is.
    pub vtrace_clip_rho_threshold: Option<f64>,
    /// Bar on the importance ratio in the policy gradient; `None` leaves it as it is.
    pub vtrace_clip_pg_rho_threshold: Option<f64>,
    /// Multiplies the trace weights: 1 is V-trace as published, 0 one-step targets.
    pub vtrace_lambda: f64,
    /// Learn from all steps but each fragment's last and let the last one's value follow them, instead of asking the
    /// network for the value of what follows the fragment.
    pub vtrace_drop_last_ts: bool,
}

impl Default for ImpalaConfig {
    fn default() -> Self {
        ImpalaConfig {
            gamma: 0.99,
            vf_loss_coeff: 0.5,
            entropy_coeff: Schedule::Constant(0.01),
            vtrace_clip_rho_threshold: Some(1.0),
            vtrace_clip_pg_rho_threshold: Some(1.0),
            vtrace_lambda: 1.0,
            vtrace_drop_last_ts: false,
        }
    }
}

impl ImpalaConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// [`LearnError::Config`] naming the first setting that cannot work, its value, and why.
    pub fn check(&self) -> Result<(), LearnError> {
        let unit = |value: f64| (0.0..=1.0).contains(&value);
        let positive_or_zero = |value: f64| value >= 0.0 && (value as f32).is_finite();
        let refuse = |name: &str, value: f64, rule: &str| {
            Err(LearnError::Config { reason: format!("{name} is {value}; it must be {rule}") })
        };
        for (name, value) in [("gamma", self.gamma), ("vtrace_lambda", self.vtrace_lambda)] {
            if !unit(value) {
                return refuse(name, value, "from 0 to 1, or returns grow without bound");
            }
        }
        if !positive_or_zero(self.vf_loss_coeff) {
            return refuse("vf_loss_coeff", self.vf_loss_coeff, "finite and not negative");
        }
        for entropy_coeff in [self.entropy_coeff.min_value(), self.entropy_coeff.max_value()] {
            if !positive_or_zero(entropy_coeff) {
                return refuse("entropy_coeff", entropy_coeff, "finite and not negative: the entropy is a bonus");
            }
        }
        for (name, bar) in [
            ("vtrace_clip_rho_threshold", self.vtrace_clip_rho_threshold),
            ("vtrace_clip_pg_rho_threshold", self.vtrace_clip_pg_rho_threshold),
        ] {
            if let Some(bar) = bar.filter(|&bar| !positive_or_zero(bar)) {
                return refuse(name, bar, "finite and not negative; none turns clipping off");
            }
        }
        Ok(())
    }

    fn loss_config(&self, env_steps: u64) -> ImpalaLossConfig<f32> {
        let bar = |bar: Option<f64>| bar.map(|bar| bar as f32);
        ImpalaLossConfig {
            vf_loss_coeff: self.vf_loss_coeff as f32,
            entropy_coeff: self.entropy_coeff.value(env_steps as f64) as f32,
            vtrace: VtraceConfig {
                clip_rho: bar(self.vtrace_clip_rho_threshold),
                clip_pg_rho: bar(self.vtrace_clip_pg_rho_threshold),
                clip_c: Some(1.0),
                lambda: self.vtrace_lambda as f32,
                alpha: 1.0,
                pg_bootstrap: PgBootstrap::Target,
            },
            masked_steps: MaskedSteps::Skip,
        }
    }
}

/// The IMPALA algorithm. It keeps its working memory, so a steady run allocates nothing here but the statistics' names.
///
/// # Example
/// ```
/// use pronk_learner::{Algorithm, Impala, ImpalaConfig};
///
/// let impala = Impala::new(ImpalaConfig { gamma: 0.95, ..ImpalaConfig::default() })?;
/// assert_eq!(impala.name(), "impala");
/// assert!(Impala::new(ImpalaConfig { gamma: 1.5, ..ImpalaConfig::default() }).is_err());
/// # Ok::<(), pronk_learner::LearnError>(())
/// ```
///
/// # Source
/// IMPALA, Espeholt et al. 2018; defaults of RLlib 2.2.
#[derive(Clone, Debug)]
pub struct Impala {
    config: ImpalaConfig,
    logp: Vec<f32>,
    entropy: Vec<f32>,
    ends: EpisodeEnds<f32>,
    grads: ImpalaGrads<f32>,
}

impl Impala {
    /// With checked settings.
    ///
    /// # Errors
    /// As [`ImpalaConfig::check`].
    pub fn new(config: ImpalaConfig) -> Result<Impala, LearnError> {
        config.check()?;
        Ok(Impala {
            config,
            logp: Vec::new(),
            entropy: Vec::new(),
            ends: EpisodeEnds::default(),
            grads: ImpalaGrads::default(),
        })
    }

    /// The settings.
    pub fn config(&self) -> &ImpalaConfig {
        &self.config
    }
}

impl Algorithm for Impala {
    fn name(&self) -> &'static str {
        "impala"
    }

    fn loss(
        &mut self,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<Info, LearnError> {
        let (steps, columns) = (batch.shape().steps, batch.shape().columns);
        let rows = steps * columns;
        let dist_len = inputs.distribution.dist_len();
        inputs.check(batch)?;
        let logits = &inputs.logits[..rows * dist_len];
        let (values, next_values) = inputs.values.split_at(rows);
        let actions = match batch.actions() {
            ActionView::U32(actions) => ActionsRef::Discrete(actions),
            ActionView::F32(actions) => ActionsRef::Continuous(actions),
        };

        self.logp.resize(rows, 0.0);
        self.entropy.resize(rows, 0.0);
        inputs.distribution.logp_and_entropy(logits, actions, &mut self.logp, &mut self.entropy)?;
        let final_values = batch.final_obs().index().iter().copied().zip(inputs.final_values.iter().copied());
        self.ends.fold(self.config.gamma as f32, columns, batch.rewards(), batch.ends(), final_values)?;

        let config = self.config.loss_config(inputs.env_steps);
        let input = ImpalaLossInput {
            steps,
            columns,
            behaviour_logp: batch.behaviour_logp(),
            logp: &self.logp,
            entropy: &self.entropy,
            values,
            last_step: match self.config.vtrace_drop_last_ts {
                true => LastStep::Drop,
                false => LastStep::Bootstrap(next_values),
            },
            rewards: &self.ends.rewards,
            discounts: &self.ends.discounts,
            mask: None,
        };
        let stats = impala_loss(&config, &input, &mut self.grads)?;
        if !stats.total_loss.is_finite() {
            return Err(not_finite(&stats, &input));
        }

        let learning_rows = inputs.logits.len() / dist_len;
        grads.logits.clear();
        grads.logits.resize(inputs.logits.len(), 0.0);
        let d_logits = &mut grads.logits[..rows * dist_len];
        let ImpalaGrads { logp, entropy, .. } = &self.grads;
        inputs.distribution.logp_and_entropy_grad(logits, actions, logp, entropy, d_logits)?;
        grads.values.clear();
        grads.values.extend_from_slice(&self.grads.values);
        grads.values.resize(learning_rows, 0.0);
        Ok(stats_tree(&stats, &config))
    }
}

/// RLlib's names, then what it does not report.
fn stats_tree(stats: &ImpalaLossStats, config: &ImpalaLossConfig<f32>) -> Info {
    let mean = |number: f64| Info::leaf(number, Reduction::Mean);
    Info::tree([
        ("total_loss", mean(stats.total_loss)),
        ("policy_loss", mean(stats.policy_loss)),
        ("vf_loss", mean(stats.vf_loss)),
        // Merging leaves NaN out; the result dict has it as null.
        ("vf_explained_var", mean(stats.vf_explained_var.unwrap_or(f64::NAN))),
        ("entropy", mean(stats.entropy_mean)),
        ("entropy_coeff", mean(config.entropy_coeff.into())),
        ("vtrace_mean_rho", mean(stats.mean_rho)),
        ("vtrace_rho_clipped", mean(stats.rho_clipped)),
        ("vtrace_c_clipped", mean(stats.c_clipped)),
    ])
}

/// Names the first number that the loss could not be made of.
fn not_finite(stats: &ImpalaLossStats, input: &ImpalaLossInput<'_, f32>) -> LearnError {
    let at = [
        ("log-probability", input.logp),
        ("behaviour log-probability", input.behaviour_logp),
        ("entropy", input.entropy),
        ("value", input.values),
        ("reward, with the value of a final observation,", input.rewards),
    ]
    .into_iter()
    .find_map(|(name, numbers)| {
        let i = numbers.iter().position(|number| !number.is_finite())?;
        let (t, b) = (i / input.columns, i % input.columns);
        Some(format!("{name} is {} at step {t}, column {b}", numbers[i]))
    });
    let at = at.unwrap_or_else(|| format!("policy loss {}, value loss {}", stats.policy_loss, stats.vf_loss));
    LearnError::NonFinite { what: "the IMPALA loss", at }
}
