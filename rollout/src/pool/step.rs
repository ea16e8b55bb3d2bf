use pronk_buffer::{ActionColumn, End, FinalObs, ObsColumn};
use serde::{Deserialize, Serialize};

use crate::env::{EnvFailure, EnvSpec, EpisodeStat, SavedEnvs, act_kind, obs_kind};

/// A group's answer.
pub(crate) struct Answer {
    pub(crate) group: usize,
    pub(crate) step: Box<GroupStep>,
    /// On an error `step` is invalid.
    pub(crate) outcome: Result<(), GroupFailure>,
}

/// The failure of a group.
pub(crate) struct GroupFailure {
    pub(crate) failure: EnvFailure,
    /// The thread abandoned for it.
    pub(crate) abandoned: Option<String>,
}

/// One step of a group's environments, order and answer. It moves to the group and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GroupStep {
    pub(crate) order: Order,
    /// Whether the step is the last of a column: the group then hands over the episodes that ended.
    pub(crate) ends_column: bool,
    /// `[size, act_len]`, scaled for the environments.
    pub(crate) actions: ActionColumn,
    /// `[size, obs_len]`: the next observations.
    pub(crate) obs: ObsColumn,
    /// `[size]`.
    pub(crate) rewards: Vec<f32>,
    /// `[size]`.
    pub(crate) ends: Vec<End>,
    /// At step 0: one for every truncated episode.
    pub(crate) final_obs: FinalObs,
    /// `[size, dist_len]`: the next action masks; empty without masks.
    pub(crate) masks: Vec<bool>,
    /// Episodes that ended.
    pub(crate) episodes: Vec<EpisodeStat>,
}

/// An order to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Begin an episode in every environment; rebuild them first if they failed.
    Reset,
    /// Take a step in every environment.
    Step,
}

impl GroupStep {
    /// For `size` environments of `spec`; the first order is a reset.
    pub(crate) fn new(spec: &EnvSpec, size: usize) -> Self {
        let (obs_kind, obs_len) = (obs_kind(&spec.observation), spec.observation.obs_len());
        Self {
            order: Order::Reset,
            ends_column: false,
            actions: ActionColumn::zeros(act_kind(&spec.action), size * spec.action.act_len()),
            obs: ObsColumn::zeros(obs_kind, size * obs_len),
            rewards: vec![0.0; size],
            ends: vec![End::No; size],
            final_obs: FinalObs::new(obs_kind, obs_len),
            masks: if spec.action_mask { vec![true; size * spec.action.dist_len()] } else { Vec::new() },
            episodes: Vec::new(),
        }
    }

    /// Refuses what is no answer of `size` environments of `spec`: a file may hold anything.
    pub(crate) fn check(&self, spec: &EnvSpec, size: usize) -> Result<(), String> {
        let shape = |step: &Self| {
            let (actions, obs) = (step.actions.view(), step.obs.view());
            let lens = [actions.len(), obs.len(), step.rewards.len(), step.ends.len(), step.masks.len()];
            (actions.kind(), obs.kind(), lens)
        };
        let own = Self::new(spec, size);
        let has_final_obs = self.final_obs.check(own.obs.view().kind(), spec.observation.obs_len()).is_ok();
        if shape(self) != shape(&own) || !has_final_obs {
            return Err(format!("the last answer of a group is not of {size} environments of {spec}"));
        }
        Ok(())
    }

    /// Clears the outputs of the last order.
    pub(crate) fn clear(&mut self) {
        self.final_obs.clear();
    }
}

/// Where the environments of a group are; `envs` is `None` if they cannot tell.
pub(crate) struct GroupPosition {
    pub(crate) envs: Option<SavedEnvs>,
    pub(crate) incarnation: u32,
}
