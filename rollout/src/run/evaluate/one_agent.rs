use pronk_buffer::{ActionColumn, End, FinalObs, ObsColumn};
use pronk_policy::{ActionSelection, Policy};

use super::evaluation::EvaluateError;
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
}

impl<'a, 'b> OneAgent<'a, 'b> {
    pub(super) fn make(
        policy: &'a mut Policy,
        factory: &dyn EnvFactory,
        (context, n_envs): (&VectorContext, usize),
        monitor: &CallMonitor,
        spectator: Spectator<'a, 'b>,
    ) -> Result<Self, EnvFailure> {
        let envs = if spectator.looks() {
            let mut envs = factory.make_vector_to_render(context, n_envs, monitor)?;
            envs.keep_last_frames(0);
            envs
        } else {
            factory.make_vector(context, n_envs, monitor)?
        };
        let spec = envs.spec().clone();
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
            spec,
        })
    }

    /// Draws what a reset or a step led to.
    fn draw(&mut self, is_over: bool) -> Result<(), EnvFailure> {
        if self.spectator.looks() {
            // After its end, the environment shows the next episode.
            let frame = if is_over { self.envs.take_last_frame() } else { self.envs.render(0)? };
            self.spectator.see(frame, is_over);
        }
        Ok(())
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
        _left: &[usize],
        ended: &mut Vec<Played>,
    ) -> Result<(), EvaluateError> {
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
        for (env, _) in self.ends.iter().enumerate().filter(|(_, end)| **end != End::No) {
            policy.forget(env);
        }
        // Not by the ends: where lives are lost, these are of what is learned from.
        envs.drain_episodes(&mut self.ended);
        let first_is_over = self.ended.iter().any(|episode| episode.index == 0);
        ended.extend(self.ended.drain(..).map(|episode| Played { episode, agents: Vec::new() }));
        Ok(self.draw(first_is_over)?)
    }
}
