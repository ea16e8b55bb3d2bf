//! Environments that step together between two fragments, for a checkpoint.

use pronk_buffer::ObsView;

use super::Lockstep;
use crate::env::{NOT_KNOWN, Restarted, caught};
use crate::worker::account::Account;
use crate::worker::error::BuildError;
use crate::worker::normalization::Normalization;
use crate::worker::rollout_worker::MakeFragments;
use crate::worker::seat_state::SavedLockstep;

impl Lockstep {
    /// The environments, and what the next fragment begins with.
    pub(super) fn save_position(&mut self, account: &Account) -> Result<SavedLockstep, String> {
        let Self { envs, obs, state, normalization, under_way, .. } = self;
        let raw = normalization.as_ref().and_then(Normalization::raw).map(ObsView::F32);
        let envs = match envs {
            Some(envs) if *under_way => {
                let _inside = account.enter();
                envs.save(raw.unwrap_or_else(|| obs.view())).map_err(|failure| failure.to_string())?
            }
            // They failed, and others take their place.
            Some(_) | None => None,
        };
        Ok(SavedLockstep {
            under_way: *under_way,
            envs,
            obs: obs.clone(),
            state: state.clone(),
            normalization: normalization.as_ref().map(Normalization::save),
        })
    }

    /// Goes on from there; environments that cannot, which it returns, begin new episodes.
    pub(super) fn load_position(
        &mut self,
        account: &mut Account,
        saved: &SavedLockstep,
    ) -> Result<Vec<Restarted>, BuildError> {
        let columns = self.shape.columns;
        if saved.obs.view().len() != self.obs.view().len() || saved.state.len() != self.state.len() {
            return Err(BuildError::State { reason: format!("it is not of {columns} environments of {}", self.spec) });
        }
        if let (Some(own), Some(saved)) = (&mut self.normalization, &saved.normalization) {
            own.load(saved).map_err(|reason| BuildError::State { reason })?;
        }
        (self.obs, self.state) = (saved.obs.clone(), saved.state.clone());
        let mut obs = self.obs.clone();
        let loaded = match (&saved.envs, &mut self.envs) {
            (Some(positions), Some(envs)) => {
                let _inside = account.enter();
                caught(|| envs.load(positions, obs.view_mut().into()).map_err(|failure| failure.to_string()))
            }
            _ => Err(NOT_KNOWN.to_owned()),
        };
        let restarted = match loaded {
            Ok(restarted) => restarted,
            Err(why) => {
                // Those of the present incarnation would repeat its episodes.
                self.drop_envs(account);
                return Ok(if saved.under_way { Restarted::all(0, columns, &why) } else { Vec::new() });
            }
        };
        let (obs_len, state_len) = (self.shape.obs_len, self.shape.state_len);
        for Restarted { index, .. } in &restarted {
            let env = *index as usize;
            let mut row = self.obs.view_mut().into_row(env, obs_len);
            row.reborrow().copy_from(obs.view().row(env, obs_len))?;
            if let Some(normalization) = &mut self.normalization {
                let begun = normalization.begin_one(env, row);
                begun.map_err(|error| BuildError::State { reason: error.to_string() })?;
            }
            self.state[env * state_len..(env + 1) * state_len].fill(0.0);
        }
        self.under_way = saved.under_way;
        Ok(restarted)
    }
}
