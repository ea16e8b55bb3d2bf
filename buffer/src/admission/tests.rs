use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    ActionKind, BatchShape, Meanwhile, MultiAgentBatch, NextError, Notifier, ObsKind, SampleBatch, ShutdownGuard,
    ShutdownToken, Source, Tag, WeightPublisher, shutdown, source_contract, weight_cell,
};

const SHAPE: BatchShape = BatchShape {
    steps: 2,
    columns: 1,
    obs_len: 1,
    obs_kind: ObsKind::F32,
    act_len: 1,
    act_kind: ActionKind::U32,
    dist_len: 2,
    state_len: 0,
};

fn fragment(worker: u32, slot: u64, version: u64) -> MultiAgentBatch {
    MultiAgentBatch::single(SampleBatch::blank(SHAPE, Tag { worker, slot, version, ..Tag::default() }))
}

fn tag(fragment: &MultiAgentBatch) -> (u32, u64, u64) {
    let Tag { worker, slot, version, .. } = fragment.policies().next().unwrap().1.tags()[0];
    (worker, slot, version)
}

struct Run {
    guard: Option<ShutdownGuard>,
    token: ShutdownToken,
    publisher: WeightPublisher<()>,
    turns: Turns<()>,
    ends: Vec<Option<WorkerEnds<()>>>,
    fragments: InOrder<()>,
    /// Fragments that each worker has made.
    made: Vec<u64>,
}

fn run(workers: usize, fragments_of_a_batch: usize, lag: usize) -> Run {
    let (guard, token) = shutdown();
    let (publisher, cell) = weight_cell(());
    let at_least_one = |n| NonZeroUsize::new(n).unwrap();
    let config = TurnConfig {
        workers: at_least_one(workers),
        fragments_of_a_batch: at_least_one(fragments_of_a_batch),
        lag,
        env_steps_of_a_fragment: 2,
    };
    let (turns, ends, fragments) = turns(config, &cell, &token);
    let ends = ends.into_iter().map(Some).collect();
    Run { guard: Some(guard), token, publisher, turns, ends, fragments, made: vec![0; workers] }
}

impl Run {
    /// Has a worker make a fragment, if it has a turn.
    fn sample(&mut self, worker: usize) -> bool {
        let Some(ends) = &self.ends[worker] else { return false };
        let WeightSource::Granted(permits) = &ends.weights else { panic!("no permits") };
        if !permits.has_turn() {
            return false;
        }
        let weights = ends.weights.wait(&mut ()).unwrap().turn().unwrap();
        ends.weights.done();
        let fragment = fragment(worker as u32, self.made[worker], weights.weights.version);
        self.made[worker] += 1;
        ends.fragments.push(fragment, &mut ()).is_ok()
    }
}

proptest! {
    /// Whoever is faster, batch `j` has the fragments of turns `jF..(j + 1)F`, of the weights at the ask for
    /// batch `max(0, j - K)`.
    #[test]
    fn order_and_versions_are_those_of_the_turns_whatever_the_timing(
        workers in 1..5_usize,
        per_batch in 1..7_usize,
        lag in 0..4_usize,
        publish_every in 1..4_u64,
        timing in proptest::collection::vec(0..5_usize, 1..400),
    ) {
        let mut run = run(workers, per_batch, lag);
        run.turns.begin(None);
        let mut timing = timing.into_iter().cycle();
        let mut at_ask = Vec::new();
        for batch in 0..20_u64 {
            if batch > 0 {
                run.turns.grant();
            }
            at_ask.push(run.publisher.version());
            for place in 0..per_batch as u64 {
                let turn = batch * per_batch as u64 + place;
                let (worker, slot) = (turn % workers as u64, turn / workers as u64);
                // Some others run ahead, then the one that is awaited.
                for _ in 0..timing.next().unwrap_or(0) {
                    let other = timing.next().unwrap_or(0) % workers;
                    run.sample(other);
                }
                while run.made[worker as usize] <= slot {
                    prop_assert!(run.sample(worker as usize), "worker {worker} has no turn for slot {slot}");
                }
                let version = at_ask[batch.saturating_sub(lag as u64) as usize];
                prop_assert_eq!(tag(&run.fragments.next(Duration::ZERO).unwrap()), (worker as u32, slot, version));
            }
            if batch % publish_every == 0 {
                run.publisher.publish(());
            }
        }
    }
}

#[test]
fn a_worker_waits_for_its_turn() {
    let mut run = run(2, 2, 0);
    assert!(!run.sample(0), "the run has not begun");
    run.turns.begin(None);
    assert!(run.sample(0));
    assert!(!run.sample(0), "the next turn comes with the next ask");
    assert!(run.fragments.next(Duration::ZERO).is_ok());
    assert!(matches!(run.fragments.next(Duration::ZERO), Err(NextError::TimedOut)), "worker 1 is awaited");
    assert!(run.sample(1));
    assert_eq!(tag(&run.fragments.next(Duration::ZERO).unwrap()), (1, 0, 0));
}

#[test]
fn a_failed_attempt_is_made_again_with_the_same_weights_by_a_replacement_too() {
    let mut run = run(1, 1, 0);
    run.turns.begin(None);
    let ends = run.ends[0].take().unwrap();
    let failed = ends.weights.wait(&mut ()).unwrap().turn().unwrap();
    run.publisher.publish(());
    let replacement = ends.clone();
    drop(ends);
    assert!(Arc::ptr_eq(&failed.weights, &replacement.weights.wait(&mut ()).unwrap().turn().unwrap().weights));
    replacement.weights.done();
    run.turns.grant();
    assert_eq!(replacement.weights.wait(&mut ()).unwrap().turn().unwrap().weights.version, 1);
}

#[test]
fn no_more_turns_are_granted_than_a_limit_has_room_for() {
    let mut run = run(2, 3, 1);
    // 9 env-steps are 5 fragments of 2.
    run.turns.begin(Some(9));
    for worker in [0, 1, 0, 1, 0] {
        assert!(run.sample(worker));
    }
    for turn in 0..5 {
        assert_eq!(tag(&run.fragments.next(Duration::ZERO).unwrap()).0, turn % 2);
    }
    for worker in 0..2 {
        assert!(matches!(run.fragments.next(Duration::ZERO), Err(NextError::TimedOut)), "worker {worker} is there");
        let ends = run.ends[worker].take().unwrap();
        assert!(ends.weights.wait(&mut ()).is_err(), "worker {worker} ends instead of waiting");
    }
    assert!(matches!(run.fragments.next(Duration::MAX), Err(NextError::Closed)));
}

#[test]
fn a_limit_can_be_set_once_after_the_beginning() {
    let mut run = run(1, 1, 0);
    run.turns.begin(None);
    // 4 env-steps are 2 fragments.
    [None, Some(4), Some(100)].into_iter().for_each(|limit| run.turns.begin(limit));
    for turn in 0..2 {
        assert!(run.sample(0), "turn {turn}");
        assert!(run.fragments.next(Duration::ZERO).is_ok());
        run.turns.grant();
    }
    assert!(!run.sample(0));
    assert_eq!(run.turns.mark(7), [0], "the worker waits until the learner asks for another fragment");
    assert!(matches!(run.ends[0].as_ref().unwrap().weights.wait(&mut ()), Ok(Granted::Mark(7))));
    assert!(matches!(run.fragments.next(Duration::ZERO), Err(NextError::TimedOut)));
    assert!(run.ends[0].take().unwrap().weights.wait(&mut ()).is_err());
    assert!(matches!(run.fragments.next(Duration::MAX), Err(NextError::Closed)));
}

#[test]
fn the_turns_of_a_worker_that_gives_up_pass_on() {
    let mut run = run(3, 3, 0);
    run.turns.begin(None);
    run.ends[1] = None;
    assert!(run.sample(0) && run.sample(2));
    let next = |run: &mut Run| run.fragments.next(Duration::ZERO).map(|fragment| tag(&fragment).0).ok();
    assert_eq!((next(&mut run), next(&mut run)), (Some(0), Some(2)));
    assert_eq!(next(&mut run), None, "the turn of worker 1 is another's now");
    assert!(run.sample(0));
    assert_eq!(next(&mut run), Some(0));
    run.turns.grant();
    assert_eq!((0..5).filter(|_| run.sample(0) || run.sample(2)).count(), 3);
    (run.ends[0], run.ends[2]) = (None, None);
    assert_eq!((0..4).map_while(|_| next(&mut run)).count(), 3, "what they sampled is admitted");
    run.turns.grant();
    assert!(matches!(run.fragments.next(Duration::MAX), Err(NextError::Closed)), "no worker is left");
}

#[test]
fn the_last_turns_pass_on_too() {
    let mut run = run(2, 2, 1);
    // 8 env-steps are 4 fragments of 2: all turns are granted at once.
    run.turns.begin(Some(8));
    assert!(run.sample(0));
    run.ends[1] = None;
    let next = |run: &mut Run| run.fragments.next(Duration::ZERO).map(|fragment| tag(&fragment).0).ok();
    assert_eq!((next(&mut run), next(&mut run)), (Some(0), None), "worker 1 gave up, so worker 0 is awaited");
    assert!(run.sample(0) && run.sample(0) && !run.sample(0));
    assert_eq!((next(&mut run), next(&mut run), next(&mut run)), (Some(0), Some(0), None));
    assert!(run.sample(0));
    assert_eq!(next(&mut run), Some(0));
    assert!(matches!(run.fragments.next(Duration::ZERO), Err(NextError::TimedOut)));
    assert!(run.ends[0].take().unwrap().weights.wait(&mut ()).is_err());
    assert!(matches!(run.fragments.next(Duration::MAX), Err(NextError::Closed)));
}

#[test]
fn a_run_that_ends_wakes_workers_and_returns_every_fragment() {
    let mut run = run(1, 2, 0);
    run.turns.begin(None);
    assert!(run.sample(0));
    let waiting = run.ends[0].clone().unwrap();
    waiting.weights.wait(&mut ()).unwrap().turn().unwrap();
    waiting.weights.done();
    let waits = std::thread::spawn(move || waiting.weights.wait(&mut ()).is_err());
    run.guard = None;
    assert!(waits.join().unwrap());
    assert!(run.token.is_shut_down());
    assert!(matches!(run.fragments.next(Duration::MAX), Err(NextError::Closed)));
    assert_eq!(run.fragments.drain().len(), 1);
}

/// Grants turns when it is woken.
struct Granting<'a> {
    wakes: crate::sync::channel::Receiver<()>,
    turns: &'a Turns<()>,
}

impl Meanwhile for Granting<'_> {
    fn wakes(&self) -> Option<&crate::sync::channel::Receiver<()>> {
        Some(&self.wakes)
    }

    fn work(&mut self) {
        self.turns.begin(None);
    }
}

#[test]
fn a_worker_works_instead_of_blocking_for_its_turn_while_there_is_work() {
    let run = run(1, 1, 0);
    let (wake, wakes) = crate::sync::channel::bounded(1);
    wake.send(()).unwrap();
    let ends = run.ends[0].as_ref().unwrap();
    let granted = ends.weights.wait(&mut Granting { wakes, turns: &run.turns }).unwrap();
    assert!(granted.turn().is_some());
}

#[test]
fn workers_end_when_the_source_is_dropped() {
    let mut run = run(1, 1, 0);
    run.turns.begin(None);
    assert!(run.sample(0));
    let ends = run.ends[0].take().unwrap();
    drop(run.fragments);
    assert!(ends.weights.wait(&mut ()).is_err());
    assert!(ends.fragments.push(fragment(0, 1, 0), &mut ()).is_err());
}

#[test]
fn a_round_begins_when_both_ends_have_come_to_it() {
    let (guard, token) = shutdown();
    let notifier = Notifier::new();
    let (mut rounds, mut gate) = rounds(2, &notifier, &token);
    rounds.begin();
    assert!(!rounds.is_over());
    gate.pass(0, Duration::ZERO).unwrap();
    gate.pass(1, Duration::ZERO).unwrap();
    assert!(!rounds.is_over(), "the round has two batches");
    assert!(matches!(gate.pass(2, Duration::ZERO), Err(NextError::Resting)));
    assert!(rounds.is_over());
    gate.taken(2);
    rounds.begin();
    rounds.begin();
    assert!(!rounds.is_over());
    gate.pass(2, Duration::ZERO).unwrap();
    gate.pass(3, Duration::ZERO).unwrap();
    assert!(matches!(gate.pass(4, Duration::ZERO), Err(NextError::Resting)), "begun once, not twice");
    drop(guard);
    assert!(matches!(gate.pass(4, Duration::MAX), Err(NextError::Closed)));
}

#[test]
fn a_round_begins_however_often_the_learner_was_woken_before() {
    let (_guard, token) = shutdown();
    let (mut rounds, mut gate) = rounds(1, &Notifier::new(), &token);
    (0..5).for_each(|_| rounds.wake());
    rounds.begin();
    assert!(matches!(gate.pass(0, Duration::ZERO), Err(NextError::Resting)), "woken, to look for requests");
    gate.pass(0, Duration::ZERO).unwrap();
}

#[test]
fn it_keeps_the_contract_of_sources() {
    source_contract::check_all(|| {
        let run = run(1, 1, 7);
        run.turns.begin(None);
        let ends = run.ends[0].clone().unwrap();
        let feed = move |n| {
            if ends.weights.wait(&mut ()).is_ok() {
                ends.weights.done();
                drop(ends.fragments.push(fragment(0, n, 0), &mut ()));
            }
        };
        let number = |fragment: &MultiAgentBatch| tag(fragment).1;
        source_contract::Rig { source: run.fragments, feed, number, shutdown: run.guard.unwrap() }
    });
}

proptest! {
    /// Every fragment is sampled by the worker, in the incarnation and with the version of the record.
    #[test]
    fn a_recorded_run_is_repeated_turn_by_turn(
        of_batches in proptest::collection::vec(proptest::collection::vec((0..3_usize, 0..3_u64, 0..2_u32), 1..5), 1..12),
    ) {
        // A batch per version; workers never go back to an earlier version or incarnation.
        let (mut newest, mut incarnations, mut recorded) = ([0_u64; 3], [0_u32; 3], Vec::new());
        for (taken_at, batch) in (0_u64..).zip(&of_batches) {
            for &(worker, lag, restarts) in batch {
                newest[worker] = newest[worker].max(taken_at.saturating_sub(lag));
                incarnations[worker] += restarts;
                let (version, incarnation) = (newest[worker], incarnations[worker]);
                recorded.push(RecordedTurn { worker, incarnation, version, taken_at });
            }
        }
        let (_guard, token) = shutdown();
        let (mut publisher, _cell) = weight_cell(());
        let (ends, mut fragments) = recorded_turns(&recorded, 3, &mut publisher, &token);
        let mut made = [0; 3];
        for turn in &recorded {
            while publisher.version() < turn.taken_at {
                publisher.publish(());
            }
            let own = &ends[turn.worker];
            let WeightSource::Granted(permits) = &own.weights else { panic!("no permits") };
            prop_assert!(permits.has_turn(), "{turn:?} is not granted");
            let granted = own.weights.wait(&mut ()).unwrap().turn().unwrap();
            prop_assert_eq!((granted.weights.version, granted.incarnation), (turn.version, Some(turn.incarnation)));
            own.weights.done();
            let fragment = fragment(turn.worker as u32, made[turn.worker], turn.version);
            prop_assert!(own.fragments.push(fragment, &mut ()).is_ok(), "the lane has room");
            let taken = tag(&fragments.next(Duration::ZERO).unwrap());
            prop_assert_eq!(taken, (turn.worker as u32, made[turn.worker], turn.version));
            made[turn.worker] += 1;
        }
        prop_assert!(matches!(fragments.next(Duration::MAX), Err(NextError::Closed)), "it ends with the record");
    }
}
