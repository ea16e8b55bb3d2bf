//! The first elements of the paths from which this room derives seeds and random streams.

/// Followed by worker, incarnation and environment: the seed that an environment's episodes derive theirs
/// from.
pub(crate) const ENVIRONMENT: u64 = 1;

/// Followed by worker, incarnation, slot of the fragment and number of the policy: the stream that draws
/// actions.
pub(crate) const ACTING: u64 = 2;

/// Alone: replaces the run's seed in an evaluation, which would otherwise replay training episodes.
pub(crate) const EVALUATION: u64 = 3;

/// A worker in the paths above. Worker 1 has the streams of worker 0, which runs on the trainer's thread, so
/// that a run repeats with and without threads.
pub(crate) fn of_worker(worker: u32) -> u64 {
    worker.saturating_sub(1).into()
}
