//! The first elements of the paths from which this room derives seeds and random streams.

/// Followed by worker, incarnation, environment: the seed that an environment's episodes derive theirs from.
pub(crate) const ENVIRONMENT: u64 = 1;

/// Followed by worker, incarnation and, with several agents, policy number: the stream that draws actions.
pub(crate) const ACTING: u64 = 2;

/// Alone: replaces the run's seed in an evaluation, which would otherwise replay training episodes.
pub(crate) const EVALUATION: u64 = 3;
