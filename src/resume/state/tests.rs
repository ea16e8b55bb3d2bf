use std::time::Duration;

use pronk_buffer::SavedRing;
use pronk_learner::SavedLoop;

use super::*;
use crate::resume::SavedTrainer;

/// What is read of a run with these passes of a batch, left and shown, and this replay buffer.
fn decoded(passes: (i64, u32), stored: usize, oldest: usize, draws: u64) -> Result<Resumed, ResumeError> {
    let ring = SavedRing { slots: vec![None, Some(passes)], ..SavedRing::default() };
    let learner_loop = SavedLoop { ring, ..SavedLoop::default() };
    let mut source = SavedSource::new(0, pronk_buffer::Pool::new(0));
    let stored = (0..stored).map(|_| SavedBatch { batch: Default::default(), in_flight: None }).collect();
    source.replay = Some(SavedReplay { stored, oldest, left: None, draws });
    let state = RunState::new(SavedTrainer::default(), learner_loop, 0);
    let (state, files) = Snapshot { state, batches: Vec::new(), source, published: None }.encode().unwrap();
    Resumed::decode(Path::new("here/manifest.json"), &state, files, ByPolicy::new(), true)
}

#[test]
fn positions_that_no_run_can_be_at_are_refused() {
    decoded((0, 0), 0, 0, 0).unwrap();
    decoded((3, 1), 2, 1, 1_000_000_000).unwrap();
    for (passes, oldest, draws, words) in [
        ((i64::MIN, 0), 0, 0, "passes left"),
        ((i64::MAX, 0), 0, 0, "passes left"),
        ((1, u32::MAX), 0, 0, "passes left"),
        ((3, 1), 2, 0, "in place 2"),
        ((3, 1), 0, u64::MAX, "random numbers"),
    ] {
        let error = decoded(passes, 2, oldest, draws).unwrap_err().to_string();
        assert!(error.contains("here") && error.contains(words), "{error}");
    }
}

#[test]
fn counts_that_no_run_reaches_and_ledgers_that_do_not_close_are_refused() {
    type Change = fn(&mut RunState);
    let read = |change: Change| {
        let mut state = RunState::new(SavedTrainer::default(), SavedLoop::default(), 0);
        change(&mut state);
        let source = SavedSource::new(0, pronk_buffer::Pool::new(0));
        let (state, files) = Snapshot { state, batches: Vec::new(), source, published: None }.encode().unwrap();
        Resumed::decode(Path::new("here/manifest.json"), &state, files, ByPolicy::new(), true)
    };
    read(|_| {}).unwrap();
    let changes: [(&str, Change); 6] = [
        ("iterations", |state| state.trainer.iterations = u64::MAX),
        ("does not close", |state| state.trainer.steps.sampled = Steps { env: 1, agent: 0 }),
        ("steps sampled", |state| {
            state.trainer.steps.sampled.env = u64::MAX;
            state.trainer.steps.in_flight.env = u64::MAX;
        }),
        ("seconds", |state| state.trainer.time_total = Duration::MAX),
        ("in a row", |state| state.learner_loop.quarantined_in_a_row = u32::MAX),
        ("version", |state| state.version = u64::MAX),
    ];
    for (words, change) in changes {
        let error = read(change).unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}
