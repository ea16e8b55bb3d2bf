use pronk_buffer::{ActionColumn, End, FinalObs, ObsColumn};

use crate::env::{EnvFailure, EnvSpec, EpisodeStat, ObsMut, act_kind, obs_kind};

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
pub(crate) struct GroupStep {
    pub(crate) order: Order,
    /// Whether the step is the last of a fragment: the group then exchanges moments of normalisation.
    pub(crate) ends_fragment: bool,
    /// `[size, act_len]`, scaled for the environments.
    pub(crate) actions: ActionColumn,
    /// `[size, obs_len]`: the next observations.
    pub(crate) obs: ObsColumn,
    /// `[size, obs_len]`: the same on the scale of the fragment that the step ends; empty if unchanged.
    pub(crate) closing_obs: Vec<f32>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
            ends_fragment: false,
            actions: ActionColumn::zeros(act_kind(&spec.action), size * spec.action.act_len()),
            obs: ObsColumn::zeros(obs_kind, size * obs_len),
            closing_obs: Vec::new(),
            rewards: vec![0.0; size],
            ends: vec![End::No; size],
            final_obs: FinalObs::new(obs_kind, obs_len),
            masks: if spec.action_mask { vec![true; size * spec.action.dist_len()] } else { Vec::new() },
            episodes: Vec::new(),
        }
    }

    /// Begins the next fragment: `rewrite` normalises the next observations on its scale.
    pub(crate) fn begin_fragment<E>(&mut self, rewrite: impl FnOnce(ObsMut<'_>) -> Result<(), E>) -> Result<(), E> {
        if let ObsColumn::F32(obs) = &self.obs {
            self.closing_obs.extend_from_slice(obs);
        }
        rewrite(self.obs.view_mut().into())?;
        // Unchanged rows need no second inference.
        if self.obs.view().as_f32() == Some(&self.closing_obs) {
            self.closing_obs.clear();
        }
        Ok(())
    }

    /// Clears the outputs of the last order.
    pub(crate) fn clear(&mut self) {
        self.final_obs.clear();
        self.closing_obs.clear();
    }
}
