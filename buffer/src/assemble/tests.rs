use pronk_metrics::{StepLedger, Steps};
use proptest::prelude::*;

use super::*;
use crate::batch::tests::shape;
use crate::source_contract::{Rig, check_all};
use crate::{BatchShape, Gate, InqueueReceiver, InqueueSender, SampleBatch, ShutdownGuard, Tag, inqueue, shutdown};

type Batches = Assemble<InqueueReceiver<MultiAgentBatch>>;

/// Makes fragments of one ledger and pushes them towards an [`Assemble`].
struct Workers {
    sender: InqueueSender<MultiAgentBatch>,
    ledger: StepLedger,
    pool: Pool,
    sequence: u64,
    shutdown: ShutdownGuard,
}

fn set_up(train_batch_size: u64) -> (Workers, Batches) {
    let (shutdown, token) = shutdown();
    let (sender, receiver) = inqueue(64, Gate::Bounded, &token).unwrap();
    let pool = Pool::new(64);
    let workers = Workers { sender, ledger: StepLedger::new(), pool: pool.clone(), sequence: 0, shutdown };
    (workers, Assemble::new(receiver, train_batch_size, pool))
}

impl Workers {
    fn fragment(&mut self, shape: BatchShape, version: u64) -> MultiAgentBatch {
        let tag = Tag { slot: self.sequence, ..Tag::default() };
        self.sequence += 1;
        let mut batch = self.pool.take(shape, tag);
        batch.versions_mut().fill(version);
        let batch = MultiAgentBatch::single(batch);
        let ticket = self.ledger.sampled(batch.steps());
        batch.with_ticket(ticket)
    }

    /// Pushes a fragment of `steps` steps of one environment.
    fn push(&mut self, steps: usize, version: u64) {
        let fragment = self.fragment(shape(1, steps), version);
        self.sender.push(fragment).unwrap();
    }

    fn dropped(&self, reason: &str) -> Option<Steps> {
        self.ledger.snapshot().dropped.get(reason).copied()
    }
}

fn only(batch: &MultiAgentBatch) -> &SampleBatch {
    batch.get(pronk_metrics::DEFAULT_POLICY).unwrap()
}

#[test]
fn whole_fragments_join_until_the_size_is_reached() {
    let (mut workers, mut batches) = set_up(100);
    for steps in [30, 30, 30, 30, 250, 10] {
        workers.push(steps, 0);
    }
    let first = batches.next(Duration::ZERO).unwrap();
    assert_eq!(first.env_steps(), 120);
    let fragments: Vec<u64> = only(&first).tags().iter().map(|tag| tag.slot).collect();
    assert_eq!(fragments, [0, 1, 2, 3]);
    assert_eq!(batches.next(Duration::ZERO).unwrap().env_steps(), 250);
    assert!(matches!(batches.next(Duration::ZERO), Err(NextError::TimedOut)));
    assert_eq!((batches.partial_size(), batches.backlog()), (10, 0));
}

#[test]
fn a_batch_of_one_fragment_is_moved_without_a_copy() {
    let (mut workers, mut batches) = set_up(10);
    let fragment = workers.fragment(shape(5, 4), 0);
    let address = only(&fragment).rewards().as_ptr();
    workers.sender.push(fragment).unwrap();
    let batch = batches.next(Duration::ZERO).unwrap();
    assert_eq!(only(&batch).rewards().as_ptr(), address);
}

#[test]
fn the_partial_batch_survives_time_outs() {
    let (mut workers, mut batches) = set_up(3);
    for pushed in 1..3 {
        workers.push(1, 0);
        assert!(matches!(batches.next(Duration::from_millis(1)), Err(NextError::TimedOut)));
        assert_eq!(batches.partial_size(), pushed);
    }
    workers.push(1, 0);
    assert_eq!(batches.next(Duration::ZERO).unwrap().env_steps(), 3);
}

#[test]
fn tickets_of_the_fragments_travel_with_the_batch() {
    let (mut workers, mut batches) = set_up(6);
    workers.push(4, 0);
    workers.push(4, 0);
    let mut batch = batches.next(Duration::ZERO).unwrap();
    assert_eq!(batch.ticket_steps(), Some(Steps { env: 8, agent: 8 }));
    batch.take_ticket().unwrap().trained();
    assert_eq!(workers.ledger.snapshot().trained_once.env, 8);
    assert!(workers.ledger.snapshot().is_closed());
}

#[test]
fn a_fragment_of_another_shape_is_an_error_that_costs_only_itself() {
    let (mut workers, mut batches) = set_up(4);
    workers.push(2, 0);
    let odd = workers.fragment(BatchShape { obs_len: 4, ..shape(1, 3) }, 0);
    workers.sender.push(odd).unwrap();
    workers.push(2, 0);
    let error = batches.next(Duration::ZERO).unwrap_err();
    assert!(error.to_string().contains("`obs_len` is 4, expected 3"), "{error}");
    assert_eq!(workers.dropped("shape_mismatch"), Some(Steps { env: 3, agent: 3 }));
    assert_eq!(batches.next(Duration::ZERO).unwrap().env_steps(), 4);
}

#[test]
fn drain_gives_back_the_partial_batch_and_the_queue_in_order() {
    let (mut workers, mut batches) = set_up(100);
    workers.push(1, 0);
    workers.push(2, 0);
    assert!(matches!(batches.next(Duration::ZERO), Err(NextError::TimedOut)));
    workers.push(3, 0);
    drop(workers.shutdown);
    assert!(matches!(batches.next(Duration::ZERO), Err(NextError::Closed)));
    let held = batches.drain();
    assert_eq!(held.iter().map(MultiAgentBatch::env_steps).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(workers.ledger.snapshot().in_flight.env, 6);
    for mut batch in held {
        batch.take_ticket().unwrap().dropped("run_ended");
    }
    assert!(workers.ledger.snapshot().is_closed());
    assert_eq!(workers.ledger.snapshot().in_flight.env, 0);
}

#[test]
fn it_keeps_the_promises_of_a_source() {
    check_all(|| {
        let (workers, source) = set_up(1);
        let Workers { sender, shutdown, pool, .. } = workers;
        let feed = move |n| {
            let mut fragment = pool.take(shape(1, 1), Tag::default());
            fragment.versions_mut().fill(n);
            sender.push(MultiAgentBatch::single(fragment)).map(drop).unwrap();
        };
        Rig { source, feed, number: |batch| batch.oldest_version().unwrap(), shutdown }
    });
}

#[derive(Clone, Debug)]
enum Act {
    Push { steps: usize },
    PushOddShape,
    Train,
    Discard,
    Quarantine,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1..40_usize).prop_map(|steps| Act::Push { steps }),
        1 => Just(Act::PushOddShape),
        2 => Just(Act::Train),
        1 => Just(Act::Discard),
        1 => Just(Act::Quarantine),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    /// Whatever happens to fragments, every step is accounted for at every moment, and none is in flight at
    /// the end.
    #[test]
    fn the_ledger_closes_whatever_happens(acts in prop::collection::vec(act(), 0..60), size in 1..100_u64) {
        let (mut workers, mut batches) = set_up(size);
        for act in acts {
            match act {
                Act::Push { steps } => {
                    let fragment = workers.fragment(shape(1, steps), 1);
                    drop(workers.sender.try_push(fragment)); // a full queue gives it back, and here it ends
                }
                Act::PushOddShape => {
                    let fragment = workers.fragment(shape(2, 1), 1);
                    drop(workers.sender.try_push(fragment));
                }
                Act::Train => if let Ok(mut batch) = batches.next(Duration::ZERO) {
                    prop_assert_eq!(batch.ticket_steps(), Some(batch.steps()));
                    batch.take_ticket().unwrap().trained();
                },
                Act::Discard => drop(batches.next(Duration::ZERO)),
                Act::Quarantine => if let Ok(mut batch) = batches.next(Duration::ZERO) {
                    batch.take_ticket().unwrap().dropped("non_finite_loss");
                },
            }
            prop_assert!(workers.ledger.snapshot().is_closed());
        }
        drop(batches);
        let totals = workers.ledger.snapshot();
        prop_assert!(totals.is_closed());
        prop_assert_eq!(totals.in_flight, Steps::default());
    }
}
