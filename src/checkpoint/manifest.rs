//! `manifest.json`: its entry for each policy, and how older versions are read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pronk_learner::{AlgorithmState, LearnerState, OptimizerState, TargetState};
use pronk_metrics::{DEFAULT_POLICY, NormalizerMoments};
use pronk_policy::{NetworkSpec, ParamLayout, Params, Space};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::count::{MOST, check_count};
use super::disk::Disk;
use super::files::{FileEntry, OpenFile};
use super::layout::{self, Tensor};
use super::score::{Figures, SavedEvaluations, Score};
use super::{Checkpoint, CheckpointError};
use crate::config::TrainerConfig;

const FORMAT: &str = "pronk checkpoint";

/// The version that is written.
const VERSION: u32 = 3;

/// The oldest version that is read. Its manifest is the entry of one policy.
const ONE_POLICY: u32 = 2;

type Cause = Box<dyn Error + Send + Sync>;

/// Entries and contents of files.
type Files = Vec<(FileEntry, Vec<u8>)>;

/// The policies in a folder.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: String,
    version: u32,
    /// Number of saves into the folder, this one included, so that no two manifests are equal.
    pub(super) generation: u64,
    pub(super) policies: BTreeMap<String, PolicyEntry>,
    /// The run that they are of, if it can be continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunEntry>,
}

/// A run that can be continued.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunEntry {
    /// The version of the state, which changes with every change of what a run is.
    pub(super) format: u32,
    pub(super) summary: SavedSummary,
    /// What a resuming run has to have in common with it.
    pub(super) agrees: BTreeMap<String, Value>,
    pub(super) state: FileEntry,
    pub(super) fragments: Vec<FileEntry>,
}

/// The version of the state of a run.
const RUN_FORMAT: u32 = 1;

/// What a run's checkpoint is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedSummary {
    /// Whether the run goes on exactly.
    pub(crate) exact: bool,
    pub(crate) iteration: u64,
    pub(crate) env_steps: u64,
    /// `None` if it is over too few episodes.
    pub(crate) return_mean: Option<f64>,
    pub(crate) life: u64,
    /// How many times the run was continued.
    pub(crate) resumes: u64,
    /// Of a run that evaluates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evaluations: Option<SavedEvaluations>,
}

/// A run as it is written: its state, and its batches in files of their own, so that those which stay are
/// written once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunPart {
    pub(crate) summary: SavedSummary,
    pub(crate) agrees: BTreeMap<String, Value>,
    pub(crate) state: Vec<u8>,
    pub(crate) fragments: Vec<Vec<u8>>,
}

impl RunEntry {
    /// The entry of a run, and its files.
    pub(super) fn describe(run: &RunPart) -> (Self, Vec<(FileEntry, &[u8])>) {
        let RunPart { summary, agrees, state, fragments } = run;
        let entry = Self {
            format: RUN_FORMAT,
            summary: summary.clone(),
            agrees: agrees.clone(),
            state: FileEntry::of("run", state),
            fragments: fragments.iter().map(|fragment| FileEntry::of("fragments", fragment)).collect(),
        };
        let mut files = vec![(entry.state.clone(), state.as_slice())];
        files.extend(entry.fragments.iter().cloned().zip(fragments.iter().map(Vec::as_slice)));
        (entry, files)
    }
}

/// How the checksum of a manifest, its last entry, begins. It is the CRC-32C of all bytes before it.
const SEAL: &str = ",\n  \"crc32c\": ";

/// A manifest with its checksum.
fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let seal = format!("{SEAL}\"{:08x}\"\n}}\n", crc32c::crc32c(&body));
    body.extend(seal.into_bytes());
    body
}

/// A manifest without its checksum, which has to be right. The first ones had none.
fn unsealed<'a>(path: &Path, json: &'a [u8]) -> Result<Cow<'a, [u8]>, CheckpointError> {
    let Some(end) = json.windows(SEAL.len()).rposition(|bytes| bytes == SEAL.as_bytes()) else {
        return Ok(json.into());
    };
    let body = &json[..end];
    if sealed(body.to_vec()) != json {
        let reason = "its content is not the one that its `crc32c` was computed of".to_owned();
        return Err(CheckpointError::Damaged { path: path.to_owned(), reason });
    }
    Ok([body, b"}"].concat().into())
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
    /// As [the networks read it](Space::load_observed).
    #[serde(serialize_with = "Space::save_observed", deserialize_with = "Space::load_observed")]
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
    /// Of the best policy of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    score: Option<Score>,
    policy: FileEntry,
    optimizer: FileEntry,
    /// The target network, of an algorithm that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    /// As a value, so that a setting that another version does not know makes no checkpoint unreadable.
    config: Value,
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
    /// The manifest of `policies`, and of their run.
    pub(super) fn new(generation: u64, policies: BTreeMap<String, PolicyEntry>, run: Option<RunEntry>) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, generation, policies, run }
    }

    /// The manifest as it is on disk.
    pub(super) fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let mut json = serde_json::to_vec_pretty(self)?;
        // The checksum is the last entry, before the brace.
        json.truncate(json.len() - "\n}".len());
        Ok(sealed(json))
    }

    /// The generation of a manifest; 0 if it cannot be read, or has no next one.
    pub(super) fn generation_of(json: &[u8]) -> u64 {
        let generation = serde_json::from_slice::<Header>(json).map_or(0, |header| header.generation);
        if generation < MOST { generation } else { 0 }
    }

    /// Reads the manifest of any version that is known; `path` is for errors.
    pub(super) fn parse(path: &Path, json: &[u8]) -> Result<Self, CheckpointError> {
        let unusable = |error| CheckpointError::unusable(path, error);
        let json = &*unsealed(path, json)?;
        let Header { format, version, .. } = serde_json::from_slice(json).map_err(unusable)?;
        if format != FORMAT {
            return Err(CheckpointError::unusable(path, format!("its format is '{format}' and not '{FORMAT}'")));
        }
        match version {
            VERSION => {
                let manifest: Self = serde_json::from_slice(json).map_err(unusable)?;
                match &manifest.run {
                    Some(run) if run.format > RUN_FORMAT => {
                        let (what, found, known) = ("the state of a run", run.format, RUN_FORMAT);
                        Err(CheckpointError::Version { path: path.to_owned(), what, found, known })
                    }
                    _ => {
                        manifest.check_counts().map_err(|cause| CheckpointError::unusable(path, cause))?;
                        Ok(manifest)
                    }
                }
            }
            ONE_POLICY => {
                let mut entry: Map<String, Value> = serde_json::from_slice(json).map_err(unusable)?;
                entry.retain(|key, _| !["format", "version"].contains(&key.as_str()));
                let entry = serde_json::from_value(entry.into()).map_err(unusable)?;
                Ok(Self {
                    format,
                    version,
                    generation: 0,
                    policies: [(DEFAULT_POLICY.to_owned(), entry)].into(),
                    run: None,
                })
            }
            found => Err(CheckpointError::Version { path: path.to_owned(), what: "the format", found, known: VERSION }),
        }
    }

    fn check_counts(&self) -> Result<(), String> {
        check_count("generations", self.generation)?;
        let Some(RunEntry { summary, .. }) = &self.run else { return Ok(()) };
        let evaluations = summary.evaluations.clone().unwrap_or_default();
        let returns = |figures: &Figures| figures.policy_returns.values().map(|returns| returns.n).max();
        for (name, count) in [
            ("iterations", summary.iteration),
            ("env-steps", summary.env_steps.max(evaluations.since_env_steps)),
            ("lives", summary.life.max(summary.resumes)),
            ("evaluations", evaluations.made.max(evaluations.failed).max(evaluations.skipped)),
            ("returns", evaluations.newest.as_ref().and_then(returns).unwrap_or_default()),
        ] {
            check_count(name, count)?;
        }
        Ok(())
    }

    /// Whether it is of format 2, with a folder for each policy.
    pub(super) fn is_of_one_policy(&self) -> bool {
        self.version == ONE_POLICY
    }

    /// The names of all files.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        let run = self.run.iter().flat_map(|run| [&run.state].into_iter().chain(&run.fragments));
        let policies = self.policies.values().flat_map(|entry| {
            let target = entry.target.as_ref().map(|target| &target.weights);
            [&entry.policy, &entry.optimizer].into_iter().chain(target)
        });
        policies.chain(run).map(|file| file.file.as_str())
    }
}

impl PolicyEntry {
    /// The entry of `checkpoint`, and its files.
    pub(super) fn describe(checkpoint: &Checkpoint) -> Result<(Self, Files), Cause> {
        let Checkpoint { env, algorithm, observation, action, network, config, normalizer, life, score, state } =
            checkpoint;
        let mut files = Files::new();
        let mut file = |stem: &str, content: Vec<u8>| {
            let entry = FileEntry::of(stem, &content);
            files.push((entry.clone(), content));
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
            score: *score,
            policy: file("policy", state.params.to_safetensors(&BTreeMap::new())),
            optimizer: file("optimizer", state.optimizer.to_safetensors()?),
            target: target.map(|target| Target {
                weights: file("target", target.params.to_safetensors(&BTreeMap::new())),
                updates_since: target.age,
            }),
            config: serde_json::to_value(config)?,
        };
        Ok((entry, files))
    }

    /// Opens its files.
    pub(super) fn open(self, disk: &dyn Disk, dir: &Path) -> Result<OpenPolicy, CheckpointError> {
        let policy = self.policy.open(disk, dir)?;
        let optimizer = self.optimizer.open(disk, dir)?;
        let target = self.target.as_ref().map(|target| target.weights.open(disk, dir)).transpose()?;
        Ok(OpenPolicy { entry: self, policy, optimizer, target })
    }

    /// Checks counts, and the shapes of the normalisation statistics.
    fn check(&self) -> Result<(), Cause> {
        let age = self.target.as_ref().map_or(0, |target| target.updates_since);
        for (name, count) in
            [("updates", self.updates.max(age)), ("env-steps trained", self.env_steps_trained), ("lives", self.life)]
        {
            check_count(name, count)?;
        }
        let obs_len = self.observation_space.obs_len();
        self.normalizer.check(obs_len).map_err(|reason| format!("in `normalizer`, {reason}"))?;
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
        entry.check().map_err(unusable)?;
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
            config: TrainerConfig::of_checkpoint(&entry.config, path),
            normalizer: entry.normalizer,
            life: entry.life,
            score: entry.score,
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
