use pronk_buffer::{ActionView, ActionViewMut, End, ObsView, Versioned};
use pronk_policy::{
    ActionScale, Distribution, Input, Memory, Network, Outputs, Params, Rng, Space, distribution_with, mask_logits,
};

use super::WorkerConfig;
use super::error::{BuildError, PolicyFault};
use crate::convert;
use crate::env::{ActionRef, EnvSpec, first_non_finite};
use crate::seed;

/// The policy as a worker uses it: one inference for all its environments, then one draw for each.
pub(super) struct Actor {
    network: Box<dyn Network>,
    action: Space,
    distribution: Box<dyn Distribution>,
    scale: ActionScale,
    /// Actions in the bounds of the environment.
    scaled: Vec<f32>,
    /// `[B, state_len]`: what the network remembers of every environment's episode.
    state: Vec<f32>,
    /// `[B]`, none: memory is emptied as soon as an episode ends.
    starts: Vec<bool>,
    rng: Rng,
    outputs: Outputs,
    n_envs: usize,
}

impl Actor {
    /// Holds the network against the spaces of the environments.
    pub(super) fn new(config: &WorkerConfig, spec: &EnvSpec, network: Box<dyn Network>) -> Result<Self, BuildError> {
        let distribution = distribution_with(&spec.action, config.gaussian)?;
        let expected = (spec.observation.obs_len(), spec.observation.obs_dtype(), distribution.dist_len());
        let shape = network.shape();
        let got = (shape.obs.obs_len(), shape.obs.obs_dtype(), shape.dist_len);
        if got != expected {
            let network = Box::new(shape.clone());
            return Err(BuildError::NetworkDoesNotFit { env: Box::new(spec.clone()), network });
        }
        let state = vec![0.0; config.num_envs_per_worker.get() * network.shape().state_len];
        Ok(Self {
            network,
            distribution,
            action: spec.action.clone(),
            scale: ActionScale::new(&spec.action),
            scaled: Vec::new(),
            state,
            starts: vec![false; config.num_envs_per_worker.get()],
            rng: acting_stream(config, 0),
            outputs: Outputs::default(),
            n_envs: config.num_envs_per_worker.get(),
        })
    }

    /// The numbers that describe one action distribution.
    pub(super) fn dist_len(&self) -> usize {
        self.distribution.dist_len()
    }

    /// Begins the random numbers of an incarnation.
    pub(super) fn begin(&mut self, config: &WorkerConfig, incarnation: u32) {
        self.rng = acting_stream(config, incarnation);
    }

    /// `[B, dist_len]`: the logits of the last inference; those that [`choose`](Self::choose) ruled out are −∞.
    pub(super) fn logits(&self) -> &[f32] {
        &self.outputs.logits
    }

    /// `[B]`: the values of the last inference.
    pub(super) fn values(&self) -> &[f32] {
        &self.outputs.values
    }

    /// Computes logits and values of every environment's observation.
    pub(super) fn infer(&mut self, weights: &Versioned<Params>, obs: ObsView<'_>) -> Result<(), PolicyFault> {
        let mut input = Input::new(convert::observations(obs), self.n_envs);
        if !self.state.is_empty() {
            input = input.with_memory(Memory { state: &self.state, starts: &self.starts });
        }
        let version = weights.version;
        self.network
            .forward(&weights.weights, &input, &mut self.outputs)
            .map_err(|source| PolicyFault::Network { version, source })?;
        check("logits", &self.outputs.logits, self.n_envs, self.dist_len(), version)?;
        check("values", &self.outputs.values, self.n_envs, 1, version)?;
        match self.state_len() {
            0 => Ok(()),
            state_len => check("state", &self.outputs.state, self.n_envs, state_len, version),
        }
    }

    /// Draws an action for every environment from the last inference, and nothing that a mask rules out.
    pub(super) fn choose(
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
}

impl Actor {
    /// How many numbers the network remembers of an episode.
    pub(super) fn state_len(&self) -> usize {
        self.state.len() / self.n_envs
    }

    /// `[B, state_len]`: what the network remembers of every environment's episode.
    pub(super) fn state(&self) -> &[f32] {
        &self.state
    }

    /// Empties the memory: all environments begin anew.
    pub(super) fn forget(&mut self) {
        self.state.fill(0.0);
    }

    /// Keeps what the last inference remembers, save of episodes that ended.
    pub(super) fn remember(&mut self, ends: &[End]) {
        let state_len = self.state_len();
        if state_len == 0 {
            return;
        }
        self.state.copy_from_slice(&self.outputs.state);
        for (state, end) in self.state.chunks_exact_mut(state_len).zip(ends) {
            if *end != End::No {
                state.fill(0.0);
            }
        }
    }

    /// Actions as the environment takes them: what is stored is what the policy drew.
    pub(super) fn for_env<'a>(&'a mut self, drawn: ActionView<'a>) -> ActionRef<'a> {
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

fn acting_stream(config: &WorkerConfig, incarnation: u32) -> Rng {
    Rng::stream(config.seed, &[seed::ACTING, config.worker.into(), incarnation.into()])
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
