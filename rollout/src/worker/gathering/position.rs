//! Groups between two fragments, for a checkpoint.

use pronk_buffer::{ObsColumn, ObsView};
use pronk_metrics::NormalizerMoments;

use super::{Gathering, GroupState, steps_of};
use crate::env::Restarted;
use crate::pool::{Answer, GroupBack, GroupPosition, GroupStep};
use crate::worker::account::{Account, RESUME};
use crate::worker::error::BuildError;
use crate::worker::normalization::Normalization;
use crate::worker::seat_state::{SavedGathering, SavedGroup};

impl Gathering {
    /// The groups and what was done with their answers. Waits for those that are stepping; an error if one
    /// failed or restarts.
    pub(super) fn save_groups(&mut self, account: &Account) -> Result<SavedGathering, String> {
        if !self.pausing.is_empty() {
            return Err("a group of its environments begins anew".to_owned());
        }
        while self.early.len() < self.n_running {
            let answer = self.groups.recv(None).map_err(|_closed| "the run is ending".to_owned())?;
            let Some(answer) = answer else { continue };
            self.early.insert(answer.group, answer);
        }
        if self.early.values().any(|answer| answer.outcome.is_err()) {
            return Err("a group of its environments has failed".to_owned());
        }
        let _inside = account.enter();
        let groups = (0..self.states.len()).map(|group| self.save_group(group)).collect::<Result<_, _>>()?;
        let columns = self.actor.columns().map(|columns| columns.save()).unwrap_or_default();
        Ok(SavedGathering {
            groups,
            is_ahead: self.is_ahead,
            rng: self.actor.rng().clone(),
            state: self.state.clone(),
            ready: self.ready.clone(),
            turns: self.turns.clone(),
            columns,
            gathered: self.gathered.iter().map(Into::into).collect(),
        })
    }

    fn save_group(&mut self, group: usize) -> Result<SavedGroup, String> {
        let early = self.early.get(&group).map(|answer| &answer.step);
        let GroupState { step, normalization, filled, .. } = &self.states[group];
        let Some(answered) = early.or(step.as_ref()) else { return Err("a group has no answer".to_owned()) };
        // An early answer is not normalised yet.
        let raw = normalization.as_ref().and_then(Normalization::raw).filter(|_| early.is_none());
        let obs = raw.map_or_else(|| answered.obs.clone(), |raw| ObsColumn::F32(raw.to_vec()));
        let saved = SavedGroup {
            envs: None,
            incarnation: 0,
            step: (**answered).clone(),
            is_early: early.is_some(),
            normalization: normalization.as_ref().map(Normalization::save),
            filled: filled.as_ref().map(Into::into),
        };
        let GroupPosition { envs, incarnation } = self.groups.save(group, obs)?;
        Ok(SavedGroup { envs, incarnation, ..saved })
    }

    /// Continues with saved groups; returns the environments that began a new episode instead.
    pub(super) fn load_groups(
        &mut self,
        account: &mut Account,
        saved: &SavedGathering,
    ) -> Result<Vec<Restarted>, BuildError> {
        if saved.groups.len() != self.states.len() || saved.state.len() != self.state.len() {
            let reason =
                format!("it has {} groups of environments, and this worker {}", saved.groups.len(), self.states.len());
            return Err(BuildError::State { reason });
        }
        self.state.clone_from(&saved.state);
        if let Some(columns) = self.actor.columns() {
            columns.load(&saved.columns)?;
        }
        let mut restarted = Vec::new();
        for (group, saved) in saved.groups.iter().enumerate() {
            restarted.extend(self.load_group(account, group, saved)?);
        }
        self.is_ahead = saved.is_ahead;
        self.actor.draw_from(saved.rng.clone());
        self.ready.clone_from(&saved.ready);
        self.turns.clone_from(&saved.turns);
        self.n_running = self.early.len();
        self.gathered = saved.gathered.iter().cloned().map(NormalizerMoments::from).collect();
        self.pausing.clear();
        Ok(restarted)
    }

    fn load_group(
        &mut self,
        account: &mut Account,
        group: usize,
        saved: &SavedGroup,
    ) -> Result<Vec<Restarted>, BuildError> {
        let SavedGroup { envs, incarnation, step, is_early, normalization, filled } = saved;
        let position = GroupPosition { envs: envs.clone(), incarnation: *incarnation };
        let GroupBack { restarted, obs } = {
            let _inside = account.enter();
            self.groups.load(group, position, step.obs.clone())?
        };
        if let (Some(own), Some(saved)) = (&mut self.states[group].normalization, normalization) {
            own.load(saved);
        }
        self.states[group].filled = filled.clone().map(NormalizerMoments::from);
        let mut step = Box::new(step.clone());
        for Restarted { index, .. } in &restarted {
            self.begin_episode_anew(account, group, *index as usize, &obs, (&mut step, *is_early))?;
        }
        if *is_early {
            self.states[group].step = None;
            self.early.insert(group, Answer { group, step, outcome: Ok(()) });
        } else {
            self.states[group].step = Some(step);
        }
        Ok(restarted)
    }

    /// Begins a new episode of an environment in its group's last answer, and drops the column that it was
    /// filling.
    fn begin_episode_anew(
        &mut self,
        account: &mut Account,
        group: usize,
        env: usize,
        obs: &ObsColumn,
        (step, is_early): (&mut GroupStep, bool),
    ) -> Result<(), BuildError> {
        let (obs_len, state_len) = (self.shape.obs_len, self.shape.state_len);
        let lane = env - group * self.groups.group_size();
        let first: ObsView<'_> = obs.view().row(lane, obs_len);
        let mut row = step.obs.view_mut().into_row(lane, obs_len);
        row.reborrow().copy_from(first)?;
        if let Some(normalization) = self.states[group].normalization.as_mut().filter(|_| !is_early) {
            let begun = normalization.begin_one(lane, row);
            begun.map_err(|error| BuildError::State { reason: error.to_string() })?;
        }
        self.state[env * state_len..(env + 1) * state_len].fill(0.0);
        if let Some(columns) = self.actor.columns() {
            account.lose(steps_of(columns.begun(env) as u64), RESUME);
            columns.forget(env);
        }
        Ok(())
    }
}
