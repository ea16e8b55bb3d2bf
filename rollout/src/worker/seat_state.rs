//! [`SeatState`]: a worker between two fragments, for a checkpoint.

use std::collections::VecDeque;

use pronk_buffer::ObsColumn;
use pronk_metrics::Steps;
use pronk_policy::Rng;
use serde::{Deserialize, Serialize};

use super::normalization::{SavedMoments, SavedNormalization};
use crate::act::SavedColumn;
use crate::env::SavedEnvs;
use crate::pool::GroupStep;
use crate::vector::SavedAgentsEnvs;

/// A worker between two fragments: everything that its next fragment depends on, besides the weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeatState {
    /// The worker's number.
    pub worker: u32,
    /// How often its environments were rebuilt.
    pub incarnation: u32,
    /// Fragments completed.
    pub slots: u64,
    /// Failures since the last complete fragment.
    pub consecutive_failures: u32,
    /// Steps that are in no fragment yet.
    pub(super) made: Steps,
    /// Agent-steps of frozen policies that are in no fragment yet.
    pub(super) untrained: u64,
    pub(super) maker: SavedMaker,
}

/// No worker counts so far, and a few such counts can be added.
const MOST: u64 = 1 << 60;
const MOST_FAILURES: u32 = 1 << 30;

impl SeatState {
    /// Refuses counts that no worker reaches: a damaged or forged file may hold any.
    ///
    /// # Errors
    /// Which count it is.
    pub fn check(&self) -> Result<(), String> {
        let Self { slots, made, untrained, .. } = *self;
        let counts = [("fragments", slots), ("env-steps", made.env), ("agent-steps", made.agent.max(untrained))];
        if let Some((name, count)) = counts.into_iter().find(|(_, count)| *count > MOST) {
            return Err(format!("worker {} has made {count} {name}, and none makes so many", self.worker));
        }
        let of_groups = match &self.maker {
            SavedMaker::Gathering(saved) => saved.groups.iter().map(|group| group.incarnation).max(),
            SavedMaker::Lockstep(_) | SavedMaker::MultiAgent(_) | SavedMaker::Unbegun => None,
        };
        if of_groups.unwrap_or_default().max(self.incarnation).max(self.consecutive_failures) > MOST_FAILURES {
            return Err(format!("worker {} has failed more than {MOST_FAILURES} times", self.worker));
        }
        Ok(())
    }

    /// The same after so many consecutive failures.
    pub(crate) fn after_failures(self, consecutive_failures: u32) -> Self {
        Self { consecutive_failures, ..self }
    }
}

/// What makes its fragments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum SavedMaker {
    Lockstep(Box<SavedLockstep>),
    Gathering(Box<SavedGathering>),
    MultiAgent(Box<SavedMultiAgent>),
    /// Any of these before its first fragment: new ones are where it is.
    Unbegun,
}

impl SavedMaker {
    /// What it is called where another was expected.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Lockstep(_) => "environments that step together",
            Self::Gathering(_) => "groups of environments",
            Self::MultiAgent(_) => "environments with several agents",
            Self::Unbegun => "environments before their first fragment",
        }
    }
}

/// Environments that step together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedLockstep {
    /// `None` if where they are is not known, or if they failed: others are made then.
    pub(super) envs: Option<SavedEnvs>,
    pub(super) obs: ObsColumn,
    pub(super) state: Vec<f32>,
    pub(super) normalization: Option<SavedNormalization>,
    /// Whether they are in the middle of episodes; otherwise they failed.
    pub(super) under_way: bool,
}

/// Environments in groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedGathering {
    pub(super) groups: Vec<SavedGroup>,
    pub(super) is_ahead: bool,
    /// Draws the actions of the fragment that has begun, if one has.
    pub(super) rng: Rng,
    pub(super) state: Vec<f32>,
    pub(super) ready: Vec<usize>,
    pub(super) turns: VecDeque<usize>,
    pub(super) columns: Vec<SavedColumn>,
    pub(super) gathered: VecDeque<SavedMoments>,
}

/// One group of environments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedGroup {
    /// `None` if where they are is not known.
    pub(super) envs: Option<SavedEnvs>,
    pub(super) incarnation: u32,
    /// Its last answer.
    pub(super) step: GroupStep,
    /// Whether that waits for its turn.
    pub(super) is_early: bool,
    pub(super) normalization: Option<SavedNormalization>,
    pub(super) filled: Option<SavedMoments>,
}

/// Environments with several agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedMultiAgent {
    pub(super) envs: SavedAgentsEnvs,
    pub(super) players: Vec<SavedPlayer>,
    /// Of each policy; those of frozen ones are empty.
    pub(super) columns: Vec<Vec<SavedColumn>>,
    pub(super) under_way: bool,
}

/// An agent in its episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedPlayer {
    pub(super) actor: usize,
    pub(super) state: Vec<f32>,
    pub(super) episode_return: f64,
}
