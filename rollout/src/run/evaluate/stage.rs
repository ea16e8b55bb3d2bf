use pronk_policy::ActionSelection;

use super::evaluation::{AgentStat, EvaluateError};
use crate::env::EpisodeStat;

/// Environments, with the policies that play in them.
pub(super) trait Stage {
    /// Begins the first episode of every environment.
    fn begin(&mut self) -> Result<(), EvaluateError>;

    /// Takes a step, at least in every environment that has episodes `left` to play, and adds the episodes
    /// that end with it, by themselves or at the limit of steps.
    fn step(
        &mut self,
        choice: &mut ActionSelection,
        left: &[usize],
        ended: &mut Vec<Played>,
    ) -> Result<(), EvaluateError>;
}

/// An episode that has ended.
pub(super) struct Played {
    pub(super) episode: EpisodeStat,
    /// Empty for one agent.
    pub(super) agents: Vec<AgentStat>,
    /// Whether the limit of steps has ended it.
    pub(super) is_cut_short: bool,
}
