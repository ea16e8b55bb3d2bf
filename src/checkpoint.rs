//! [`Checkpoint`]: a trained policy and its optimiser, on disk.

mod contents;
mod count;
mod disk;
mod error;
mod files;
mod folder;
mod layout;
mod manifest;
mod score;
mod store;
#[cfg(test)]
mod tests;

use std::path::Path;

use pronk_metrics::{ByPolicy, default_policy};
use pronk_policy::{Network, ObsNormalizer, Policy, PolicyError};
use pronk_rollout::obs_normalizer;

pub use contents::Checkpoint;
pub(crate) use count::check_count;
pub use error::CheckpointError;
pub(crate) use files::{MANIFEST, is_checkpoint_file};
pub(crate) use folder::{LoadedRun, holds_checkpoints, load_newest, load_whole};
pub(crate) use manifest::{RunPart, SavedSummary};
pub use score::Score;
pub(crate) use score::{Figures, SavedEvaluations};
pub(crate) use store::{Retention, SaveReport, Store, save_all};

impl Checkpoint {
    /// Saves into `dir`, as its only policy, and syncs to disk. Makes the folder if it is missing.
    ///
    /// It replaces an earlier checkpoint. [`Run::save`](crate::Run::save) saves several policies at once.
    ///
    /// *Blocks* on the disk.
    ///
    /// # Errors
    /// The path that could not be written and why, or [`CheckpointError::Busy`] during another save into
    /// `dir`. An earlier checkpoint stays intact.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<(), CheckpointError> {
        save_all([(&default_policy(), self)], dir.as_ref())
    }

    /// Saves all of a run's policies into `dir`, as [`Run::save`](crate::Run::save) does; for example those of
    /// [`Run::best`](crate::Run::best).
    ///
    /// *Blocks* on the disk.
    ///
    /// # Errors
    /// As of [`save`](Self::save), and no policies.
    pub fn save_all(policies: &ByPolicy<Self>, dir: impl AsRef<Path>) -> Result<(), CheckpointError> {
        save_all(policies, dir.as_ref())
    }

    /// Loads the only policy in the folder `path`, or the policy `NAME` if `path` is `FOLDER/NAME`.
    ///
    /// During a save by another process it loads the old or the new checkpoint.
    ///
    /// # Errors
    /// The file that is missing, damaged, of another version or unlike the manifest; or the folder has
    /// several policies.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        folder::load_one(path.as_ref())
    }

    /// Loads all policies in the folder `dir`, from one save.
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
    /// // Both resume.
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

    /// The life of a run that resumes from here.
    pub(crate) fn next_life(&self) -> u64 {
        self.life.saturating_add(1)
    }

    /// The trained policy, to act with. It takes raw observations and normalises them as in training, with
    /// fixed statistics.
    ///
    /// # Errors
    /// Weights, network and action space do not fit, or the network is custom: use
    /// [`policy_with`](Self::policy_with) then.
    pub fn policy(&self) -> Result<Policy, PolicyError> {
        let Some(network) = self.network.clone() else {
            let reason = "the checkpoint is of one of your own, which it does not hold: make it, and act by \
                          Checkpoint::policy_with: Policy::with_network with the checkpoint's `state.params`, its \
                          distribution of actions and its normaliser";
            return Err(PolicyError::BadSpec { reason: reason.to_owned() });
        };
        self.as_trained(Policy::new(network, self.state.params.clone(), &self.action)?)
    }

    /// The trained policy with your own network, the one that the run had by
    /// [`TrainerBuilder::network`](crate::TrainerBuilder::network). It acts as [`policy`](Self::policy) does,
    /// with the distribution and the normaliser of the run.
    ///
    /// # Errors
    /// Weights, network and action space that do not fit, or a network that reads bytes in another way than
    /// in training.
    ///
    /// # Example
    /// ```
    /// use pronk::envs::CartPole;
    /// use pronk::policy::{CandleNetwork, NetworkSpec};
    /// use pronk::prelude::*;
    /// use pronk::{Checkpoint, DeviceSpec, Network, PolicyError};
    ///
    /// fn network(env: &EnvSpec, device: DeviceSpec) -> Result<Box<dyn Network>, PolicyError> {
    ///     let spec = NetworkSpec::for_spaces(&env.observation, &env.action)?;
    ///     Ok(Box::new(CandleNetwork::new(spec, device.open()?)?))
    /// }
    ///
    /// let folder = tempfile::tempdir()?;
    /// let mut config = TrainerConfig::default();
    /// config.results.min_time_s_per_iteration = 0.01;
    /// let trainer = Trainer::builder(config).env(|_: &EnvContext| CartPole::new()).network(network).build()?;
    /// trainer.run(StopWhen { iterations: Some(1), ..StopWhen::default() })?.save(folder.path())?;
    ///
    /// let checkpoint = Checkpoint::load(folder.path())?;
    /// // With the space as the policy has observed it: an older one reads bytes in another way.
    /// let env = EnvSpec { observation: checkpoint.observation.clone(), ..CartPole::new().spec() };
    /// let mut policy = checkpoint.policy_with(network(&env, DeviceSpec::Cpu)?)?;
    /// # policy.forget_all();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy_with(&self, network: Box<dyn Network>) -> Result<Policy, PolicyError> {
        let (seen, read) = (&self.observation, &network.shape().obs);
        if seen.scales_by_bounds() != read.scales_by_bounds() {
            let reason = format!(
                "it reads bytes as {read} and was trained on {seen}: make it for the space `observation` of the checkpoint"
            );
            return Err(PolicyError::BadSpec { reason });
        }
        self.as_trained(Policy::with_network(network, self.state.params.clone(), &self.action)?)
    }

    /// The policy with the distribution and the normaliser that it was trained with.
    fn as_trained(&self, policy: Policy) -> Result<Policy, PolicyError> {
        let policy = policy.with_gaussian(self.config.model.gaussian())?;
        match self.obs_normalizer() {
            Some(normalizer) => policy.with_normalizer(normalizer),
            None => Ok(policy),
        }
    }

    /// Normalises raw observations as in training, with fixed statistics; `None` if they were not normalised.
    pub fn obs_normalizer(&self) -> Option<ObsNormalizer> {
        obs_normalizer(&self.normalizer)
    }
}
