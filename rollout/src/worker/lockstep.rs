//! Environments that step together on the worker's thread; fragments are written in place, row by row.

mod made;
mod position;
mod start;

use std::sync::Arc;

use pronk_buffer::{BatchShape, End, MultiAgentBatch, ObsColumn, SampleBatch, Versioned};
use pronk_metrics::{ByPolicy, DEFAULT_POLICY, StateClock, Steps, default_policy};
use pronk_policy::Params;

use super::account::Account;
use super::any_env_spec::AnyEnvSpec;
use super::config::{WorkerConfig, WorkerState};
use super::error::{BuildError, SampleError};
use super::normalization::Normalization;
use super::rollout_worker::{BetweenSteps, MakeFragments};
use super::seat_state::SavedMaker;
use crate::act::{ActionSampler, PolicyFault, WeightsOf};
use crate::env::{EnvSpec, Restarted};
use crate::pool::EnvFactory;
use crate::vector::{VectorEnv, VectorStep};

/// Steps environments together, `T` times for each fragment.
struct Lockstep {
    config: WorkerConfig,
    factory: Arc<dyn EnvFactory>,
    spec: EnvSpec,
    shape: BatchShape,
    acting: ActionSampler,
    /// `[B, state_len]`: recurrent state.
    state: Vec<f32>,
    /// `None` after a failure, until the next fragment rebuilds them.
    envs: Option<Box<dyn VectorEnv>>,
    /// `[B, obs_len]`: the last row of the last fragment, and the first of the next.
    obs: ObsColumn,
    /// `[B, dist_len]`: action masks; `None` without masks.
    masks: Option<Vec<bool>>,
    /// `None` if nothing is normalised.
    normalization: Option<Normalization>,
    /// Whether `obs` is valid; the environments must be reset otherwise.
    under_way: bool,
}

impl Lockstep {
    fn make(
        &mut self,
        account: &mut Account,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
        between: &mut BetweenSteps<'_>,
    ) -> Result<SampleBatch, SampleError> {
        let Self { config, factory, spec, shape, acting, state, envs, obs, masks, normalization, under_way } = self;
        let envs = match envs {
            Some(envs) => envs,
            None => {
                clock.enter(WorkerState::Restarting);
                envs.insert(made::rebuild(config, factory.as_ref(), spec, account)?)
            }
        };
        let BatchShape { columns, state_len, steps, .. } = *shape;
        let version = weights.version;
        let params = weights.weights.get(DEFAULT_POLICY);
        let params = params.ok_or_else(|| PolicyFault::NoWeights { policy: default_policy(), version })?;
        let moments = &weights.moments;
        let weights = WeightsOf { params, version };

        acting.draw_from(account.acting_stream(config.seed, 0));
        let mut batch = account.links.pool.take(*shape, account.tag(version));
        let mismatch = |source| PolicyFault::Moments { version, source };
        if let Some(normalization) = normalization {
            normalization.scale_by(moments);
        }
        // After an error from here on, `obs` would be older than the environments: they must be reset.
        if std::mem::take(under_way) {
            batch.obs_row_mut(0).copy_from(obs.view())?;
            if let Some(normalization) = normalization {
                normalization.rescale(batch.obs_row_mut(0)).map_err(mismatch)?;
            }
        } else {
            clock.enter(WorkerState::Stepping);
            let _inside = account.enter();
            envs.reset_all(batch.obs_row_mut(0).into())?;
            if let Some(normalization) = normalization {
                normalization.begin(batch.obs_row_mut(0)).map_err(mismatch)?;
            }
            state.fill(0.0);
        }
        batch.state_in_mut().copy_from_slice(state);

        for t in 0..steps {
            if account.is_ending() {
                return Err(SampleError::Closed);
            }
            between(clock);
            if let Some(masks) = masks {
                clock.enter(WorkerState::Stepping);
                let _inside = account.enter();
                envs.action_masks(masks)?;
            }
            clock.enter(WorkerState::Inferring);
            let mut step = batch.step_mut(t);
            let version = acting.infer(weights, step.obs, columns, state)?;
            acting.choose(masks.as_deref(), step.actions.reborrow(), step.behaviour_logp)?;
            step.behaviour_inputs.copy_from_slice(acting.logits());
            step.behaviour_values.copy_from_slice(acting.values());
            step.versions.fill(version);

            clock.enter(WorkerState::Stepping);
            account.links.monitor.keep_observations(step.obs, columns);
            let inside = account.enter();
            let out = VectorStep {
                t,
                obs: step.next_obs.into(),
                rewards: step.rewards,
                ends: step.ends,
                final_obs: step.final_obs,
            };
            envs.step(acting.for_env(step.actions.as_view()), out)?;
            drop(inside);
            if let Some(normalization) = normalization {
                let step = batch.step_mut(t);
                normalization.observe(step.next_obs).map_err(mismatch)?;
                normalization.reward(step.rewards, step.ends);
            }
            if state_len > 0 {
                state.copy_from_slice(acting.state());
                // Recurrent state does not cross the end of an episode.
                let ends = &batch.ends()[t * columns..(t + 1) * columns];
                let ended = state.chunks_exact_mut(state_len).zip(ends).filter(|(_, end)| **end != End::No);
                ended.for_each(|(state, _)| state.fill(0.0));
            }
            account.add(Steps { env: columns as u64, agent: columns as u64 });
        }

        // The last row needs a value to bootstrap from; it is also the first row of the next fragment.
        clock.enter(WorkerState::Inferring);
        // The mutable row is a plain slice; `obs_row` may be of rows that share elements.
        let last = batch.obs_row_mut(steps);
        acting.infer(weights, last.as_view(), columns, state)?;
        obs.view_mut().copy_from(last.as_view())?;
        batch.behaviour_values_mut()[steps * columns..].copy_from_slice(acting.values());
        if let Some(normalization) = normalization {
            normalization.scale(batch.final_obs_mut().rows_mut()).map_err(mismatch)?;
        }
        batch.check_ends()?;
        *under_way = true;
        Ok(batch)
    }
}

impl MakeFragments for Lockstep {
    fn env_spec(&self) -> AnyEnvSpec {
        AnyEnvSpec::Single(self.spec.clone())
    }

    fn fill(
        &mut self,
        account: &mut Account,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
        between: &mut BetweenSteps<'_>,
    ) -> Result<MultiAgentBatch, SampleError> {
        let made = self.make(account, weights, clock, between);
        // Episodes that ended in a failed fragment count too.
        if let Some(envs) = &mut self.envs {
            envs.drain_episodes(&mut account.collected.episodes);
        }
        let batch = MultiAgentBatch::single(made?);
        Ok(match &mut self.normalization {
            Some(normalization) => batch.with_moments(normalization.take()),
            None => batch,
        })
    }

    fn forget(&mut self) {
        self.under_way = false;
        if let Some(normalization) = &mut self.normalization {
            normalization.discard();
        }
    }

    fn drop_envs(&mut self, account: &Account) {
        account.drop_envs(self.envs.take());
    }

    fn save(&mut self, account: &Account) -> Result<SavedMaker, String> {
        self.save_position(account).map(|saved| SavedMaker::Lockstep(Box::new(saved)))
    }

    fn load(&mut self, account: &mut Account, saved: &SavedMaker) -> Result<Vec<Restarted>, BuildError> {
        let SavedMaker::Lockstep(saved) = saved else { return Err(BuildError::other_maker(saved)) };
        self.load_position(account, saved)
    }
}

#[cfg(test)]
mod tests;
