//! A policy as workers use it: one inference for many rows, then one action sampled for each.

use pronk_buffer::{ActionView, ActionViewMut, BatchShape, ObsView};
use pronk_policy::{
    ActionScale, Distribution, GaussianConfig, Memory, Outputs, Params, Rng, Space, distribution_with, mask_logits,
};

use super::convert;
use super::error::{PolicyBuildError, PolicyFault};
use super::inference::Inference;
use crate::env::{ActionRef, act_kind, first_non_finite, obs_kind};

/// A network with what turns its outputs into actions. It keeps nothing of a row but the last outputs.
pub(crate) struct ActionSampler {
    inference: Inference,
    observation: Space,
    action: Space,
    distribution: Box<dyn Distribution>,
    scale: ActionScale,
    /// Actions in the bounds of the environment.
    scaled: Vec<f32>,
    /// `[rows]`, none: memory is emptied as soon as an episode ends.
    starts: Vec<bool>,
    rng: Rng,
    outputs: Outputs,
}

/// The weights of one inference, and what errors call them.
#[derive(Clone, Copy)]
pub(crate) struct WeightsOf<'a> {
    pub(crate) params: &'a Params,
    pub(crate) version: u64,
}

impl ActionSampler {
    /// Holds the network against the spaces that it is to act in; `whose` names them in the error.
    pub(crate) fn new(
        whose: &str,
        (observation, action): (&Space, &Space),
        gaussian: GaussianConfig,
        inference: Inference,
        rng: Rng,
    ) -> Result<Self, PolicyBuildError> {
        let distribution = distribution_with(action, gaussian)?;
        let expected = (observation.obs_len(), observation.obs_dtype(), distribution.dist_len());
        let shape = inference.shape();
        let got = (shape.obs.obs_len(), shape.obs.obs_dtype(), shape.dist_len);
        if got != expected {
            return Err(PolicyBuildError::NetworkDoesNotFit {
                whose: whose.to_owned(),
                observation: Box::new(observation.clone()),
                action: Box::new(action.clone()),
                network: Box::new(shape.clone()),
            });
        }
        Ok(Self {
            inference,
            distribution,
            observation: observation.clone(),
            action: action.clone(),
            scale: ActionScale::new(action),
            scaled: Vec::new(),
            starts: Vec::new(),
            rng,
            outputs: Outputs::default(),
        })
    }

    /// Goes on with other random numbers.
    pub(crate) fn draw_from(&mut self, rng: Rng) {
        self.rng = rng;
    }

    /// What computes.
    pub(crate) fn inference(&self) -> &Inference {
        &self.inference
    }

    /// What can be done.
    pub(crate) fn action(&self) -> &Space {
        &self.action
    }

    /// What can be seen.
    pub(crate) fn observation(&self) -> &Space {
        &self.observation
    }

    /// The sizes of `steps` steps of `columns` columns of this policy.
    pub(crate) fn batch_shape(&self, steps: usize, columns: usize) -> BatchShape {
        BatchShape {
            steps,
            columns,
            obs_len: self.observation.obs_len(),
            obs_kind: obs_kind(&self.observation),
            act_len: self.action.act_len(),
            act_kind: act_kind(&self.action),
            dist_len: self.distribution.dist_len(),
            state_len: self.state_len(),
        }
    }

    /// How many numbers the network remembers of an episode.
    pub(crate) fn state_len(&self) -> usize {
        self.inference.shape().state_len
    }

    /// `[rows, dist_len]`: the logits of the last inference; those that [`choose`](Self::choose) ruled out are −∞.
    pub(crate) fn logits(&self) -> &[f32] {
        &self.outputs.logits
    }

    /// `[rows]`: the values of the last inference.
    pub(crate) fn values(&self) -> &[f32] {
        &self.outputs.values
    }

    /// `[rows, state_len]`: what the last inference remembers.
    pub(crate) fn state(&self) -> &[f32] {
        &self.outputs.state
    }

    /// Computes logits and values of every row, with what is remembered of its episode: `state` is `[rows, state_len]`. The version
    /// of the weights that it was done with.
    pub(crate) fn infer(
        &mut self,
        weights: WeightsOf<'_>,
        obs: ObsView<'_>,
        rows: usize,
        state: &[f32],
    ) -> Result<u64, PolicyFault> {
        self.starts.resize(rows, false);
        let memory = (self.state_len() > 0).then_some(Memory { state, starts: &self.starts });
        let weights = (weights.params, weights.version);
        let version = self.inference.forward(weights, (obs, rows), memory, &mut self.outputs)?;
        check("logits", &self.outputs.logits, rows, self.distribution.dist_len(), version)?;
        check("values", &self.outputs.values, rows, 1, version)?;
        match self.state_len() {
            0 => Ok(version),
            state_len => check("state", &self.outputs.state, rows, state_len, version).map(|()| version),
        }
    }

    /// Draws an action for every row of the last inference, and nothing that a mask rules out.
    pub(crate) fn choose(
        &mut self,
        masks: Option<&[bool]>,
        actions: ActionViewMut<'_>,
        logp: &mut [f32],
    ) -> Result<(), PolicyFault> {
        if let Some(masks) = masks {
            // A vector environment of another kind may have left a row without a way.
            mask_logits(&self.action, masks, &mut self.outputs.logits)
                .map_err(|source| PolicyFault::Distribution { source })?;
        }
        self.distribution
            .sample(&self.outputs.logits, &mut self.rng, convert::actions(actions), logp)
            .map_err(|source| PolicyFault::Distribution { source })
    }

    /// Actions as the environment takes them: what is stored is what the policy drew.
    pub(crate) fn for_env<'a>(&'a mut self, drawn: ActionView<'a>) -> ActionRef<'a> {
        match drawn {
            ActionView::F32(numbers) if !self.scale.is_identity() => {
                self.scaled.clear();
                self.scaled.extend_from_slice(numbers);
                self.scale.to_env(&mut self.scaled);
                ActionRef::Continuous(&self.scaled)
            }
            drawn => drawn.into(),
        }
    }
}

/// Weights that went bad must not go on acting unseen: every output is looked at.
fn check(what: &'static str, values: &[f32], rows: usize, row_len: usize, version: u64) -> Result<(), PolicyFault> {
    let expected = rows * row_len;
    if values.len() != expected {
        return Err(PolicyFault::OutputLength { what, expected, got: values.len() });
    }
    match first_non_finite(values) {
        None => Ok(()),
        Some((element, value)) => Err(PolicyFault::NonFinite { what, row: element / row_len, value, version }),
    }
}
