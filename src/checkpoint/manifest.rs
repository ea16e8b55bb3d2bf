//! `manifest.json`: its entry for each policy, and how older versions are read.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pronk_learner::{AlgorithmState, LearnerState, OptimizerState, TargetState};
use pronk_metrics::{DEFAULT_POLICY, NormalizerMoments};
use pronk_policy::{NetworkSpec, ParamLayout, Params, Space};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::files::{FileEntry, OpenFile};
use super::layout::{self, Tensor};
use super::{Checkpoint, CheckpointError};
use crate::config::TrainerConfig;

const FORMAT: &str = "pronk checkpoint";

/// The version that is written.
const VERSION: u32 = 3;

/// The oldest version that is read. Its manifest is the entry of one policy.
const ONE_POLICY: u32 = 2;

type Cause = Box<dyn Error + Send + Sync>;

/// Names and contents of files.
type Files = Vec<(String, Vec<u8>)>;

/// The policies in a folder.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: String,
    version: u32,
    /// Number of saves into the folder, this one included, so that no two manifests are equal.
    generation: u64,
    pub(super) policies: BTreeMap<String, PolicyEntry>,
}

/// What every version has: enough to recognise another version.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
    #[serde(default)]
    generation: u64,
}

/// One policy.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyEntry {
    env: String,
    algorithm: String,
    observation_space: Space,
    action_space: Space,
    /// The network, unless it is custom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<NetworkSpec>,
    /// The parameters of a custom network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<Vec<Tensor>>,
    updates: u64,
    env_steps_trained: u64,
    /// State of the algorithm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    algorithm_numbers: BTreeMap<String, f64>,
    /// Statistics of the normalisation of observations and rewards.
    #[serde(default, skip_serializing_if = "is_empty")]
    normalizer: NormalizerMoments,
    /// How many times the run was resumed.
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

/// A policy whose files are open.
pub(super) struct OpenPolicy {
    entry: PolicyEntry,
    policy: OpenFile,
    optimizer: OpenFile,
    target: Option<OpenFile>,
}

impl Manifest {
    /// The manifest of `policies` that takes the place of `previous`, if there is one.
    pub(super) fn following(previous: Option<&[u8]>, policies: BTreeMap<String, PolicyEntry>) -> Self {
        let previous = previous.and_then(|json| serde_json::from_slice::<Header>(json).ok());
        let generation = previous.map_or(0, |header| header.generation).wrapping_add(1);
        Self { format: FORMAT.to_owned(), version: VERSION, generation, policies }
    }

    /// Reads the manifest of any version that is known; `path` is for errors.
    pub(super) fn parse(path: &Path, json: &[u8]) -> Result<Self, CheckpointError> {
        let unusable = |error| CheckpointError::unusable(path, error);
        let Header { format, version, .. } = serde_json::from_slice(json).map_err(unusable)?;
        if format != FORMAT {
            return Err(CheckpointError::unusable(path, format!("its format is '{format}' and not '{FORMAT}'")));
        }
        match version {
            VERSION => serde_json::from_slice(json).map_err(unusable),
            ONE_POLICY => {
                let mut entry: Map<String, Value> = serde_json::from_slice(json).map_err(unusable)?;
                entry.retain(|key, _| !["format", "version"].contains(&key.as_str()));
                let entry = serde_json::from_value(entry.into()).map_err(unusable)?;
                Ok(Self { format, version, generation: 0, policies: [(DEFAULT_POLICY.to_owned(), entry)].into() })
            }
            found => Err(CheckpointError::Version { path: path.to_owned(), found, known: VERSION }),
        }
    }

    /// Whether it is of format 2, with a folder for each policy.
    pub(super) fn is_of_one_policy(&self) -> bool {
        self.version == ONE_POLICY
    }

    /// The names of all files.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.policies.values().flat_map(|entry| {
            let target = entry.target.as_ref().map(|target| &target.weights);
            [&entry.policy, &entry.optimizer].into_iter().chain(target).map(|file| file.file.as_str())
        })
    }
}

impl PolicyEntry {
    /// The entry of `checkpoint`, and its files.
    pub(super) fn describe(checkpoint: &Checkpoint) -> Result<(Self, Files), Cause> {
        let Checkpoint { env, algorithm, observation, action, network, config, normalizer, life, state } = checkpoint;
        let mut files = Files::new();
        let mut file = |stem: &str, content: Vec<u8>| {
            let entry = FileEntry::of(stem, &content);
            files.push((entry.file.clone(), content));
            entry
        };
        let target = state.algorithm.target.as_ref();
        let entry = Self {
            env: env.clone(),
            algorithm: algorithm.clone(),
            observation_space: observation.clone(),
            action_space: action.clone(),
            network: network.clone(),
            parameters: network.is_none().then(|| layout::tensors(state.params.layout())),
            updates: state.updates,
            env_steps_trained: state.global_step,
            algorithm_numbers: state.algorithm.numbers.clone(),
            normalizer: normalizer.clone(),
            life: *life,
            policy: file("policy", state.params.to_safetensors(&BTreeMap::new())),
            optimizer: file("optimizer", state.optimizer.to_safetensors()?),
            target: target.map(|target| Target {
                weights: file("target", target.params.to_safetensors(&BTreeMap::new())),
                updates_since: target.age,
            }),
            config: config.clone(),
        };
        Ok((entry, files))
    }

    /// Opens its files.
    pub(super) fn open(self, dir: &Path) -> Result<OpenPolicy, CheckpointError> {
        let policy = self.policy.open(dir)?;
        let optimizer = self.optimizer.open(dir)?;
        let target = self.target.as_ref().map(|target| target.weights.open(dir)).transpose()?;
        Ok(OpenPolicy { entry: self, policy, optimizer, target })
    }

    /// Checks the shapes of the normalisation statistics.
    fn check_normalizer(&self) -> Result<(), Cause> {
        let NormalizerMoments { observations, returns } = &self.normalizer;
        let obs_len = self.observation_space.obs_len();
        for (what, moments, len) in [("observations", observations, obs_len), ("returns", returns, 1)] {
            if moments.as_ref().is_some_and(|moments| !moments.is_of(len)) {
                return Err(format!("`normalizer.{what}` are not the moments of {len} numbers").into());
            }
        }
        Ok(())
    }

    /// The parameter layout; of a custom network at most `numbers` long.
    fn layout(&self, numbers: usize) -> Result<Arc<ParamLayout>, Cause> {
        let layout = match (&self.network, &self.parameters) {
            (Some(network), None) => network.layout()?,
            (None, Some(tensors)) => layout::layout(tensors, numbers)?,
            (None, None) => return Err("it says neither `network` nor `parameters`: what are the weights?".into()),
            (Some(_), Some(_)) => return Err("it says both `network` and `parameters`: which are the weights?".into()),
        };
        Ok(Arc::new(layout))
    }
}

impl OpenPolicy {
    /// Reads the files and checks them against the entry, of the manifest at `path`.
    pub(super) fn read(self, path: &Path) -> Result<Checkpoint, CheckpointError> {
        let Self { entry, policy, optimizer, target } = self;
        let unusable = |cause| CheckpointError::unusable(path, cause);
        entry.check_normalizer().map_err(unusable)?;
        let (policy_path, policy) = policy.read()?;
        let layout = entry.layout(policy.len() / size_of::<f32>()).map_err(unusable)?;
        let weights = |path: PathBuf, content: &[u8]| {
            Params::from_safetensors(&layout, content).map_err(|error| CheckpointError::unusable(&path, error))
        };
        let params = weights(policy_path, &policy)?;
        let target = match (target, &entry.target) {
            (Some(file), Some(Target { updates_since: age, .. })) => {
                let (path, content) = file.read()?;
                Some(TargetState { params: weights(path, &content)?, age: *age })
            }
            _ => None,
        };
        let (optimizer_path, optimizer) = optimizer.read()?;
        let optimizer = OptimizerState::from_safetensors(&optimizer)
            .map_err(|error| CheckpointError::unusable(&optimizer_path, error))?;
        Ok(Checkpoint {
            env: entry.env,
            algorithm: entry.algorithm,
            observation: entry.observation_space,
            action: entry.action_space,
            network: entry.network,
            config: entry.config,
            normalizer: entry.normalizer,
            life: entry.life,
            state: LearnerState {
                params,
                optimizer,
                updates: entry.updates,
                global_step: entry.env_steps_trained,
                algorithm: AlgorithmState { numbers: entry.algorithm_numbers, target },
                publications: Vec::new(),
            },
        })
    }
}
