use pronk_buffer::{ActionColumn, BatchError, ShutdownGuard};

use super::env_pool::EnvPool;
use super::step::{GroupStep, Order};
use crate::env::{ActionRef, EnvError, EnvFailure, EnvFailureCause, EnvSpec, EpisodeStat, ObsMut, VectorContext};
use crate::vector::{VectorEnv, VectorStep};

/// A pool as a vector environment: every step waits for all groups.
pub(crate) struct PoolVectorEnv {
    context: VectorContext,
    groups: Box<dyn EnvPool>,
    /// The last answer of each group; `None` while it steps and after a failure.
    steps: Vec<Option<Box<GroupStep>>>,
    finished: Vec<EpisodeStat>,
    /// Ends the pool when dropped.
    _guard: ShutdownGuard,
}

impl PoolVectorEnv {
    pub(crate) fn new(context: VectorContext, groups: Box<dyn EnvPool>, shutdown: ShutdownGuard) -> Self {
        let step = || Some(Box::new(GroupStep::new(groups.spec(), groups.group_size())));
        let steps = (0..groups.n_groups()).map(|_| step()).collect();
        Self { context, groups, steps, finished: Vec::new(), _guard: shutdown }
    }

    /// Sends one order to all groups and waits for all answers.
    fn all(
        &mut self,
        order: Order,
        mut prepare: impl FnMut(usize, &mut ActionColumn) -> Result<(), BatchError>,
    ) -> Result<(), EnvFailure> {
        let lost = || {
            self.context.failure_to_make(EnvFailureCause::Error(EnvError::new("it failed before and was not rebuilt")))
        };
        for (group, slot) in self.steps.iter_mut().enumerate() {
            let mut step = slot.take().ok_or_else(lost)?;
            step.order = order;
            prepare(group, &mut step.actions)
                .map_err(|error| self.context.failure_to_make(EnvFailureCause::Error(EnvError::new(error))))?;
            self.groups.send(group, step);
        }
        let size = self.groups.group_size();
        for answered in 0..self.steps.len() {
            // Without a timeout, and with the guard held here, there is always an answer.
            let Ok(Some(answer)) = self.groups.recv(None) else { return Err(lost()) };
            let mut step = answer.step;
            self.finished.append(&mut step.episodes);
            if let Err(failed) = answer.outcome {
                let EnvFailure { steps_made, .. } = failed.failure;
                let others = if order == Order::Step { answered * size } else { 0 };
                return Err(EnvFailure { steps_made: steps_made + others, ..failed.failure });
            }
            self.steps[answer.group] = Some(step);
        }
        Ok(())
    }

    /// Every group's last answer, with the index of its first environment.
    fn answers(&self) -> impl Iterator<Item = (usize, &GroupStep)> {
        let size = self.groups.group_size();
        self.steps.iter().enumerate().filter_map(move |(group, step)| Some((group * size, &**step.as_ref()?)))
    }

    fn show(&self, mut obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        let obs_len = self.spec().observation.obs_len();
        for (first, step) in self.answers() {
            let rows = obs.part(first * obs_len, self.groups.group_size() * obs_len);
            rows.copy_from(step.obs.view()).map_err(|error| self.failure(error))?;
        }
        Ok(())
    }

    #[cold]
    fn failure(&self, error: BatchError) -> EnvFailure {
        self.context.failure_to_make(EnvFailureCause::Error(EnvError::new(error)))
    }
}

impl VectorEnv for PoolVectorEnv {
    fn spec(&self) -> &EnvSpec {
        self.groups.spec()
    }

    fn n_envs(&self) -> usize {
        self.groups.n_groups() * self.groups.group_size()
    }

    fn reset_all(&mut self, obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        self.all(Order::Reset, |_, _| Ok(()))?;
        self.show(obs)
    }

    fn step(&mut self, actions: ActionRef<'_>, out: VectorStep<'_>) -> Result<(), EnvFailure> {
        let of_group = self.groups.group_size() * self.spec().action.act_len();
        self.all(Order::Step, |group, own| own.view_mut().copy_from(actions.part(group * of_group, of_group).view()))?;
        for (first, step) in self.answers() {
            let envs = first..first + self.groups.group_size();
            out.rewards[envs.clone()].copy_from_slice(&step.rewards);
            out.ends[envs].copy_from_slice(&step.ends);
            for (_, index, row) in step.final_obs.iter() {
                let pushed = out.final_obs.push(out.t, first + index as usize, row);
                pushed.map_err(|error| self.failure(error))?;
            }
        }
        self.show(out.obs)
    }

    fn action_masks(&mut self, masks: &mut [bool]) -> Result<(), EnvFailure> {
        masks.fill(true);
        let dist_len = self.spec().action.dist_len();
        for (first, step) in self.answers() {
            masks[first * dist_len..][..step.masks.len()].copy_from_slice(&step.masks);
        }
        Ok(())
    }

    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>) {
        into.append(&mut self.finished);
    }
}

impl Drop for PoolVectorEnv {
    fn drop(&mut self) {
        self.groups.close();
    }
}
