//! The first element of every path that a seed or a random stream of this room is derived by.
//!
//! Distinct numbers keep the streams apart: what an environment draws says nothing about what the policy draws.

/// Followed by worker, incarnation, environment: the seed an environment's episodes derive theirs from.
pub(crate) const ENVIRONMENT: u64 = 1;

/// Followed by worker, incarnation and, with several agents, the number of the policy: the random numbers that choose actions.
pub(crate) const ACTING: u64 = 2;

/// Alone: the seed that stands for the run's in an evaluation, which would replay training episodes otherwise.
pub(crate) const EVALUATION: u64 = 3;
