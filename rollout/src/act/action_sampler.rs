//! One inference for many rows, then one sampled action for each.

use pronk_buffer::{ActionView, ActionViewMut, BatchShape, ObsView};
use pronk_policy::{
    ActionScale, Distribution, GaussianConfig, Memory, Outputs, Params, Rng, Space, distribution_with, mask_logits,
};

use super::convert;
use super::error::{PolicyBuildError, PolicyFault};
use super::inference::Inference;
use crate::env::{ActionRef, act_kind, first_non_finite, obs_kind};

/// A network and the distribution that turns its outputs into actions. It keeps only the last outputs.
pub(crate) struct ActionSampler {
    inference: Inference,
    observation: Space,
    action: Space,
    distribution: Box<dyn Distribution>,
    scale: ActionScale,
    /// Actions within the bounds of the action space.
    scaled: Vec<f32>,
    /// `[rows]`, all false: recurrent state is cleared when an episode ends.
    starts: Vec<bool>,
    rng: Rng,
    outputs: Outputs,
}

/// The weights of one inference, and the version that errors name.
#[derive(Clone, Copy)]
pub(crate) struct WeightsOf<'a> {
    pub(crate) params: &'a Params,
    pub(crate) version: u64,
}

impl ActionSampler {
    /// Checks that the network fits the spaces; `whose` names them in the error.
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

    /// Replaces the random stream.
    pub(crate) fn draw_from(&mut self, rng: Rng) {
        self.rng = rng;
    }

    /// The random stream.
    pub(crate) fn rng(&self) -> &Rng {
        &self.rng
    }

    /// Where inference runs.
    pub(crate) fn inference(&self) -> &Inference {
        &self.inference
    }

    /// The action space.
    pub(crate) fn action(&self) -> &Space {
        &self.action
    }

    /// The observation space.
    pub(crate) fn observation(&self) -> &Space {
        &self.observation
    }

    /// The shape of a batch of `steps` steps and `columns` columns.
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

    /// Elements of the recurrent state.
    pub(crate) fn state_len(&self) -> usize {
        self.inference.shape().state_len
    }

    /// `[rows, dist_len]`: the last logits; those masked by [`choose`](Self::choose) are −∞.
    pub(crate) fn logits(&self) -> &[f32] {
        &self.outputs.logits
    }

    /// `[rows]`: the values of the last inference.
    pub(crate) fn values(&self) -> &[f32] {
        &self.outputs.values
    }

    /// `[rows, state_len]`: the recurrent state after the last inference.
    pub(crate) fn state(&self) -> &[f32] {
        &self.outputs.state
    }

    /// Computes logits and values of every row; `state` is `[rows, state_len]`. Returns the weights' version.
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

    /// Samples an action for every row of the last inference, within the masks.
    pub(crate) fn choose(
        &mut self,
        masks: Option<&[bool]>,
        actions: ActionViewMut<'_>,
        logp: &mut [f32],
    ) -> Result<(), PolicyFault> {
        if let Some(masks) = masks {
            // A user's vector environment may have masked all actions of a row, which is an error.
            mask_logits(&self.action, masks, &mut self.outputs.logits)
                .map_err(|source| PolicyFault::Distribution { source })?;
        }
        self.distribution
            .sample(&self.outputs.logits, &mut self.rng, convert::actions(actions), logp)
            .map_err(|source| PolicyFault::Distribution { source })
    }

    /// Actions scaled to the bounds of the environment; batches keep the unscaled ones.
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

/// Checks every output, so that weights that have diverged do not go on acting unnoticed.
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
