//! PPO: several updates from recent data. Formula, source and what differs:
//! `ppo/README.md`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use pronk_buffer::SampleBatch;
use pronk_metrics::Info;
use pronk_policy::OutputGrads;
use serde::{Deserialize, Serialize};

use super::kl::KlCoeff;
use super::off_policy::OffPolicy;
use super::on_batch::{self, Divergence, LossGrads, OnBatch, write_output_grads};
use super::settings;
use super::surrogate::{
    SurrogateConfig, SurrogateGrads, SurrogateInput, SurrogateStats, ValueLoss, standardize, surrogate_loss,
};
use crate::{Advantages, Algorithm, LearnError, LossInputs, Schedule, UpdateRhythm};

/// Settings of [`Ppo`]. Names are RLlib's, where it has them. The defaults are the literature's: RLlib's
/// bound on the error of values, 10, keeps values of more than a few from being learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PpoConfig {
    /// Discount of future rewards.
    pub gamma: f64,
    /// GAE's lambda.
    pub lambda: f64,
    /// Advantages by GAE, or the return minus the value.
    pub use_gae: bool,
    /// Whether to standardise advantages to mean 0 and deviation 1 over each minibatch.
    pub standardize_advantages: bool,
    /// Range around 1 within which the probability ratio is not clipped.
    pub clip_param: f64,
    /// Weight of the value loss, which is the squared error. (IMPALA's and APPO's is half of it.)
    pub vf_loss_coeff: f64,
    /// Bound on the squared error of a value, beyond which it carries no gradient; `None` for no bound.
    pub vf_clip_param: Option<f64>,
    /// Weight of the entropy bonus over env-steps; never negative.
    pub entropy_coeff: Schedule,
    /// Initial weight of the divergence from the behaviour policy; 0 disables it.
    pub kl_coeff: f64,
    /// The divergence that its weight aims at.
    pub kl_target: f64,
    /// Updates between two adaptations of the divergence's weight; `None` is those of one train batch, or 1
    /// outside a trainer.
    pub kl_update_frequency: Option<NonZeroU64>,
}

impl Default for PpoConfig {
    fn default() -> Self {
        Self {
            gamma: 0.99,
            lambda: 0.95,
            use_gae: true,
            standardize_advantages: true,
            clip_param: 0.2,
            vf_loss_coeff: 1.0,
            vf_clip_param: None,
            entropy_coeff: Schedule::Constant(0.0),
            kl_coeff: 0.0,
            kl_target: 0.01,
            kl_update_frequency: None,
        }
    }
}

impl PpoConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// [`LearnError::Config`] with the first invalid setting, its value, and the reason.
    pub fn check(&self) -> Result<(), LearnError> {
        settings::unit("gamma", self.gamma)?;
        settings::unit("lambda", self.lambda)?;
        settings::positive("clip_param", self.clip_param)?;
        settings::weight("vf_loss_coeff", self.vf_loss_coeff)?;
        self.vf_clip_param.map_or(Ok(()), |most| settings::positive("vf_clip_param", most))?;
        settings::entropy_coeff(&self.entropy_coeff)?;
        settings::weight("kl_coeff", self.kl_coeff)?;
        settings::positive("kl_target", self.kl_target)
    }

    fn loss_config(&self, env_steps: u64, kl_coeff: f64) -> SurrogateConfig<f32> {
        SurrogateConfig {
            clip_param: self.clip_param as f32,
            vf_loss_coeff: self.vf_loss_coeff as f32,
            value_loss: ValueLoss::Squared { most: self.vf_clip_param.map_or(f32::INFINITY, |most| most as f32) },
            entropy_coeff: self.entropy_coeff.value(env_steps as f64) as f32,
            kl_coeff: kl_coeff as f32,
        }
    }
}

/// The PPO algorithm. A steady run allocates only the statistics.
///
/// # Example
/// ```
/// use pronk_learner::{Algorithm, Ppo, PpoConfig};
///
/// let ppo = Ppo::new(PpoConfig { clip_param: 0.2, ..PpoConfig::default() })?;
/// assert_eq!(ppo.name(), "ppo");
/// # Ok::<(), pronk_learner::LearnError>(())
/// ```
///
/// # Source
/// Schulman et al. 2017, *Proximal Policy Optimization Algorithms*.
#[derive(Clone, Debug)]
pub struct Ppo {
    config: PpoConfig,
    kl_coeff: KlCoeff,
    /// The mean divergence of the last loss.
    last_kl: f64,
    batch: OnBatch,
    off_policy: OffPolicy,
    grads: SurrogateGrads<f32>,
}

impl Ppo {
    /// Checks the settings.
    ///
    /// # Errors
    /// As [`PpoConfig::check`].
    pub fn new(config: PpoConfig) -> Result<Self, LearnError> {
        config.check()?;
        Ok(Self {
            kl_coeff: KlCoeff::new(config.kl_coeff, config.kl_target),
            last_kl: 0.0,
            config,
            batch: OnBatch::default(),
            off_policy: OffPolicy::default(),
            grads: SurrogateGrads::default(),
        })
    }

    /// The settings.
    pub fn config(&self) -> &PpoConfig {
        &self.config
    }

    fn not_finite(&self, batch: &SampleBatch, inputs: &LossInputs<'_>, stats: &SurrogateStats) -> LearnError {
        on_batch::not_finite(
            "the PPO loss",
            batch.shape().columns,
            &[
                ("log-probability", &self.batch.logp),
                ("behaviour log-probability", batch.behaviour_logp()),
                ("entropy", &self.batch.entropy),
                ("divergence", self.off_policy.kl()),
                ("value", inputs.values),
                ("value when sampled", batch.behaviour_values()),
                ("reward, with the value of a final observation,", &self.batch.ends.rewards),
                ("advantage", &self.batch.gae.advantages),
            ],
            || format!("policy loss {}, value loss {}", stats.policy_loss, stats.vf_loss),
        )
    }
}

impl Algorithm for Ppo {
    fn name(&self) -> &'static str {
        "ppo"
    }

    fn gamma(&self) -> Option<f64> {
        Some(self.config.gamma)
    }

    fn set_rhythm(&mut self, rhythm: UpdateRhythm) {
        self.config.kl_update_frequency.get_or_insert(rhythm.per_train_batch);
    }

    fn loss(
        &mut self,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<Info, LearnError> {
        let rows = batch.shape().steps * batch.shape().columns;
        self.batch.evaluate(self.config.gamma, batch, inputs)?;
        let advantages = if self.config.use_gae { Advantages::Gae } else { Advantages::Return };
        self.batch.estimate(self.config.lambda, advantages, batch)?;
        if self.config.standardize_advantages {
            standardize(&mut self.batch.gae.advantages, |_| 1.0, |_| true);
        }
        // Its own weight of the divergence, below, takes the place of the penalty.
        self.off_policy.measure(rows, batch, inputs)?;

        let config = self.config.loss_config(inputs.env_steps, self.kl_coeff.value());
        let input = SurrogateInput {
            behaviour_logp: batch.behaviour_logp(),
            logp: &self.batch.logp,
            entropy: &self.batch.entropy,
            values: &inputs.values[..rows],
            advantages: &self.batch.gae.advantages,
            value_targets: &self.batch.gae.value_targets,
            ratio_weights: None,
            kl: Some(self.off_policy.kl()),
            mask: None,
        };
        let stats = surrogate_loss(&config, &input, &mut self.grads)?;
        if !stats.total_loss.is_finite() {
            return Err(self.not_finite(batch, inputs, &stats));
        }
        self.last_kl = stats.kl.unwrap_or(0.0);
        let SurrogateGrads { logp, entropy, values, kl } = &self.grads;
        let divergence = (config.kl_coeff > 0.0).then_some(Divergence { from: batch.behaviour_inputs(), weights: kl });
        write_output_grads(batch, inputs, &LossGrads { logp, entropy, values, divergence }, None, grads)?;
        let found = self.off_policy.found(rows, batch.behaviour_logp(), &self.batch.logp)?;
        let own = [("total_loss", stats.total_loss), ("cur_kl_coeff", config.kl_coeff.into())];
        Ok(on_batch::statistics(own.into_iter().chain(stats.named(&config)).chain(found.distances())))
    }

    fn updated(&mut self, _: bool) {
        self.kl_coeff.add(self.last_kl);
        if self.kl_coeff.updates() >= self.config.kl_update_frequency.map_or(1, NonZeroU64::get) {
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
