//! IMPALA: V-trace actor-critic. Formula, source and what differs: `impala/README.md`.

mod loss;
#[cfg(test)]
pub(crate) mod tests;

use pronk_buffer::SampleBatch;
use pronk_metrics::Info;
use pronk_policy::OutputGrads;
use serde::{Deserialize, Serialize};

pub use loss::{ImpalaGrads, ImpalaLossConfig, ImpalaLossInput, ImpalaLossStats, impala_loss};

use super::off_policy::{OffPolicy, Penalty};
use super::on_batch::{self, LossGrads, OnBatch};
use super::settings;
use super::targets::MaskedSteps;
use crate::{Advantages, Algorithm, LearnError, LossInputs, Schedule};

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
    /// Weight of `KL(mu ‖ pi)`, the divergence of the policy in training from the one that acted, in units of
    /// the mean size of advantages. It keeps a policy from running ahead of its data, whatever the lag and
    /// the scale of rewards. The first update of a batch without lag is as it would be without the penalty.
    /// 0 disables it. (RLlib has none.)
    pub behaviour_kl_coeff: f64,
    /// Corrects policy lag by V-trace; without it, advantages come from GAE with the behaviour policy's
    /// values, as in A3C.
    pub vtrace: bool,
    /// GAE's lambda, without V-trace.
    pub lambda: f64,
    /// Bar on the importance ratio in value targets; `None` for none.
    pub vtrace_clip_rho_threshold: Option<f64>,
    /// Bar on the importance ratio in the policy gradient; `None` for none.
    pub vtrace_clip_pg_rho_threshold: Option<f64>,
    /// Multiplies the trace weights: 1 is V-trace as published, 0 one-step targets.
    pub vtrace_lambda: f64,
    /// Bootstraps from the last step of each fragment, without learning from it, instead of from the
    /// observation that follows it.
    pub vtrace_drop_last_ts: bool,
}

impl Default for ImpalaConfig {
    fn default() -> Self {
        ImpalaConfig {
            gamma: 0.99,
            vf_loss_coeff: 0.5,
            entropy_coeff: Schedule::Constant(0.01),
            behaviour_kl_coeff: 0.5,
            vtrace: true,
            lambda: 1.0,
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
    /// [`LearnError::Config`] with the first invalid setting, its value, and the reason.
    pub fn check(&self) -> Result<(), LearnError> {
        settings::unit("gamma", self.gamma)?;
        settings::unit("lambda", self.lambda)?;
        settings::unit("vtrace_lambda", self.vtrace_lambda)?;
        settings::weight("vf_loss_coeff", self.vf_loss_coeff)?;
        settings::entropy_coeff(&self.entropy_coeff)?;
        settings::weight("behaviour_kl_coeff", self.behaviour_kl_coeff)?;
        settings::bar("vtrace_clip_rho_threshold", self.vtrace_clip_rho_threshold)?;
        settings::bar("vtrace_clip_pg_rho_threshold", self.vtrace_clip_pg_rho_threshold)
    }

    fn loss_config(&self, env_steps: u64) -> ImpalaLossConfig<f32> {
        ImpalaLossConfig {
            vf_loss_coeff: self.vf_loss_coeff as f32,
            entropy_coeff: self.entropy_coeff.value(env_steps as f64) as f32,
            vtrace: settings::vtrace(
                self.vtrace_clip_rho_threshold,
                self.vtrace_clip_pg_rho_threshold,
                self.vtrace_lambda,
            ),
            masked_steps: MaskedSteps::Skip,
        }
    }
}

/// The IMPALA algorithm. A steady run allocates only the statistics.
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
    batch: OnBatch,
    off_policy: OffPolicy,
    grads: ImpalaGrads<f32>,
}

impl Impala {
    /// Checks the settings.
    ///
    /// # Errors
    /// As [`ImpalaConfig::check`].
    pub fn new(config: ImpalaConfig) -> Result<Impala, LearnError> {
        config.check()?;
        Ok(Impala {
            config,
            batch: OnBatch::default(),
            off_policy: OffPolicy::default(),
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

    fn gamma(&self) -> Option<f64> {
        Some(self.config.gamma)
    }

    fn loss(
        &mut self,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<Info, LearnError> {
        self.batch.evaluate(self.config.gamma, batch, inputs)?;
        if !self.config.vtrace {
            self.batch.estimate(self.config.lambda, Advantages::Gae, batch)?;
        }
        let (steps, columns) = (batch.shape().steps, batch.shape().columns);
        let (values, next_values) = inputs.values.split_at(steps * columns);
        let OnBatch { logp, entropy, ends, .. } = &self.batch;
        let targets = self.batch.targets(self.config.vtrace, self.config.vtrace_drop_last_ts, next_values);
        let config = self.config.loss_config(inputs.env_steps);
        let behaviour_logp = batch.behaviour_logp();
        let input = ImpalaLossInput { steps, columns, behaviour_logp, logp, entropy, values, targets, mask: None };
        let stats = impala_loss(&config, &input, &mut self.grads)?;
        let ImpalaGrads { logp: d_logp, entropy: d_entropy, values: d_values, vtrace, .. } = &self.grads;
        let loss = LossGrads { logp: d_logp, entropy: d_entropy, values: d_values, divergence: None };
        let advantages = &vtrace.pg_advantages;
        let penalty = Penalty { coeff: self.config.behaviour_kl_coeff, share: 1.0 };
        self.off_policy.write(penalty, advantages, &loss, batch, inputs, grads)?;
        let found = self.off_policy.found(advantages.len(), behaviour_logp, logp)?;
        let total_loss = stats.total_loss + found.penalty;
        if !total_loss.is_finite() {
            return Err(on_batch::not_finite(
                "the IMPALA loss",
                columns,
                &[
                    ("log-probability", logp),
                    ("behaviour log-probability", behaviour_logp),
                    ("entropy", entropy),
                    ("divergence from the behaviour policy", self.off_policy.kl()),
                    ("value", values),
                    ("reward, with the value of a final observation,", &ends.rewards),
                ],
                || format!("policy loss {}, value loss {}", stats.policy_loss, stats.vf_loss),
            ));
        }
        let own = stats_of(&stats, &config);
        Ok(on_batch::statistics([("total_loss", total_loss)].into_iter().chain(own).chain(found.named())))
    }
}

/// RLlib's names, then what it does not report.
fn stats_of(stats: &ImpalaLossStats, config: &ImpalaLossConfig<f32>) -> [(&'static str, f64); 8] {
    [
        ("policy_loss", stats.policy_loss),
        ("vf_loss", stats.vf_loss),
        ("vf_explained_var", stats.vf_explained_var.unwrap_or(f64::NAN)),
        ("entropy", stats.entropy_mean),
        ("entropy_coeff", config.entropy_coeff.into()),
        ("vtrace_mean_rho", stats.mean_rho),
        ("vtrace_rho_clipped", stats.rho_clipped),
        ("vtrace_c_clipped", stats.c_clipped),
    ]
}
