//! [`Checkpoint`]: a trained policy and its optimiser, on disk.

mod contents;
mod error;
mod files;
mod folder;
mod layout;
mod manifest;
#[cfg(test)]
mod tests;

use std::path::Path;

use pronk_metrics::{ByPolicy, default_policy};
use pronk_policy::{Policy, PolicyError};

pub use contents::Checkpoint;
pub use error::CheckpointError;
pub(crate) use files::MANIFEST;
pub(crate) use folder::save_all;

impl Checkpoint {
    /// Writes the checkpoint into `dir` as its only policy, and syncs it to disk. The folder is made if need
    /// be.
    ///
    /// It takes the place of what was saved there before. [`Run::save`](crate::Run::save) saves several policies at once.
    ///
    /// *Blocks* on the disk.
    ///
    /// # Errors
    /// The path that could not be written and why, or [`CheckpointError::Busy`] while another save into `dir`
    /// goes on. An earlier checkpoint in `dir` is then still whole.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<(), CheckpointError> {
        save_all([(&default_policy(), self)], dir.as_ref())
    }

    /// Reads the only policy in the folder `path`, or the policy `NAME` of a folder with several if `path` is
    /// `FOLDER/NAME`.
    ///
    /// While another process saves into the folder this reads the checkpoint before or after.
    ///
    /// # Errors
    /// Which file is missing, damaged, of another version or does not fit the manifest, and how; or the
    /// folder has several policies.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        folder::load_one(path.as_ref())
    }

    /// Reads all policies in the folder `dir`, as one save wrote them.
    ///
    /// ```
    /// use pronk::envs::TicTacToe;
    /// use pronk::prelude::*;
    /// use pronk::{Checkpoint, MultiAgentConfig};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let mut config = TrainerConfig::default();
    /// config.results.min_time_s_per_iteration = 0.01;
    /// let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
    /// let game = || {
    ///     Trainer::builder(config.clone()).multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents.clone())
    /// };
    /// game().build()?.run(StopWhen { iterations: Some(1), ..StopWhen::default() })?.save(folder.path())?;
    ///
    /// // Both go on.
    /// let trainer = game().resume(Checkpoint::load_all(folder.path())?).build()?;
    /// # drop(trainer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`load`](Self::load).
    pub fn load_all(dir: impl AsRef<Path>) -> Result<ByPolicy<Self>, CheckpointError> {
        folder::load(dir.as_ref(), None)
    }

    /// The life of a run that goes on from here.
    pub(crate) fn next_life(&self) -> u64 {
        self.life.saturating_add(1)
    }

    /// The trained policy, to act with. It is given observations as the environment makes them: if they went
    /// through a filter while it learned, they go through the same one, which no longer changes.
    ///
    /// # Errors
    /// When weights, network and action space do not fit each other, or the network is one of the user's own:
    /// then [`Policy::with_network`] makes a policy of it and of these weights.
    pub fn policy(&self) -> Result<Policy, PolicyError> {
        let Some(network) = self.network.clone() else {
            let reason = "the checkpoint is of one of your own, which it does not hold: make it, and act by \
                          Policy::with_network with `state.params` and `action` of the checkpoint, and \
                          Policy::with_gaussian with its `config.model.gaussian`, and Policy::with_normalizer with its \
                          `normalizer.obs_normalizer()`, if there is one";
            return Err(PolicyError::BadSpec { reason: reason.to_owned() });
        };
        let policy = Policy::new(network, self.state.params.clone(), &self.action)?;
        let policy = policy.with_gaussian(self.config.model.gaussian())?;
        match self.normalizer.obs_normalizer() {
            Some(normalizer) => policy.with_normalizer(normalizer),
            None => Ok(policy),
        }
    }
}
