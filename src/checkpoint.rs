//! [`Checkpoint`]: a trained policy and its optimiser, on disk.

mod error;
mod files;
mod layout;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use pronk_learner::{AlgorithmState, LearnerState, OptimizerState, TargetState};
use pronk_policy::{NetworkSpec, ParamLayout, Params, Policy, PolicyError, Space};
use pronk_rollout::NormalizerMoments;
use serde::{Deserialize, Serialize};

pub use error::CheckpointError;

use crate::config::TrainerConfig;
use files::{FileEntry, read_checked, write_atomically};
use layout::Tensor;

pub(crate) const MANIFEST: &str = "manifest.json";
const FORMAT: &str = "pronk checkpoint";
const VERSION: u32 = 2;

/// A trained policy and the state of its optimiser, with all that is needed to use or to go on training them.
///
/// On disk it is a folder: `manifest.json`, and two safetensors files that the manifest names with their sizes and
/// checksums. The files are named after their content and the manifest is replaced last and atomically, so a process
/// killed at any instant leaves either the old checkpoint or the new one.
///
/// # Example
/// ```no_run
/// use pronk::Checkpoint;
///
/// let checkpoint = Checkpoint::load("runs/cartpole")?;
/// println!("{} after {} updates", checkpoint.env, checkpoint.state.updates);
/// # Ok::<(), pronk::CheckpointError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Name of the environment it was trained on.
    pub env: String,
    /// Name of the algorithm it was trained with.
    pub algorithm: String,
    /// What the policy observes.
    pub observation: Space,
    /// What it decides on.
    pub action: Space,
    /// Its network; none for one of the user's own, of which only the layout of the parameters is kept.
    pub network: Option<NetworkSpec>,
    /// The settings of its run.
    pub config: TrainerConfig,
    /// What the run had found out about the scales of observations and rewards; empty where nothing is normalised.
    pub normalizer: NormalizerMoments,
    /// How often the run was resumed before: 0 is the first life. Random numbers differ from life to life.
    pub life: u64,
    /// Weights, optimiser state and counters.
    pub state: LearnerState,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: String,
    version: u32,
    env: String,
    algorithm: String,
    observation_space: Space,
    action_space: Space,
    /// The network, unless it is one of the user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<NetworkSpec>,
    /// The parameters of a network of the user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<Vec<Tensor>>,
    updates: u64,
    env_steps_trained: u64,
    /// Numbers that the algorithm goes on with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    algorithm_numbers: BTreeMap<String, f64>,
    /// The scales of observations and rewards, where they are normalised.
    #[serde(default, skip_serializing_if = "is_empty")]
    normalizer: NormalizerMoments,
    /// How often the run was resumed.
    #[serde(default)]
    life: u64,
    policy: FileEntry,
    optimizer: FileEntry,
    /// The target network, of an algorithm that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    config: TrainerConfig,
}

fn is_empty(normalizer: &NormalizerMoments) -> bool {
    *normalizer == NormalizerMoments::default()
}

/// A target network in its file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    weights: FileEntry,
    updates_since: u64,
}

/// What every version of the manifest has: enough to say that a file is another version's.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
}

impl Checkpoint {
    /// Writes the checkpoint into `dir`, made if need be, and syncs it to disk.
    ///
    /// *Blocks* on the disk.
    ///
    /// # Errors
    /// The path that could not be written and why. An earlier checkpoint in `dir` is then still whole.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<(), CheckpointError> {
        let dir = dir.as_ref();
        fs::create_dir_all(dir).map_err(|error| CheckpointError::io("make the folder", dir, error))?;
        let policy = self.state.params.to_safetensors(&BTreeMap::new());
        let optimizer = self.state.optimizer.to_safetensors().map_err(|error| CheckpointError::unusable(dir, error))?;
        let target = self.state.algorithm.target.as_ref();
        let target = target.map(|target| (target.params.to_safetensors(&BTreeMap::new()), target.age));
        let manifest = Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            env: self.env.clone(),
            algorithm: self.algorithm.clone(),
            observation_space: self.observation.clone(),
            action_space: self.action.clone(),
            network: self.network.clone(),
            parameters: self.network.is_none().then(|| layout::tensors(self.state.params.layout())),
            updates: self.state.updates,
            env_steps_trained: self.state.global_step,
            algorithm_numbers: self.state.algorithm.numbers.clone(),
            normalizer: self.normalizer.clone(),
            life: self.life,
            policy: FileEntry::of("policy", &policy),
            optimizer: FileEntry::of("optimizer", &optimizer),
            target: target.as_ref().map(|(weights, updates_since)| Target {
                weights: FileEntry::of("target", weights),
                updates_since: *updates_since,
            }),
            config: self.config.clone(),
        };
        let json = serde_json::to_vec_pretty(&manifest).map_err(|error| CheckpointError::unusable(dir, error))?;
        write_atomically(dir, &manifest.policy.file, &policy)?;
        write_atomically(dir, &manifest.optimizer.file, &optimizer)?;
        if let (Some(entry), Some((weights, _))) = (&manifest.target, &target) {
            write_atomically(dir, &entry.weights.file, weights)?;
        }
        write_atomically(dir, MANIFEST, &json)?;
        let target = manifest.target.iter().map(|target| target.weights.file.as_str());
        let kept: Vec<_> =
            [manifest.policy.file.as_str(), &manifest.optimizer.file].into_iter().chain(target).collect();
        files::remove_others(dir, &kept);
        Ok(())
    }

    /// The life of a run that goes on from here.
    pub(crate) fn next_life(&self) -> u64 {
        self.life.saturating_add(1)
    }

    /// The trained policy, to act with. It is given observations as the environment makes them: if they went through a filter
    /// while it learned, they go through the same one, which no longer changes.
    ///
    /// # Errors
    /// When weights, network and action space do not fit each other, or the network is one of the user's own: then
    /// [`Policy::with_network`] makes a policy of it and of these weights.
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

    /// Reads the checkpoint in `dir`.
    ///
    /// # Errors
    /// Which file is missing, damaged, of another version or does not fit the manifest, and how.
    pub fn load(dir: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let dir = dir.as_ref();
        let manifest = read_manifest(&dir.join(MANIFEST))?;
        let unusable = |cause| CheckpointError::Unusable { path: dir.join(MANIFEST), cause };
        manifest.check_normalizer().map_err(unusable)?;
        let policy = read_checked(dir, &manifest.policy)?;
        let layout = manifest.layout(policy.len() / size_of::<f32>()).map_err(unusable)?;
        let weights = |entry: &FileEntry, bytes: &[u8]| {
            Params::from_safetensors(&layout, bytes)
                .map_err(|error| CheckpointError::unusable(&dir.join(&entry.file), error))
        };
        let params = weights(&manifest.policy, &policy)?;
        let target = match manifest.target {
            None => None,
            Some(Target { weights: entry, updates_since: age }) => {
                Some(TargetState { params: weights(&entry, &read_checked(dir, &entry)?)?, age })
            }
        };
        let optimizer = OptimizerState::from_safetensors(&read_checked(dir, &manifest.optimizer)?)
            .map_err(|error| CheckpointError::unusable(&dir.join(&manifest.optimizer.file), error))?;
        Ok(Self {
            env: manifest.env,
            algorithm: manifest.algorithm,
            observation: manifest.observation_space,
            action: manifest.action_space,
            network: manifest.network,
            config: manifest.config,
            normalizer: manifest.normalizer,
            life: manifest.life,
            state: LearnerState {
                params,
                optimizer,
                updates: manifest.updates,
                global_step: manifest.env_steps_trained,
                algorithm: AlgorithmState { numbers: manifest.algorithm_numbers, target },
            },
        })
    }
}

impl Manifest {
    /// Whether the scales are those of its observations and of a return.
    fn check_normalizer(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let NormalizerMoments { observations, returns } = &self.normalizer;
        let obs_len = self.observation_space.obs_len();
        for (what, moments, len) in [("observations", observations, obs_len), ("returns", returns, 1)] {
            if moments.as_ref().is_some_and(|moments| !moments.is_of(len)) {
                return Err(format!("`normalizer.{what}` are not the moments of {len} numbers").into());
            }
        }
        Ok(())
    }

    /// Where each parameter lies; of a network of the user's own, no more than there are `numbers`.
    fn layout(&self, numbers: usize) -> Result<Arc<ParamLayout>, Box<dyn Error + Send + Sync>> {
        let layout = match (&self.network, &self.parameters) {
            (Some(network), None) => network.layout()?,
            (None, Some(tensors)) => layout::layout(tensors, numbers)?,
            (None, None) => return Err("it says neither `network` nor `parameters`: what are the weights?".into()),
            (Some(_), Some(_)) => return Err("it says both `network` and `parameters`: which are the weights?".into()),
        };
        Ok(Arc::new(layout))
    }
}

fn read_manifest(path: &Path) -> Result<Manifest, CheckpointError> {
    let bytes = fs::read(path).map_err(|error| CheckpointError::io("read the manifest", path, error))?;
    let header: Header = serde_json::from_slice(&bytes).map_err(|error| CheckpointError::unusable(path, error))?;
    if header.format != FORMAT {
        return Err(CheckpointError::unusable(path, format!("its format is '{}' and not '{FORMAT}'", header.format)));
    }
    if header.version != VERSION {
        return Err(CheckpointError::Version { path: path.to_owned(), found: header.version, known: VERSION });
    }
    serde_json::from_slice(&bytes).map_err(|error| CheckpointError::unusable(path, error))
}
