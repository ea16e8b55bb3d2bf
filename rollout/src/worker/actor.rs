use pronk_buffer::{ActionView, ActionViewMut, BatchShape, End, ObsView, Versioned};
use pronk_metrics::{ByPolicy, DEFAULT_POLICY, default_policy};
use pronk_policy::{Params, Rng};

use super::config::WorkerConfig;
use super::error::BuildError;
use crate::act::{Acting, Inference, PolicyFault, WeightsOf};
use crate::env::{ActionRef, EnvSpec, seed};

/// The default policy, acting for one agent in each of the worker's environments.
pub(super) struct Actor {
    acting: Acting,
    /// `[B, state_len]`: what the network remembers of every environment's episode.
    state: Vec<f32>,
    n_envs: usize,
}

impl Actor {
    /// Holds the network against the spaces of the environments.
    pub(super) fn new(config: &WorkerConfig, spec: &EnvSpec, inference: Inference) -> Result<Self, BuildError> {
        let spaces = (&spec.observation, &spec.action);
        let acting =
            Acting::new(&spec.name, spaces, config.gaussian, inference, acting_stream(config, config.incarnation))?;
        let n_envs = config.num_envs_per_worker.get();
        Ok(Self { state: vec![0.0; n_envs * acting.state_len()], acting, n_envs })
    }

    /// The sizes of a fragment.
    pub(super) fn batch_shape(&self, steps: usize) -> BatchShape {
        self.acting.batch_shape(steps, self.n_envs)
    }

    /// Begins the random numbers of an incarnation.
    pub(super) fn begin(&mut self, config: &WorkerConfig, incarnation: u32) {
        self.acting.draw_from(acting_stream(config, incarnation));
    }

    /// `[B, dist_len]`: the logits of the last inference; those that [`choose`](Self::choose) ruled out are −∞.
    pub(super) fn logits(&self) -> &[f32] {
        self.acting.logits()
    }

    /// `[B]`: the values of the last inference.
    pub(super) fn values(&self) -> &[f32] {
        self.acting.values()
    }

    /// Computes logits and values of every environment's observation. The version of the weights that it was done with.
    pub(super) fn infer(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        obs: ObsView<'_>,
    ) -> Result<u64, PolicyFault> {
        let version = weights.version;
        let Some(params) = weights.weights.get(DEFAULT_POLICY) else {
            return Err(PolicyFault::NoWeights { policy: default_policy(), version });
        };
        self.acting.infer(WeightsOf { params, version }, obs, self.n_envs, &self.state)
    }

    /// Draws an action for every environment from the last inference, and nothing that a mask rules out.
    pub(super) fn choose(
        &mut self,
        masks: Option<&[bool]>,
        actions: ActionViewMut<'_>,
        logp: &mut [f32],
    ) -> Result<(), PolicyFault> {
        self.acting.choose(masks, actions, logp)
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
        let state_len = self.acting.state_len();
        if state_len == 0 {
            return;
        }
        self.state.copy_from_slice(self.acting.state());
        for (state, end) in self.state.chunks_exact_mut(state_len).zip(ends) {
            if *end != End::No {
                state.fill(0.0);
            }
        }
    }

    /// Actions as the environment takes them: what is stored is what the policy drew.
    pub(super) fn for_env<'a>(&'a mut self, drawn: ActionView<'a>) -> ActionRef<'a> {
        self.acting.for_env(drawn)
    }
}

fn acting_stream(config: &WorkerConfig, incarnation: u32) -> Rng {
    Rng::stream(config.seed, &[seed::ACTING, config.worker.into(), incarnation.into()])
}
