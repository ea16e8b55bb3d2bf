use pronk_buffer::{ActionColumn, End, FinalObs, ObsColumn};

use crate::env::{EnvFailure, EnvSpec, EpisodeStat, ObsMut, act_kind, obs_kind};

/// A group's answer.
pub(crate) struct Answer {
    pub(crate) group: usize,
    pub(crate) step: Box<GroupStep>,
    /// What went wrong, if something did: nothing in `step` counts then.
    pub(crate) outcome: Result<(), GroupFailure>,
}

/// What went wrong in a group.
pub(crate) struct GroupFailure {
    pub(crate) failure: EnvFailure,
    /// The thread that was abandoned for it.
    pub(crate) abandoned: Option<String>,
}

/// One step of a group's environments: the order and its answer. It moves to the group and back.
pub(crate) struct GroupStep {
    pub(crate) order: Order,
    /// Whether the step is the last of a fragment, after which a group does what is done once a fragment.
    pub(crate) ends_fragment: bool,
    /// `[size, act_len]`, as the environments take them.
    pub(crate) actions: ActionColumn,
    /// `[size, obs_len]`: what follows.
    pub(crate) obs: ObsColumn,
    /// `[size, obs_len]`: the same on the scale of the fragment that the step ends, where the next one has another; else empty.
    pub(crate) closing_obs: Vec<f32>,
    /// `[size]`.
    pub(crate) rewards: Vec<f32>,
    /// `[size]`.
    pub(crate) ends: Vec<End>,
    /// In row 0: one for every truncated end.
    pub(crate) final_obs: FinalObs,
    /// `[size, dist_len]`: what is possible next; empty if everything always is.
    pub(crate) masks: Vec<bool>,
    /// Episodes that ended.
    pub(crate) episodes: Vec<EpisodeStat>,
}

/// What a group is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Begin an episode in every environment; make them anew first, if they failed.
    Reset,
    /// Take a step in every environment.
    Step,
}

impl GroupStep {
    /// For `size` environments of that spec, beginning with a reset.
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

    /// Has the next fragment begin: what follows the step is written anew on its scale.
    pub(crate) fn begin_fragment<E>(&mut self, rewrite: impl FnOnce(ObsMut<'_>) -> Result<(), E>) -> Result<(), E> {
        if let ObsColumn::F32(obs) = &self.obs {
            self.closing_obs.extend_from_slice(obs);
        }
        rewrite(self.obs.view_mut().into())?;
        // Rows that stay as they were need no inference of their own.
        if self.obs.view().as_f32() == Some(&self.closing_obs) {
            self.closing_obs.clear();
        }
        Ok(())
    }

    /// Forgets what the order before left here for its answer.
    pub(crate) fn clear(&mut self) {
        self.final_obs.clear();
        self.closing_obs.clear();
    }
}
