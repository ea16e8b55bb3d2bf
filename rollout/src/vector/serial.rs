use pronk_buffer::{BatchError, End, FinalObs, ObsColumn, ObsView};

use super::keeps::Keeps;
use super::last_frame::LastFrame;
use super::slot::{Slot, make_all};
use super::vector_env::{VectorEnv, VectorStep};
use crate::env::{
    ActionRef, CallMonitor, Env, EnvContext, EnvError, EnvFailure, EnvFailureCause, EnvSpec, EpisodeStat, FailurePlace,
    Frame, ObsMut, Restarted, SavedEnvs, VectorContext, obs_kind,
};

/// Environments stepped one after the other on the calling thread. Errors, panics and non-finite values
/// become an [`EnvFailure`]. [`VectorEnv`] has an example.
#[derive(Debug)]
pub struct SerialVectorEnv<E> {
    context: VectorContext,
    spec: EnvSpec,
    slots: Vec<Slot<E>>,
    finished: Vec<EpisodeStat>,
    last_frame: LastFrame,
    monitor: CallMonitor,
}

impl<E: Env> SerialVectorEnv<E> {
    /// Makes `n_envs` environments, one after the other; `monitor` shows which one is being made or called.
    ///
    /// # Errors
    /// A `make` that fails or panics, a spec that is invalid or differs from the first one, or zero
    /// environments.
    pub fn new<M>(context: &VectorContext, n_envs: usize, monitor: &CallMonitor, make: M) -> Result<Self, EnvFailure>
    where
        M: Fn(&EnvContext) -> Result<E, EnvError>,
    {
        let (spec, slots) = make_all(context, n_envs, monitor, make, E::spec)?;
        let (finished, last_frame) = (Vec::new(), LastFrame::default());
        Ok(Self { context: *context, spec, slots, finished, last_frame, monitor: monitor.clone() })
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
        let Self { context, spec, slots, monitor, .. } = self;
        for (index, slot) in slots.iter_mut().enumerate() {
            begin(slot, index, obs.part(index * obs_len, obs_len), monitor)
                .map_err(|(place, cause)| context.failure(Some(spec), index as u32, place, cause))?;
        }
        Ok(())
    }

    fn step(&mut self, actions: ActionRef<'_>, mut out: VectorStep<'_>) -> Result<(), EnvFailure> {
        let Self { context, spec, slots, finished, last_frame, monitor } = self;
        let (obs_len, act_len) = (out.obs.len() / slots.len(), actions.len() / slots.len());
        for (index, slot) in slots.iter_mut().enumerate() {
            let action = actions.part(index * act_len, act_len);
            let mut row = out.obs.part(index * obs_len, obs_len);
            let failed = |(place, cause), steps_made| EnvFailure {
                steps_made,
                ..context.failure(Some(spec), index as u32, place, cause)
            };

            let place = slot.episodes.next_place();
            monitor.at(index as u32, place);
            let stepped = slot.step(action, row.reborrow(), spec.max_episode_steps);
            let step = stepped.map_err(|cause| failed((place, cause), index))?;
            out.rewards[index] = step.reward;
            out.ends[index] = step.end;
            if step.end == End::No {
                continue;
            }

            // This environment has made its step, so a failure from here on costs one step more.
            if step.end == End::Truncated {
                keep(out.final_obs, out.t, index, &row)
                    .map_err(|error| failed((place, EnvFailureCause::Error(EnvError::new(error))), index + 1))?;
            }
            let place = slot.episodes.render_place();
            let drawn = last_frame.ended(index, || {
                monitor.at(index as u32, place);
                slot.render()
            });
            drawn.map_err(|cause| failed((place, cause), index + 1))?;
            finished.push(slot.episodes.stat());
            begin(slot, index, row, monitor).map_err(|at| failed(at, index + 1))?;
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

    fn present_episode(&self, index: usize) -> Option<EpisodeStat> {
        Some(self.slots[index].episodes.stat())
    }

    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>) {
        into.append(&mut self.finished);
    }

    fn render(&mut self, index: usize) -> Result<Option<Frame>, EnvFailure> {
        let Self { context, spec, slots, monitor, .. } = self;
        let place = slots[index].episodes.render_place();
        monitor.at(index as u32, place);
        slots[index].render().map_err(|cause| context.failure(Some(spec), index as u32, place, cause))
    }

    fn keep_last_frames(&mut self, index: usize) {
        self.last_frame.keep(index);
    }

    fn take_last_frame(&mut self) -> Option<Frame> {
        self.last_frame.take()
    }

    fn keep_for_save(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.keeps = Keeps::Undecided);
    }

    fn save(&mut self, obs: ObsView<'_>) -> Result<Option<SavedEnvs>, EnvFailure> {
        let obs_len = obs.len() / self.slots.len();
        let Self { context, spec, slots, finished, monitor, .. } = self;
        let envs = slots.iter_mut().enumerate().map(|(index, slot)| {
            monitor.at(index as u32, slot.episodes.place());
            let saved = slot.save(obs.row(index, obs_len));
            saved.map_err(|cause| context.failure(Some(spec), index as u32, slot.episodes.place(), cause))
        });
        Ok(Some(SavedEnvs { envs: envs.collect::<Result<_, _>>()?, finished: finished.clone() }))
    }

    fn load(&mut self, saved: &SavedEnvs, mut obs: ObsMut<'_>) -> Result<Vec<Restarted>, EnvFailure> {
        let Self { context, spec, slots, finished, monitor, .. } = self;
        saved.check_len(slots.len()).map_err(|cause| context.failure_to_make(cause))?;
        let (obs_len, obs_kind) = (obs.len() / slots.len(), obs_kind(&spec.observation));
        let mut row = ObsColumn::zeros(obs_kind, obs_len);
        let mut restarted = Vec::new();
        for (index, (slot, saved)) in slots.iter_mut().zip(&saved.envs).enumerate() {
            monitor.at(index as u32, FailurePlace::Reset { episode_seed: saved.episodes.seed });
            let Err(why) = slot.go_back(saved, row.view_mut().into(), spec.max_episode_steps) else { continue };
            slot.episodes.load(saved.episodes);
            begin(slot, index, obs.part(index * obs_len, obs_len), monitor)
                .map_err(|(place, cause)| context.failure(Some(spec), index as u32, place, cause))?;
            restarted.push(Restarted { index: context.first_env + index as u32, why });
        }
        finished.clone_from(&saved.finished);
        Ok(restarted)
    }
}

/// Begins the next episode of an environment.
fn begin<E: Env>(
    slot: &mut Slot<E>,
    index: usize,
    obs: ObsMut<'_>,
    monitor: &CallMonitor,
) -> Result<(), (FailurePlace, EnvFailureCause)> {
    let episode_seed = slot.episodes.next_seed();
    let place = FailurePlace::Reset { episode_seed };
    monitor.at(index as u32, place);
    slot.reset(episode_seed, obs).map_err(|cause| (place, cause))
}

fn keep(final_obs: &mut FinalObs, t: usize, index: usize, row: &ObsMut<'_>) -> Result<(), BatchError> {
    match row {
        ObsMut::F32(row) => final_obs.push(t, index, &**row),
        ObsMut::U8(row) => final_obs.push(t, index, &**row),
    }
}

#[cfg(test)]
mod tests;
