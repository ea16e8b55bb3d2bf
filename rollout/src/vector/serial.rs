use pronk_buffer::{BatchError, End, FinalObs};
use pronk_metrics::catch;
use pronk_policy::Space;

use super::vector_env::{VectorEnv, VectorStep};
use crate::env::{
    ActionRef, CallMonitor, Env, EnvContext, EnvError, EnvFailure, EnvFailureCause, EnvSpec, EpisodeStat, Episodes,
    FailurePlace, ObsMut, VectorContext, mask,
};

/// Environments stepped one after the other on the calling thread.
///
/// Errors, panics and values that are not finite come back as [`EnvFailure`] with everything needed to see them again.
/// The example is at [`VectorEnv`].
#[derive(Debug)]
pub struct SerialVectorEnv<E> {
    context: VectorContext,
    spec: EnvSpec,
    slots: Vec<Slot<E>>,
    finished: Vec<EpisodeStat>,
    monitor: CallMonitor,
}

/// One environment and its episodes.
#[derive(Debug)]
struct Slot<E> {
    env: E,
    episodes: Episodes,
}

impl<E: Env> SerialVectorEnv<E> {
    /// Makes `n_envs` environments, one after the other; `monitor` is told which is being made, and which is called later.
    ///
    /// # Errors
    /// The environment that could not be made: its maker failed or panicked, its spec is not that of the first one, or
    /// the spec cannot work. No environment at all is an error too.
    pub fn new<M>(context: &VectorContext, n_envs: usize, monitor: &CallMonitor, make: M) -> Result<Self, EnvFailure>
    where
        M: Fn(&EnvContext) -> Result<E, EnvError>,
    {
        let mut slots = Vec::with_capacity(n_envs);
        let mut shared: Option<EnvSpec> = None;
        for index in 0..n_envs as u32 {
            let env_context = context.env(index);
            monitor.at(index, FailurePlace::Make);
            let (env, spec) = make_one(&make, &env_context, shared.as_ref())
                .map_err(|cause| context.failure(shared.as_ref(), index, FailurePlace::Make, cause))?;
            slots.push(Slot { env, episodes: Episodes::new(env_context) });
            shared.get_or_insert(spec);
        }
        match shared {
            Some(spec) => Ok(Self { context: *context, spec, slots, finished: Vec::new(), monitor: monitor.clone() }),
            None => {
                let cause = EnvFailureCause::Error(EnvError::new("a vector needs at least one environment, got 0"));
                Err(context.failure_to_make(cause))
            }
        }
    }
}

impl<E: Env> VectorEnv for SerialVectorEnv<E> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn n_envs(&self) -> usize {
        self.slots.len()
    }

    fn reset_all(&mut self, mut obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        let obs_len = obs.len() / self.slots.len();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.reset(obs.part(index * obs_len, obs_len), |place| self.monitor.at(index as u32, place))
                .map_err(|(place, cause)| self.context.failure(Some(&self.spec), index as u32, place, cause))?;
        }
        Ok(())
    }

    fn step(&mut self, actions: ActionRef<'_>, mut out: VectorStep<'_>) -> Result<(), EnvFailure> {
        let Self { context, spec, slots, finished, monitor } = self;
        let obs_len = out.obs.len() / slots.len();
        let act_len = actions.len() / slots.len();
        for (index, slot) in slots.iter_mut().enumerate() {
            let action = actions.part(index * act_len, act_len);
            let mut row = out.obs.part(index * obs_len, obs_len);
            let failed = |(place, cause), steps_made| EnvFailure {
                steps_made,
                ..context.failure(Some(spec), index as u32, place, cause)
            };

            monitor.at(index as u32, slot.episodes.next_place());
            let (reward, end) = slot.step(action, row.part(0, obs_len), spec).map_err(|at| failed(at, index))?;
            out.rewards[index] = reward;
            out.ends[index] = end;
            if end == End::No {
                continue;
            }

            if end == End::Truncated {
                keep(out.final_obs, out.t, index, &row).map_err(|error| {
                    failed((slot.episodes.place(), EnvFailureCause::Error(EnvError::new(error))), index + 1)
                })?;
            }
            finished.push(slot.episodes.stat());
            let begins = |place| monitor.at(index as u32, place);
            slot.reset(row, begins).map_err(|at| failed(at, index + 1))?;
        }
        Ok(())
    }

    fn action_masks(&mut self, masks: &mut [bool]) -> Result<(), EnvFailure> {
        masks.fill(true);
        let Self { context, spec, slots, monitor, .. } = self;
        if !spec.action_mask {
            return Ok(());
        }
        for (index, (slot, mask)) in slots.iter().zip(masks.chunks_exact_mut(spec.action.dist_len())).enumerate() {
            let place = slot.episodes.mask_place();
            monitor.at(index as u32, place);
            slot.mask(mask, &spec.action).map_err(|cause| context.failure(Some(spec), index as u32, place, cause))?;
        }
        Ok(())
    }

    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>) {
        into.append(&mut self.finished);
    }
}

impl<E: Env> Slot<E> {
    /// Begins the next episode; `begins` is told which.
    fn reset(
        &mut self,
        mut obs: ObsMut<'_>,
        begins: impl FnOnce(FailurePlace),
    ) -> Result<(), (FailurePlace, EnvFailureCause)> {
        let seed = self.episodes.begin();
        let place = self.episodes.reset_place();
        begins(place);
        let len = obs.len();
        let cause = match catch(|| self.env.reset(seed, obs.part(0, len))) {
            Ok(Ok(())) => match obs.check_finite() {
                Ok(()) => return Ok(()),
                Err(cause) => cause,
            },
            Ok(Err(error)) => EnvFailureCause::Error(error),
            Err(text) => EnvFailureCause::Panic(text),
        };
        Err((place, cause))
    }

    /// Takes a step: its reward, and whether it ends the episode.
    fn step(
        &mut self,
        action: ActionRef<'_>,
        mut obs: ObsMut<'_>,
        spec: &EnvSpec,
    ) -> Result<(f32, End), (FailurePlace, EnvFailureCause)> {
        let place = self.episodes.next_place();
        let len = obs.len();
        let cause = match catch(|| self.env.step(action, obs.part(0, len))) {
            Ok(Ok(step)) => match self.episodes.count(step, &obs, spec.max_episode_steps) {
                Ok(end) => return Ok((step.reward, end)),
                Err(cause) => cause,
            },
            Ok(Err(error)) => EnvFailureCause::Error(error),
            Err(text) => EnvFailureCause::Panic(text),
        };
        Err((place, cause))
    }

    fn mask(&self, mask: &mut [bool], action: &Space) -> Result<(), EnvFailureCause> {
        match catch(|| self.env.action_mask(mask)) {
            Ok(Ok(())) => match mask::first_fully_masked(mask, action) {
                None => Ok(()),
                Some(choice) => Err(EnvFailureCause::NothingPossible { choice }),
            },
            Ok(Err(error)) => Err(EnvFailureCause::Error(error)),
            Err(text) => Err(EnvFailureCause::Panic(text)),
        }
    }
}

fn keep(final_obs: &mut FinalObs, t: usize, index: usize, row: &ObsMut<'_>) -> Result<(), BatchError> {
    match row {
        ObsMut::F32(row) => final_obs.push(t, index, &**row),
        ObsMut::U8(row) => final_obs.push(t, index, &**row),
    }
}

/// Makes one environment and holds its spec against that of the ones before.
fn make_one<E: Env>(
    make: impl Fn(&EnvContext) -> Result<E, EnvError>,
    context: &EnvContext,
    shared: Option<&EnvSpec>,
) -> Result<(E, EnvSpec), EnvFailureCause> {
    let made = catch(|| {
        let env = make(context)?;
        let spec = env.spec();
        Ok((env, spec))
    });
    let (env, spec) = made.map_err(EnvFailureCause::Panic)?.map_err(EnvFailureCause::Error)?;
    spec.check().map_err(EnvFailureCause::Error)?;
    match shared {
        Some(shared) if *shared != spec => {
            let text =
                format!("the environments of one worker must have one spec: the first is {shared}, this one {spec}");
            Err(EnvFailureCause::Error(EnvError::new(text)))
        }
        _ => Ok((env, spec)),
    }
}

#[cfg(test)]
mod tests;
