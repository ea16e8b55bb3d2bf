//! Where environments are within their episodes, for a checkpoint.

use pronk_buffer::{ActionColumn, ObsView};
use pronk_metrics::catch;
use serde::{Deserialize, Serialize};

use super::episode_stat::EpisodeStat;
use super::error::EnvError;
use super::failure::EnvFailureCause;

/// The positions of the environments of a [`VectorEnv`](crate::VectorEnv), between two steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedEnvs {
    /// Of each environment.
    pub envs: Vec<SavedEnv>,
    /// Episodes that ended and were not drained yet.
    pub finished: Vec<EpisodeStat>,
}

/// The position of one environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedEnv {
    /// Its episodes so far.
    pub episodes: SavedEpisodes,
    /// How it gets back to where it is.
    pub way: Way,
    /// CRC-32C of its newest raw observation, in the bytes of a little-endian machine. A way back that leads
    /// to another one is the wrong way.
    pub obs_crc32c: u32,
}

impl SavedEnvs {
    /// Refuses the positions of another number of environments.
    pub(crate) fn check_len(&self, n_envs: usize) -> Result<(), EnvFailureCause> {
        let error = || EnvError::new(format!("{} positions are saved for {n_envs} environments", self.envs.len()));
        if self.envs.len() == n_envs { Ok(()) } else { Err(EnvFailureCause::Error(error())) }
    }
}

impl SavedEnv {
    /// A position whose newest raw observation is `obs`, `[obs_len]`.
    pub fn new(episodes: SavedEpisodes, way: Way, obs: ObsView<'_>) -> Self {
        Self { episodes, way, obs_crc32c: row_sum(obs) }
    }

    /// Whether an episode that was played again has come to where this one was: to its newest raw observation
    /// `obs`, `[obs_len]`, and its sum of rewards. An error says what differs.
    pub fn check(&self, obs: ObsView<'_>, sum: f64) -> Result<(), String> {
        let differs = if self.obs_crc32c != row_sum(obs) {
            "to another observation".to_owned()
        } else if self.episodes.sum.to_bits() != sum.to_bits() {
            format!("to a return of {sum} instead of {}", self.episodes.sum)
        } else {
            return Ok(());
        };
        Err(format!("played again, its episode led {differs} after {} steps", self.episodes.len))
    }
}

impl SavedEpisodes {
    /// Episodes of more steps are not played again: that would take too long, and their actions too much
    /// memory.
    pub const LONGEST_REPLAY: u32 = 100_000;

    /// Why an episode whose actions were not kept cannot be continued.
    pub fn why_unknown(&self) -> String {
        if self.len > Self::LONGEST_REPLAY {
            return format!("its episode has {} steps, too many to play it again", self.len);
        }
        "its actions were not kept".to_owned()
    }
}

/// The state of [`Episodes`](crate::Episodes).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedEpisodes {
    /// Episodes begun.
    pub n_begun: u64,
    /// The seed of the present one.
    pub seed: u64,
    /// Its steps so far.
    pub len: u32,
    /// The sum of its rewards so far.
    pub sum: f64,
}

/// How an environment gets back into a running episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Way {
    /// By its own [`Env::load`](crate::Env::load).
    Snapshot(Vec<u8>),
    /// By a reset with the seed of the episode and these actions, `[len, act_len]`, scaled for the
    /// environment.
    Rerun(ActionColumn),
    /// Not at all: a new episode begins.
    Unknown,
}

/// An environment that could not get back into its episode and began the next one instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restarted {
    /// The environment within its worker.
    pub index: u32,
    /// Why.
    pub why: String,
}

impl Restarted {
    /// All of `n_envs` environments from `first` on.
    pub(crate) fn all(first: u32, n_envs: usize, why: &str) -> Vec<Self> {
        (first..).take(n_envs).map(|index| Self { index, why: why.to_owned() }).collect()
    }
}

/// Saves or loads environments; a panic is a reason why that failed.
pub(crate) fn caught<R>(work: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    catch(work).unwrap_or_else(|panic| Err(format!("a panic: {panic}")))
}

/// Why environments begin new episodes whose vector cannot tell where they are.
pub(crate) const NOT_KNOWN: &str = "its vector environment cannot be saved";

/// CRC-32C of an observation.
pub(crate) fn row_sum(row: ObsView<'_>) -> u32 {
    match row {
        ObsView::U8(row) => crc32c::crc32c(row),
        ObsView::F32(row) => row.iter().fold(0, |sum, value| crc32c::crc32c_append(sum, &value.to_le_bytes())),
    }
}
