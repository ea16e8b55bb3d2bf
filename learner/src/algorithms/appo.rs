//! APPO: asynchronous PPO with V-trace. Formula, source and what differs: `appo/README.md`.

mod loss;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use pronk_buffer::SampleBatch;
use pronk_metrics::Info;
use pronk_policy::OutputGrads;
use serde::{Deserialize, Serialize};

pub use loss::{AppoForm, AppoGrads, AppoLossConfig, AppoLossInput, AppoLossStats, appo_loss};

use super::kl::KlCoeff;
use super::off_policy::{OffPolicy, Penalty};
use super::on_batch::{self, Divergence, LossGrads, OnBatch, actions_of, rows_of};
use super::settings;
use super::surrogate::{SurrogateConfig, SurrogateGrads, ValueLoss};
use super::targets::MaskedSteps;
use crate::{Advantages, Algorithm, LearnError, LossInputs, Schedule, ShapeError, UpdateRhythm};

/// The fewest updates between two renewals of the target network, unless a setting says fewer. From one to
/// the next the policy has to move far enough for its ratio to mean something.
const SEVERAL: NonZeroU64 = NonZeroU64::MIN.saturating_add(7);

/// Settings of [`Appo`]. Names and defaults are RLlib's, where it has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AppoConfig {
    /// Discount of future rewards.
    pub gamma: f64,
    /// Range around 1 within which the probability ratio is not clipped.
    pub clip_param: f64,
    /// Weight of the value loss, which is half the squared error. (PPO's is the whole.)
    pub vf_loss_coeff: f64,
    /// Weight of the entropy bonus over env-steps; never negative.
    pub entropy_coeff: Schedule,
    /// As in [`ImpalaConfig`](crate::ImpalaConfig), but less: the ratio to the target network bounds how far the
    /// policy goes, too.
    pub behaviour_kl_coeff: f64,
    /// Targets and advantages by V-trace of a target network; without it by GAE with the behaviour policy's
    /// values.
    pub vtrace: bool,
    /// With V-trace: how older data is weighted.
    pub form: AppoForm,
    /// As in [`ImpalaConfig`](crate::ImpalaConfig).
    pub vtrace_clip_rho_threshold: Option<f64>,
    /// As in [`ImpalaConfig`](crate::ImpalaConfig).
    pub vtrace_clip_pg_rho_threshold: Option<f64>,
    /// As in [`ImpalaConfig`](crate::ImpalaConfig).
    pub vtrace_lambda: f64,
    /// As in [`ImpalaConfig`](crate::ImpalaConfig).
    pub vtrace_drop_last_ts: bool,
    /// Without V-trace: advantages by GAE, or the return minus the value.
    pub use_gae: bool,
    /// Without V-trace: whether to subtract the value from the return. GAE needs it.
    pub use_critic: bool,
    /// GAE's lambda.
    pub lambda: f64,
    /// Whether to standardise advantages to mean 0 and deviation 1 over each minibatch, which makes updates
    /// independent of the scale of rewards. (RLlib does not.)
    pub standardize_advantages: bool,
    /// Whether the loss includes the divergence from the target network, or without V-trace from the
    /// behaviour policy.
    pub use_kl_loss: bool,
    /// Initial weight of the divergence.
    pub kl_coeff: f64,
    /// The divergence that its weight aims at.
    pub kl_target: f64,
    /// Updates between two renewals of the target network, and between two adaptations of the divergence's
    /// weight. `None` is the updates of `num_sgd_iter * minibatch_buffer_size` passes; with V-trace those
    /// that are made from when a fragment is sampled to its last pass, 8 at least. If the network is renewed
    /// after every update, nothing is ever clipped. (RLlib counts sampled steps, so that it renews it nearly
    /// that often.)
    pub target_update_frequency: Option<NonZeroU64>,
}

impl Default for AppoConfig {
    fn default() -> Self {
        Self {
            gamma: 0.99,
            clip_param: 0.4,
            vf_loss_coeff: 0.5,
            entropy_coeff: Schedule::Constant(0.01),
            behaviour_kl_coeff: 0.1,
            vtrace: true,
            form: AppoForm::Unbiased,
            vtrace_clip_rho_threshold: Some(1.0),
            vtrace_clip_pg_rho_threshold: Some(1.0),
            vtrace_lambda: 1.0,
            vtrace_drop_last_ts: false,
            use_gae: true,
            use_critic: true,
            lambda: 1.0,
            standardize_advantages: false,
            use_kl_loss: false,
            kl_coeff: 1.0,
            kl_target: 0.01,
            target_update_frequency: None,
        }
    }
}

impl AppoConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// [`LearnError::Config`] with the first invalid setting, its value, and the reason.
    pub fn check(&self) -> Result<(), LearnError> {
        settings::unit("gamma", self.gamma)?;
        settings::unit("lambda", self.lambda)?;
        settings::unit("vtrace_lambda", self.vtrace_lambda)?;
        settings::positive("clip_param", self.clip_param)?;
        settings::weight("vf_loss_coeff", self.vf_loss_coeff)?;
        settings::entropy_coeff(&self.entropy_coeff)?;
        settings::weight("behaviour_kl_coeff", self.behaviour_kl_coeff)?;
        settings::bar("vtrace_clip_rho_threshold", self.vtrace_clip_rho_threshold)?;
        settings::bar("vtrace_clip_pg_rho_threshold", self.vtrace_clip_pg_rho_threshold)?;
        settings::weight("kl_coeff", self.kl_coeff)?;
        settings::positive("kl_target", self.kl_target)?;
        if !self.vtrace && self.use_gae && !self.use_critic {
            let reason = "use_gae is true and use_critic false: GAE needs the critic's values; set use_gae to false";
            return Err(LearnError::Config { reason: reason.to_owned() });
        }
        if self.use_kl_loss && self.vtrace && self.target_update_frequency == Some(NonZeroU64::MIN) {
            let reason = "use_kl_loss is true and target_update_frequency 1: the target network is renewed after every update, \
                          so the divergence is always 0; set it above 1, or leave it out";
            return Err(LearnError::Config { reason: reason.to_owned() });
        }
        if self.use_kl_loss && self.kl_coeff == 0.0 {
            let reason = "use_kl_loss is true and kl_coeff 0: a weight of 0 stays 0; begin above it";
            return Err(LearnError::Config { reason: reason.to_owned() });
        }
        Ok(())
    }

    fn advantages(&self) -> Advantages {
        match (self.use_gae, self.use_critic) {
            (true, _) => Advantages::Gae,
            (false, true) => Advantages::Return,
            (false, false) => Advantages::ReturnAlone,
        }
    }

    fn loss_config(&self, env_steps: u64, kl_coeff: f64) -> AppoLossConfig<f32> {
        AppoLossConfig {
            form: self.form,
            surrogate: SurrogateConfig {
                clip_param: self.clip_param as f32,
                vf_loss_coeff: self.vf_loss_coeff as f32,
                value_loss: ValueLoss::HalfSquared,
                entropy_coeff: self.entropy_coeff.value(env_steps as f64) as f32,
                kl_coeff: if self.use_kl_loss { kl_coeff as f32 } else { 0.0 },
            },
            vtrace: settings::vtrace(
                self.vtrace_clip_rho_threshold,
                self.vtrace_clip_pg_rho_threshold,
                self.vtrace_lambda,
            ),
            masked_steps: MaskedSteps::Skip,
            standardize_advantages: self.standardize_advantages,
        }
    }
}

/// The APPO algorithm. A steady run allocates only the statistics.
///
/// # Example
/// ```
/// use pronk_learner::{Algorithm, Appo, AppoConfig};
///
/// let appo = Appo::new(AppoConfig { clip_param: 0.2, ..AppoConfig::default() })?;
/// assert_eq!(appo.name(), "appo");
/// # Ok::<(), pronk_learner::LearnError>(())
/// ```
///
/// # Source
/// IMPACT, Luo et al. 2020, as RLlib 2.2 has it; its defaults.
#[derive(Clone, Debug)]
pub struct Appo {
    config: AppoConfig,
    kl_coeff: KlCoeff,
    /// The mean divergence of the last loss.
    last_kl: f64,
    batch: OnBatch,
    off_policy: OffPolicy,
    target_logp: Vec<f32>,
    kl: Vec<f32>,
    grads: AppoGrads<f32>,
}

impl Appo {
    /// Checks the settings.
    ///
    /// # Errors
    /// As [`AppoConfig::check`].
    pub fn new(config: AppoConfig) -> Result<Self, LearnError> {
        config.check()?;
        Ok(Self {
            kl_coeff: KlCoeff::new(config.kl_coeff, config.kl_target),
            last_kl: 0.0,
            config,
            batch: OnBatch::default(),
            off_policy: OffPolicy::default(),
            target_logp: Vec::new(),
            kl: Vec::new(),
            grads: AppoGrads::default(),
        })
    }

    /// The settings.
    pub fn config(&self) -> &AppoConfig {
        &self.config
    }

    fn period(&self) -> NonZeroU64 {
        self.config.target_update_frequency.unwrap_or(if self.config.vtrace { SEVERAL } else { NonZeroU64::MIN })
    }

    fn not_finite(&self, batch: &SampleBatch, inputs: &LossInputs<'_>, stats: &AppoLossStats) -> LearnError {
        on_batch::not_finite(
            "the APPO loss",
            batch.shape().columns,
            &[
                ("log-probability", &self.batch.logp),
                ("behaviour log-probability", batch.behaviour_logp()),
                ("log-probability under the target network", &self.target_logp),
                ("entropy", &self.batch.entropy),
                ("divergence", &self.kl),
                ("divergence from the behaviour policy", self.off_policy.kl()),
                ("value", inputs.values),
                ("value when sampled", batch.behaviour_values()),
                ("reward, with the value of a final observation,", &self.batch.ends.rewards),
            ],
            || format!("policy loss {}, value loss {}", stats.surrogate.policy_loss, stats.surrogate.vf_loss),
        )
    }
}

impl Algorithm for Appo {
    fn name(&self) -> &'static str {
        "appo"
    }

    fn gamma(&self) -> Option<f64> {
        Some(self.config.gamma)
    }

    fn set_rhythm(&mut self, rhythm: UpdateRhythm) {
        let open = if self.config.vtrace {
            // Feedback on a step of the policy comes once data that was sampled after it is learned from.
            // Until then the ratio bounds how far the policy goes.
            SEVERAL.max(rhythm.per_buffer.saturating_add(rhythm.lag))
        } else {
            rhythm.per_buffer
        };
        self.config.target_update_frequency.get_or_insert(open);
    }

    fn loss(
        &mut self,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<Info, LearnError> {
        self.batch.evaluate(self.config.gamma, batch, inputs)?;
        let (steps, columns) = (batch.shape().steps, batch.shape().columns);
        let rows = steps * columns;
        let logits = rows_of(inputs.logits, rows, inputs);
        self.target_logp.clear();
        let from = if self.config.vtrace {
            ShapeError::check_shape("target_logits", inputs.target_logits.len(), inputs.logits.len(), || {
                format!("as many as there are logits, {},", inputs.logits.len())
            })?;
            let target_logits = rows_of(inputs.target_logits, rows, inputs);
            self.target_logp.resize(rows, 0.0);
            inputs.distribution.logp(target_logits, actions_of(batch), &mut self.target_logp)?;
            target_logits
        } else {
            self.batch.estimate(self.config.lambda, self.config.advantages(), batch)?;
            batch.behaviour_inputs()
        };
        self.kl.resize(rows, 0.0);
        inputs.distribution.kl(from, logits, &mut self.kl)?;

        let (values, next_values) = inputs.values.split_at(rows);
        let OnBatch { logp, entropy, .. } = &self.batch;
        let targets = self.batch.targets(self.config.vtrace, self.config.vtrace_drop_last_ts, next_values);
        let config = self.config.loss_config(inputs.env_steps, self.kl_coeff.value());
        let input = AppoLossInput {
            steps,
            columns,
            behaviour_logp: batch.behaviour_logp(),
            target_logp: &self.target_logp,
            logp,
            entropy,
            values,
            kl: Some(&self.kl),
            targets,
            mask: None,
        };
        let stats = appo_loss(&config, &input, &mut self.grads)?;
        let AppoGrads { surrogate, vtrace, .. } = &self.grads;
        let divergence = self.config.use_kl_loss.then_some(Divergence { from, weights: &surrogate.kl });
        let SurrogateGrads { logp: d_logp, entropy: d_entropy, values: d_values, .. } = surrogate;
        let loss = LossGrads { logp: d_logp, entropy: d_entropy, values: d_values, divergence };
        let advantages = &vtrace.pg_advantages;
        let penalty = Penalty { coeff: self.config.behaviour_kl_coeff, share: 1.0 / advantages.len() as f64 };
        self.off_policy.write(penalty, advantages, &loss, batch, inputs, grads)?;
        let found = self.off_policy.found(advantages.len(), batch.behaviour_logp(), logp)?;
        let total_loss = stats.surrogate.total_loss + found.penalty;
        if !total_loss.is_finite() {
            return Err(self.not_finite(batch, inputs, &stats));
        }
        self.last_kl = stats.surrogate.kl.unwrap_or(0.0);
        let own = stats_of(&stats, &config.surrogate, self.kl_coeff.value());
        Ok(on_batch::statistics([("total_loss", total_loss)].into_iter().chain(own).chain(found.named())))
    }

    fn target_update_period(&self) -> Option<NonZeroU64> {
        self.config.vtrace.then(|| self.period())
    }

    fn updated(&mut self, target_updated: bool) {
        self.kl_coeff.add(self.last_kl);
        // Without a target network the weight adapts in the same rhythm.
        let due = if self.config.vtrace { target_updated } else { self.kl_coeff.updates() >= self.period().get() };
        if self.config.use_kl_loss && due {
            self.kl_coeff.adapt();
        }
    }

    fn save(&self) -> BTreeMap<String, f64> {
        self.kl_coeff.save()
    }

    fn load(&mut self, numbers: &BTreeMap<String, f64>) -> Result<(), LearnError> {
        self.kl_coeff.load(numbers)
    }
}

/// RLlib's names, then what it does not report.
fn stats_of(
    stats: &AppoLossStats,
    config: &SurrogateConfig<f32>,
    kl_coeff: f64,
) -> impl Iterator<Item = (&'static str, f64)> {
    // None without a target network.
    let ratios = stats.is_ratio.map(|(mean, variance)| [("mean_IS", mean), ("var_IS", variance.unwrap_or(f64::NAN))]);
    let own = [
        ("KL_Coeff", kl_coeff),
        ("vtrace_mean_rho", stats.mean_rho),
        ("vtrace_rho_clipped", stats.rho_clipped),
        ("vtrace_c_clipped", stats.c_clipped),
    ];
    stats.surrogate.named(config).into_iter().chain(own).chain(ratios.into_iter().flatten())
}
