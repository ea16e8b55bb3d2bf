use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use pronk_metrics::{StepLedger, Steps};
use pronk_model::time::FOREVER;
use pronk_model::{check, sometimes, thread};

use super::{SCHEDULES, SHAPE};
use crate::{
    Ask, Gate, Granted, MultiAgentBatch, NextError, Notifier, SampleBatch, Source, Tag, TurnConfig, Turns, WorkerEnds,
    inqueue, rounds, shutdown, turns, weight_cell,
};

fn fragment(worker: u32, slot: u64, version: u64) -> MultiAgentBatch {
    MultiAgentBatch::single(SampleBatch::blank(SHAPE, Tag { worker, slot, version, ..Tag::default() }))
}

fn tag(fragment: &MultiAgentBatch) -> (u32, u64, u64) {
    let Tag { worker, slot, version, .. } = fragment.policies().next().unwrap().1.tags()[0];
    (worker, slot, version)
}

fn config(workers: usize, lag: usize) -> TurnConfig {
    let workers = NonZeroUsize::new(workers).unwrap();
    TurnConfig { workers, fragments_of_a_batch: NonZeroUsize::MIN, lag, env_steps_of_a_fragment: 1 }
}

/// Samples whenever it has a turn, for at most so many, and notes in `sampled_by` that it did.
fn sample(worker: u32, ends: &WorkerEnds<()>, most: u64, sampled_by: &Mutex<Vec<u32>>) {
    let mut pushed = 0;
    while pushed < most {
        let Ok(Granted::Turn(turn)) = ends.weights.wait(&mut ()) else { break };
        let sampled = fragment(worker, pushed, turn.weights.version);
        sampled_by.lock().unwrap().push(worker);
        ends.weights.done();
        if ends.fragments.push(sampled, &mut ()).is_err() {
            break;
        }
        pushed += 1;
    }
}

/// Fragments come in the order of turns, with the weights of their turn, whichever worker is faster.
#[test]
fn fragments_come_in_the_order_of_turns() {
    check("turns", SCHEDULES, || {
        let (guard, token) = shutdown();
        let (mut publisher, cell) = weight_cell(());
        let (turns, ends, mut fragments) = turns(config(2, 1), &cell, &token);
        let sampled_by = Arc::default();
        let workers: Vec<_> = (0..)
            .zip(ends)
            .map(|(worker, ends)| {
                let sampled_by = Arc::clone(&sampled_by);
                thread::spawn(move || sample(worker, &ends, 9, &sampled_by))
            })
            .collect();
        turns.begin(None);
        let mut came = Vec::new();
        for batch in 0..4 {
            if batch > 0 {
                turns.grant();
            }
            came.push(tag(&fragments.next(FOREVER).unwrap()));
            publisher.publish(());
        }
        assert_eq!(came, [(0, 0, 0), (1, 0, 0), (0, 1, 1), (1, 1, 2)]);
        sometimes("the second turn is taken first", sampled_by.lock().unwrap()[0] == 1);
        drop(guard);
        workers.into_iter().for_each(|worker| assert!(worker.join().is_ok()));
    });
}

/// A worker that gives up passes its turns on, a limit of env-steps is reached exactly, and all threads end.
/// The source ends after every worker has booked what it had begun.
#[test]
fn a_worker_that_gives_up_passes_its_turns_on() {
    check("turns, a worker gives up", SCHEDULES, || {
        let (_guard, token) = shutdown();
        let (_publisher, cell) = weight_cell(());
        let (turns, ends, mut fragments) = turns(config(2, 3), &cell, &token);
        let ledger = StepLedger::new();
        let workers: Vec<_> = (0..)
            .zip(ends)
            .map(|(worker, ends)| {
                let ledger = ledger.clone();
                thread::spawn(move || {
                    sample(worker, &ends, if worker == 0 { 1 } else { 9 }, &Mutex::default());
                    drop(ledger.sampled(Steps { env: 0, agent: 1 }));
                })
            })
            .collect();
        turns.begin(Some(4));
        let mut came = 0;
        loop {
            match fragments.next(FOREVER) {
                Ok(_) => came += 1,
                Err(NextError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((came, ledger.snapshot().sampled.agent), (4, 2));
        drop(fragments);
        workers.into_iter().for_each(|worker| assert!(worker.join().is_ok()));
    });
}

/// A round has its batches and no more, and its end wakes the trainer, whatever else wakes the learner
/// meanwhile.
#[test]
fn a_round_has_its_batches() {
    check("rounds", SCHEDULES, || {
        let (guard, token) = shutdown();
        let notifier = Notifier::new();
        let (mut rounds, gate) = rounds(2, &notifier, &token);
        let (sender, source) = inqueue(6, Gate::Bounded, &token).unwrap();
        (0..6).for_each(|n| assert!(sender.push(n).is_ok()));
        let learner = thread::spawn(move || {
            let mut ask = Ask::new(source, None::<Turns<()>>, gate);
            loop {
                let next = ask.next(FOREVER);
                sometimes("the learner is woken between batches", matches!(next, Err(NextError::Resting)));
                match next {
                    Ok(_) | Err(NextError::Resting) => {}
                    Err(NextError::Closed) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for round in 1..=2 {
            rounds.wake();
            rounds.wake();
            rounds.begin();
            rounds.wake();
            while !rounds.is_over() {
                assert!(notifier.wait(FOREVER));
            }
            assert!(rounds.has_taken_all());
            assert_eq!(sender.len(), 6 - 2 * round);
        }
        drop(guard);
        learner.join().unwrap();
    });
}
