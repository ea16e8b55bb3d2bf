//! One update: outputs of all rows, loss, gradient, clipping, a step of the optimiser.

use pronk_buffer::SampleBatch;
use pronk_metrics::{Info, LearnerInfo};
use pronk_policy::{Input, LoadedObs};

use super::ActorCriticLearner;
use super::obs_ref::obs_ref;
use crate::{ClippedNorm, LearnError, Learned, LossInputs, ShapeError, StepOptions, clip_global_norm};

impl ActorCriticLearner {
    /// Makes a pass over the samples of its policy: one update, or one per minibatch.
    ///
    /// `loaded` are the observations of `part` on the network's device, if a loader has copied them.
    ///
    /// # Errors
    /// Samples that do not fit the learner, or a non-finite update.
    pub fn pass(&mut self, part: &SampleBatch, loaded: Option<&LoadedObs>) -> Result<Learned, LearnError> {
        let before = self.updates;
        let info = match self.minibatches.begin(part, self.updates) {
            None => self.update(part, loaded)?,
            Some(columns) => {
                let mut infos = Vec::new();
                for first in (0..part.shape().columns).step_by(columns) {
                    let own = self.minibatches.columns(first, columns);
                    let minibatch = self.minibatches.take(part, own)?;
                    let loaded = loaded.map(|loaded| loaded.columns(own, part.shape().columns)).transpose()?.flatten();
                    let updated = self.update(&minibatch, loaded.as_ref());
                    infos
                        .push((updated.map_err(|error| error.after(self.updates - before))?, minibatch.steps() as f64));
                }
                // All come from one algorithm, so they have the same leaves.
                LearnerInfo::merge_all(infos).map_err(|error| LearnError::Config { reason: error.to_string() })?
            }
        };
        Ok(Learned { info, updates: self.updates - before })
    }

    /// One update from `part`.
    fn update(&mut self, part: &SampleBatch, loaded: Option<&LoadedObs>) -> Result<LearnerInfo, LearnError> {
        let (columns, state_len) = (part.shape().columns, self.network.shape().state_len);
        ShapeError::check_shape("state_in", part.state_in().len(), columns * state_len, || {
            format!("[columns, state_len] = [{columns}, {state_len}]")
        })?;
        let rest = self.burn_in.begin(&mut *self.network, &self.params, part)?;
        let (part, loaded) = rest.as_ref().map_or((part, loaded), |rest| (rest, None));
        let stats = self.compute_gradient(part, loaded)?;
        let norm = self.gradient_norm()?;
        let lr = self.config.lr.value(self.global_step as f64);
        let weight_norm = self.update_weights(lr, norm.grad_scale)?;
        let info = self.info(stats, part, lr, norm, weight_norm);
        Ok(LearnerInfo::from_iter([(self.config.policy.clone(), info)]))
    }

    /// Fills `grad` and returns the algorithm's statistics.
    fn compute_gradient(&mut self, part: &SampleBatch, loaded: Option<&LoadedObs>) -> Result<Info, LearnError> {
        let final_obs = part.final_obs();
        let memory = self.burn_in.state();
        if final_obs.is_empty() {
            self.final_outputs.values.clear();
        } else if !memory.is_empty() {
            let values = &mut self.final_outputs.values;
            self.sequence_input.final_values(&mut *self.network, &self.params, part, memory, values)?;
        } else {
            let input = Input::new(obs_ref(final_obs.rows().view()), final_obs.len());
            self.network.forward(&self.params, &input, &mut self.final_outputs)?;
        }
        let reads_shared_rows = self.network.reads_shared_rows();
        let input = Input { loaded, ..self.sequence_input.input(part, memory, reads_shared_rows) };
        let target_logits = match &mut self.target {
            None => &[],
            Some(target) => {
                target.look(&mut *self.network, &input)?;
                mask_as_sampled(part.behaviour_inputs(), target.logits());
                &*target.logits()
            }
        };
        self.network.forward_for_learning(&self.params, &input, &mut self.outputs)?;
        mask_as_sampled(part.behaviour_inputs(), &mut self.outputs.logits);
        let inputs = LossInputs {
            distribution: &*self.distribution,
            logits: &self.outputs.logits,
            values: &self.outputs.values,
            target_logits,
            final_values: &self.final_outputs.values,
            env_steps: self.global_step,
        };
        let stats = self.algorithm.loss(part, &inputs, &mut self.output_grads)?;
        if let Some(loss) = stats.number("total_loss").filter(|loss| !loss.is_finite()) {
            return Err(LearnError::NonFinite {
                what: "the total loss",
                at: format!("{}: {loss}", self.algorithm.name()),
            });
        }
        self.network.backward(&self.params, &self.output_grads, &mut self.grad)?;
        Ok(stats)
    }

    /// The gradient's norm and the scale that clips it; an error if it is not finite.
    fn gradient_norm(&self) -> Result<ClippedNorm, LearnError> {
        let norm = clip_global_norm(&self.grad, self.config.grad_clip);
        // Optimisers keep squares in `f32`; an infinite one would freeze its weight forever.
        let squares_fit = norm.clipped_norm.powi(2) <= f64::from(f32::MAX);
        if norm.true_norm.is_finite() && squares_fit {
            return Ok(norm);
        }
        let culprit = self
            .params
            .layout()
            .entries()
            .iter()
            .find(|entry| self.grad[entry.range()].iter().any(|value| !value.is_finite()));
        let at = match culprit {
            Some(entry) => format!("in `{}`", entry.name),
            None => "its square overflows".to_owned(),
        };
        Err(LearnError::NonFinite { what: "the gradient's norm", at })
    }

    /// Steps the optimiser and returns the norm of the new weights; an error if they are not finite.
    fn update_weights(&mut self, lr: f64, grad_scale: f64) -> Result<f64, LearnError> {
        let options = StepOptions { lr: lr as f32, grad_scale: grad_scale as f32 };
        let norm = self.optimizer.step(self.params.values_mut(), &self.grad, options)?;
        self.updates += 1;
        let target_updated = self.target.as_mut().is_some_and(|target| target.updated(&self.params));
        self.algorithm.updated(target_updated);
        if !norm.is_finite() {
            self.params.check_finite().map_err(|source| LearnError::Diverged { update: self.updates, lr, source })?;
        }
        Ok(norm)
    }
}

/// Masks the actions that were masked when the batch was sampled.
fn mask_as_sampled(behaviour_inputs: &[f32], logits: &mut [f32]) {
    for (logit, &then) in logits.iter_mut().zip(behaviour_inputs) {
        *logit = if then == f32::NEG_INFINITY { then } else { *logit };
    }
}
