//! Groups between two fragments, for a checkpoint.

use std::collections::BTreeSet;

use pronk_buffer::ObsColumn;
use pronk_metrics::NormalizerMoments;

use super::{Gathering, GroupState, steps_of};
use crate::act::SavedColumn;
use crate::env::{FailurePlace, Restarted};
use crate::pool::{Answer, GroupPosition, Order};
use crate::sync::Instant;
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
        account.links.monitor.at(0, FailurePlace::Unknown);
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

    /// Continues with saved groups; returns the environments that begin a new episode instead.
    pub(super) fn load_groups(
        &mut self,
        account: &mut Account,
        saved: &SavedGathering,
    ) -> Result<Vec<Restarted>, BuildError> {
        self.check(account, saved).map_err(|reason| BuildError::State { reason })?;
        self.state.clone_from(&saved.state);
        if let Some(columns) = self.actor.columns() {
            columns.load(&saved.columns).map_err(|reason| BuildError::State { reason })?;
        }
        for (group, saved) in saved.groups.iter().enumerate() {
            self.load_group(group, saved).map_err(|reason| BuildError::State { reason })?;
        }
        self.is_ahead = saved.is_ahead;
        self.actor.draw_from(saved.rng.clone());
        self.ready.clone_from(&saved.ready);
        self.turns.clone_from(&saved.turns);
        self.n_running = self.early.len();
        self.gathered = saved.gathered.iter().cloned().map(NormalizerMoments::from).collect();
        self.pausing.clear();
        let position = |saved: &SavedGroup| GroupPosition { envs: saved.envs.clone(), incarnation: saved.incarnation };
        let lost = {
            let _inside = account.enter();
            self.groups.load(saved.groups.iter().map(position).collect())
        };
        let mut restarted = Vec::new();
        for (group, lost) in lost.into_iter().enumerate().filter(|(_, lost)| !lost.is_empty()) {
            restarted.extend(self.begin_group_anew(account, group, lost));
        }
        Ok(restarted)
    }

    /// Refuses where no groups of this worker can be: a damaged or forged file may hold anything.
    fn check(&self, account: &Account, saved: &SavedGathering) -> Result<(), String> {
        let SavedGathering { groups, state, ready, turns, columns, gathered, .. } = saved;
        let (n_groups, size) = (self.states.len(), self.groups.group_size());
        if groups.len() != n_groups || state.len() != self.state.len() {
            return Err(format!("it has {} groups of environments, and this worker {n_groups}", groups.len()));
        }
        groups.iter().try_for_each(|group| group.step.check(&self.spec, size))?;
        // A group waits for actions, or its answer for its turn.
        let is_early = |group: usize| groups.get(group).is_some_and(|group| group.is_early);
        let in_turn: BTreeSet<usize> = turns.iter().copied().filter(|group| is_early(*group)).collect();
        if !ready.iter().copied().eq((0..n_groups).filter(|group| !is_early(*group))) || in_turn.len() != turns.len() {
            return Err(format!("groups {ready:?} are ready and {turns:?} have a turn, which no groups are"));
        }
        let mut moments = groups.iter().filter_map(|group| group.filled.as_ref()).chain(gathered);
        let own = self.states.first().and_then(|group| group.normalization.as_ref());
        if !moments.all(|moments| own.is_some_and(|own| own.check(moments).is_ok())) {
            return Err("its moments are of other environments".to_owned());
        }
        // A step is incomplete until its answer is taken in, which counts it.
        let has_step = |group: usize| is_early(group) && groups[group].step.order == Order::Step;
        if let Some(column) = columns.iter().find(|column| column.is_open() && !has_step(column.seat() / size)) {
            return Err(format!("environment {} is in a step, but not its group", column.seat()));
        }
        let complete = |column: &SavedColumn| column.begun().saturating_sub(column.is_open().into());
        account.check_columns(steps_of(columns.iter().map(complete).sum()))
    }

    /// What this worker knows of a group.
    fn load_group(&mut self, group: usize, saved: &SavedGroup) -> Result<(), String> {
        let SavedGroup { step, is_early, normalization, filled, .. } = saved;
        let state = &mut self.states[group];
        if let (Some(own), Some(saved)) = (&mut state.normalization, normalization) {
            own.load(saved)?;
        }
        state.filled = filled.clone().map(NormalizerMoments::from);
        let step = Box::new(step.clone());
        if *is_early {
            state.step = None;
            self.early.insert(group, Answer { group, step, outcome: Ok(()) });
        } else {
            state.step = Some(step);
        }
        Ok(())
    }

    /// Resets a group whose environments `lost` did not get back into their episodes, as the environments of
    /// a group fill their columns in step. Their unfinished columns are lost. Returns all its environments.
    fn begin_group_anew(&mut self, account: &mut Account, group: usize, lost: Vec<Restarted>) -> Vec<Restarted> {
        let (size, early) = (self.groups.group_size(), self.early.remove(&group));
        self.n_running = self.early.len();
        self.ready.retain(|other| *other != group);
        self.turns.retain(|other| *other != group);
        // The step of an answer that is not taken in yet is begun, but not counted.
        let uncounted = usize::from(early.as_ref().is_some_and(|answer| answer.step.order == Order::Step));
        let state = &mut self.states[group];
        state.step = early.map(|answer| answer.step).or(state.step.take());
        if let Some(normalization) = &mut state.normalization {
            normalization.discard();
        }
        if let Some(columns) = self.actor.columns() {
            let envs = group * size..(group + 1) * size;
            let steps: usize = envs.clone().map(|env| columns.begun(env).saturating_sub(uncounted)).sum();
            envs.for_each(|env| columns.forget(env));
            if steps > 0 {
                account.lose(steps_of(steps as u64), RESUME);
            }
        }
        self.pausing.push((Instant::now(), group));
        let with_it = format!("its group begins anew with environment {}", lost[0].index);
        let all = (group * size..(group + 1) * size).map(|index| index as u32);
        let why = |index: u32| lost.iter().find(|lost| lost.index == index).map(|lost| lost.why.clone());
        all.map(|index| Restarted { index, why: why(index).unwrap_or_else(|| with_it.clone()) }).collect()
    }
}
