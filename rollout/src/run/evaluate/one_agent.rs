use pronk_buffer::{ActionColumn, End, FinalObs, ObsColumn};
use pronk_policy::{ActionSelection, Policy, PolicyError};

use super::evaluation::EvaluateError;
use super::plan::EvaluationPlan;
use super::spectator::Spectator;
use super::stage::{Played, Stage};
use crate::act::convert;
use crate::env::{CallMonitor, EnvFailure, EnvSpec, EpisodeStat, VectorContext, act_kind, obs_kind};
use crate::pool::EnvFactory;
use crate::vector::{VectorEnv, VectorStep};

/// Environments with one agent each, which the policy plays together.
pub(super) struct OneAgent<'a, 'b> {
    policy: &'a mut Policy,
    spectator: Spectator<'a, 'b>,
    envs: Box<dyn VectorEnv>,
    spec: EnvSpec,
    n_envs: usize,
    obs: ObsColumn,
    actions: ActionColumn,
    rewards: Vec<f32>,
    ends: Vec<End>,
    /// `None` without masks.
    masks: Option<Vec<bool>>,
    ended: Vec<EpisodeStat>,
    /// After how many steps an episode is ended.
    limit: u32,
    /// `[n_envs]`
    present: Vec<Present>,
}

/// The present episode of an environment.
#[derive(Clone, Copy, Default)]
struct Present {
    len: u32,
    sum: f64,
    /// Whether the last step ended it, and not merely a life in it.
    is_over: bool,
    /// Whether it was ended at the limit. A vector begins new episodes in all environments or in none, so
    /// this one waits until all others have come as far.
    is_cut_short: bool,
}

impl<'a, 'b> OneAgent<'a, 'b> {
    pub(super) fn make(
        policy: &'a mut Policy,
        factory: &dyn EnvFactory,
        (context, n_envs): (&VectorContext, usize),
        (plan, monitor): (EvaluationPlan, &CallMonitor),
        spectator: Spectator<'a, 'b>,
    ) -> Result<Self, EvaluateError> {
        let envs = if spectator.looks() {
            let mut envs = factory.make_vector_to_render(context, n_envs, monitor)?;
            envs.keep_last_frames(0);
            envs
        } else {
            factory.make_vector(context, n_envs, monitor)?
        };
        let spec = envs.spec().clone();
        let reads = &policy.shape().obs;
        if !reads.has_axes_of(&spec.observation) {
            let reason =
                format!("it reads {reads}, and observations are {}: are the channels first?", spec.observation);
            return Err(EvaluateError::Policy { env: spec.name, source: PolicyError::BadSpec { reason } });
        }
        Ok(Self {
            policy,
            spectator,
            envs,
            n_envs,
            obs: ObsColumn::zeros(obs_kind(&spec.observation), n_envs * spec.observation.obs_len()),
            actions: ActionColumn::zeros(act_kind(&spec.action), n_envs * spec.action.act_len()),
            rewards: vec![0.0; n_envs],
            ends: vec![End::No; n_envs],
            masks: spec.masks_for(n_envs),
            ended: Vec::new(),
            limit: plan.limit(spec.max_episode_steps),
            present: vec![Present::default(); n_envs],
            spec,
        })
    }

    /// Draws what a reset or a step led to.
    fn draw(&mut self, is_over: bool) -> Result<(), EnvFailure> {
        if self.spectator.looks() {
            // After its end, the environment shows the next episode.
            let frame = if is_over { self.envs.take_last_frame() } else { self.envs.render(0)? };
            self.spectator.see(frame, is_over || self.present[0].is_cut_short);
        }
        Ok(())
    }

    /// Begins new episodes in all environments once those that have episodes `left` wait for it.
    fn go_on(&mut self, left: &[usize]) -> Result<(), EvaluateError> {
        let plays = |(present, left): (&Present, &usize)| *left > 0 && !present.is_cut_short;
        if !self.present.iter().zip(left).any(plays) {
            self.envs.reset_all(self.obs.view_mut().into())?;
            self.policy.forget_all();
            self.present.fill(Present::default());
        }
        Ok(())
    }

    /// Adds the episodes that ended with a step, or are ended after it; whether that of the first environment
    /// ended by itself.
    fn collect(&mut self, ended: &mut Vec<Played>) -> bool {
        let Self { envs, policy, present, rewards, ends, limit, .. } = self;
        envs.drain_episodes(&mut self.ended);
        let first_is_over = self.ended.iter().any(|episode| episode.index == 0);
        for episode in self.ended.drain(..) {
            let Some(present) = present.get_mut(episode.index as usize) else { continue };
            if !present.is_cut_short {
                *present = Present { is_over: true, ..Present::default() };
                ended.push(Played { episode, agents: Vec::new(), is_cut_short: false });
            }
        }
        for (index, present) in present.iter_mut().enumerate().filter(|(_, present)| !present.is_cut_short) {
            // At a lost life too, where the episode goes on: the policy learned it as an end.
            if ends[index] != End::No {
                policy.forget(index);
            }
            if std::mem::take(&mut present.is_over) {
                continue;
            }
            present.len += 1;
            present.sum += f64::from(rewards[index]);
            if present.len >= *limit {
                present.is_cut_short = true;
                let summed = || EpisodeStat {
                    worker: 0,
                    index: index as u32,
                    seed: 0,
                    episode_return: present.sum,
                    episode_len: present.len,
                };
                let episode = envs.present_episode(index).unwrap_or_else(summed);
                ended.push(Played { episode, agents: Vec::new(), is_cut_short: true });
            }
        }
        first_is_over
    }
}

impl Stage for OneAgent<'_, '_> {
    fn begin(&mut self) -> Result<(), EvaluateError> {
        self.envs.reset_all(self.obs.view_mut().into())?;
        self.policy.forget_all();
        Ok(self.draw(false)?)
    }

    fn step(
        &mut self,
        choice: &mut ActionSelection,
        left: &[usize],
        ended: &mut Vec<Played>,
    ) -> Result<(), EvaluateError> {
        self.go_on(left)?;
        let Self { policy, envs, spec, obs, actions, masks, .. } = self;
        let (obs_now, chosen) = (convert::observations(obs.view()), convert::actions(actions.view_mut()));
        match masks {
            None => policy.act(obs_now, self.n_envs, choice, chosen),
            Some(masks) => {
                envs.action_masks(masks)?;
                policy.act_masked(obs_now, self.n_envs, masks, choice, chosen)
            }
        }
        .map_err(|source| EvaluateError::Policy { env: spec.name.clone(), source })?;
        envs.step(
            actions.view().into(),
            VectorStep {
                t: 0,
                obs: obs.view_mut().into(),
                rewards: &mut self.rewards,
                ends: &mut self.ends,
                final_obs: &mut FinalObs::new(obs_kind(&spec.observation), spec.observation.obs_len()),
            },
        )?;
        let first_is_over = self.collect(ended);
        Ok(self.draw(first_is_over)?)
    }
}
