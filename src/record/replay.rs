//! [`Replay`]: a record that a run repeats.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use pronk_buffer::RecordedTurn;
use pronk_metrics::StepLedger;
use pronk_rollout::Gather;

use super::data::RecordedFragments;
use super::entry::{Entry, FORMAT, Header, Pass, SCALED_BY_BOUNDS};
use super::error::RecordError;
use super::frames::FrameReader;
use super::verifier::Verifier;
use crate::config::{InferencePlacement, TrainerConfig, as_it_acted, first_difference};

/// A record that a run repeats: see [`TrainerBuilder::replay`](crate::TrainerBuilder::replay).
///
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
/// use pronk::{Recording, Replay, StopReason};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("run.rec");
/// let mut config = TrainerConfig::default();
/// config.workers.num_rollout_workers = 2;
/// config.results.min_time_s_per_iteration = 0.01;
/// let env = |_: &EnvContext| CartPole::new();
/// let trainer = Trainer::builder(config).env(env).record(Recording::to(&path)).build()?;
/// let run = trainer.run(StopWhen { env_steps: Some(10_000), ..StopWhen::default() })?;
///
/// let replay = Replay::open(&path)?;
/// let trainer = Trainer::builder(replay.config().clone()).env(env).replay(replay).build()?;
/// let again = trainer.run(StopWhen::default())?;
/// assert_eq!(again.reason, Some(StopReason::Replayed));
/// assert_eq!(again.weights_digest(), run.weights_digest());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Replay {
    path: PathBuf,
    header: Header,
    config: TrainerConfig,
    passes: Vec<Pass>,
    is_whole: bool,
    from_fragments: bool,
}

impl Replay {
    /// Reads a record. What a killed run wrote last is cut off.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, is no record, or is of another format.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, RecordError> {
        let path = path.into();
        let file = File::open(&path).map_err(|source| RecordError::Io { path: path.clone(), source })?;
        let mut frames = FrameReader::new(BufReader::new(file));
        let no_record = |reason: String| RecordError::NotARecord { path: path.clone(), reason };
        let header: Header = match frames.read() {
            Ok(Some(header)) => header,
            Ok(None) => return Err(no_record("it ends before its header".to_owned())),
            Err(error) => return Err(error.of(&path)),
        };
        if ![FORMAT, SCALED_BY_BOUNDS].contains(&header.format) {
            let reason = format!(
                "it has format {}, written by pronk {}; this version reads formats up to {SCALED_BY_BOUNDS}",
                header.format, header.pronk
            );
            return Err(no_record(reason));
        }
        let config = serde_json::from_str(&header.config).and_then(|saved| serde_json::from_value(as_it_acted(saved)));
        let config = config.map_err(|error| no_record(format!("its config: {error}")))?;
        let entries = std::iter::from_fn(|| frames.read::<Entry>().transpose()).collect::<Result<Vec<_>, _>>();
        let entries = entries.map_err(|error| error.of(&path))?;
        let is_whole = matches!(entries.last(), Some(Entry::End(_)));
        let pass = |entry| match entry {
            Entry::Pass(pass) => Some(pass),
            Entry::End(_) => None,
        };
        let passes = entries.into_iter().filter_map(pass).collect();
        Ok(Self { path, header, config, passes, is_whole, from_fragments: false })
    }

    /// The settings of the run.
    pub fn config(&self) -> &TrainerConfig {
        &self.config
    }

    /// The updates of the run.
    pub fn updates(&self) -> u64 {
        self.passes.last().map_or(0, |pass| pass.updates)
    }

    /// The fragments that the learner took.
    pub fn fragments(&self) -> usize {
        self.passes.iter().map(|pass| pass.taken.len()).sum()
    }

    /// Whether the run ended by itself: a killed one leaves a record without an end.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Repeats the run up to the pass that makes this update only, from 1.
    #[must_use]
    pub fn until(mut self, update: u64) -> Self {
        let n = self.passes.iter().position(|pass| pass.updates >= update).map_or(self.passes.len(), |last| last + 1);
        self.passes.truncate(n);
        self
    }

    /// Trains on the recorded fragments, without environments or workers: the record must be
    /// [`with_fragments`](crate::Recording::with_fragments).
    #[must_use]
    pub fn from_fragments(self) -> Self {
        Self { from_fragments: true, ..self }
    }

    /// Whether its networks multiplied every byte by 1/255, whatever its bounds.
    pub(crate) fn reads_pixels(&self) -> bool {
        self.header.format == FORMAT
    }

    /// Whether it trains on recorded fragments.
    pub(crate) fn is_from_fragments(&self) -> bool {
        self.from_fragments
    }

    /// The turns of the workers.
    pub(crate) fn turns(&self) -> Vec<RecordedTurn> {
        let mut taken_at = 0;
        let mut turns = Vec::new();
        for pass in &self.passes {
            turns.extend(pass.taken.iter().map(|taken| RecordedTurn {
                worker: taken.tag.worker.saturating_sub(1) as usize,
                incarnation: taken.tag.incarnation,
                version: taken.tag.version,
                taken_at,
            }));
            taken_at = pass.version;
        }
        turns
    }

    /// The recorded fragments.
    pub(crate) fn source(&self, steps: StepLedger) -> Result<RecordedFragments, RecordError> {
        let mut needed = 0;
        let passes = self.passes.iter().map(|pass| {
            needed += pass.taken.len();
            (needed, pass.updates)
        });
        RecordedFragments::open(&self.path, passes.collect(), steps)
    }

    pub(super) fn verifier(&self) -> Verifier {
        Verifier::new(&self.passes)
    }

    /// Refuses a run that cannot be the recorded one, and names the first difference.
    pub(super) fn check(&self, own: &Header) -> Result<(), RecordError> {
        let Header { env, life, layout, weights, cpu, .. } = &self.header;
        if self.passes.is_empty() {
            let reason = "it has no pass of the learner, so there is nothing to replay".to_owned();
            return Err(RecordError::NotARecord { path: self.path.clone(), reason });
        }
        if let (Ok(recorded), Ok(config)) = (serde_json::to_value(&self.config), serde_json::from_str(&own.config))
            && let Some((what, recorded, own)) = first_difference(&recorded, &config)
        {
            return Err(RecordError::OtherRun { what: format!("the setting `{what}`"), recorded, own });
        }
        let differs = |what: &str, recorded: &dyn ToString, own: &dyn ToString| RecordError::OtherRun {
            what: what.to_owned(),
            recorded: recorded.to_string(),
            own: own.to_string(),
        };
        if *env != own.env {
            return Err(differs("the environment", env, &own.env));
        }
        if *life != own.life {
            return Err(differs("how often the run was resumed (resume from the same checkpoint)", life, &own.life));
        }
        if *layout != own.layout {
            return Err(differs("the layout of the weights", layout, &own.layout));
        }
        if *weights != own.weights {
            return Err(differs("the digest of the first weights", weights, &own.weights));
        }
        if self.from_fragments && !self.header.has_fragments {
            return Err(differs("where fragments come from", &"no fragment", &"only the recorded ones"));
        }
        if *cpu != own.cpu {
            tracing::warn!(recorded = cpu, own = own.cpu, "other instructions than recorded: sums may differ");
        }
        if self.from_fragments {
            return Ok(());
        }
        let workers = self.config.workers.num_rollout_workers;
        if self.passes.iter().flat_map(|pass| &pass.taken).any(|taken| taken.tag.worker as usize > workers) {
            let why = "workers of other machines sampled for it; replay it from its fragments, if it has them";
            return Err(RecordError::NotRepeatable { why: why.to_owned() });
        }
        check_repeatable(&self.config)
    }
}

/// Refuses what makes the fragments of a worker depend on time.
fn check_repeatable(config: &TrainerConfig) -> Result<(), RecordError> {
    let TrainerConfig { workers, learner, .. } = config;
    let refuse = |why: &str| Err(RecordError::NotRepeatable { why: why.to_owned() });
    if workers.num_rollout_workers > 0 && workers.inference == InferencePlacement::Shared {
        return refuse("a shared inference thread uses the newest weights at every step");
    }
    if workers.num_env_groups > 1 && !matches!(workers.gather, Gather::All | Gather::InTurn) {
        return refuse("its workers acted for the groups that answered first");
    }
    if learner.num_multi_gpu_tower_stacks > 0 && learner.num_data_load_threads > 1 {
        return refuse("several loader threads may change the order of train batches");
    }
    if learner.num_multi_gpu_tower_stacks > 0 && learner.max_lag.is_some() {
        return refuse("a loader thread drops fragments by the version of that moment");
    }
    Ok(())
}
