use std::thread;

use proptest::prelude::*;

use super::*;
use crate::source_contract::{self, Rig, check_all};

const LONG: Duration = Duration::from_secs(60);

/// Makes a queue of one kind: what is promised below holds for each.
type Make = fn(capacity: usize) -> (InqueueSender<u64>, InqueueReceiver<u64>, ShutdownGuard);

/// Runs every promise, an ordinary function, as a test of its own for one kind of queue.
macro_rules! queue_contract {
    ($kind:ident, $make:expr, [$($promise:ident),* $(,)?]) => {
        mod $kind {
            use super::*;

            $(#[test]
            fn $promise() {
                super::$promise($make);
            })*
        }
    };
}

/// Every promise that holds for queues of both kinds.
macro_rules! promises_of {
    ($kind:ident, $make:expr) => {
        queue_contract!(
            $kind,
            $make,
            [
                items_come_out_in_the_order_pushed,
                push_waits_for_room_and_says_how_long,
                try_push_returns_the_item_when_full,
                push_returns_the_item_when_the_receiver_is_gone,
                dropping_the_receiver_wakes_every_blocked_push,
                pop_gives_what_is_left_when_the_senders_are_gone_then_closed,
                dropping_the_last_sender_wakes_a_blocked_pop,
                ending_the_run_wakes_every_blocked_push,
                ending_the_run_wakes_a_blocked_pop,
                a_queue_of_an_ended_run_takes_nothing_and_drains,
                every_item_of_many_senders_arrives_once,
                items_left_in_a_dropped_queue_are_dropped_with_it,
                a_very_long_timeout_is_no_overflow,
                a_queue_that_was_drained_goes_on,
                a_push_works_instead_of_blocking_while_there_is_work,
                a_push_waits_on_when_no_more_work_will_come,
            ]
        );
    };
}

promises_of!(bounded, |capacity| make(capacity, Gate::Bounded));
promises_of!(fill_then_drain, |capacity| make(capacity, Gate::FillThenDrain));

fn make<T>(capacity: usize, gate: Gate) -> (InqueueSender<T>, InqueueReceiver<T>, ShutdownGuard) {
    let (shutdown, token) = shutdown();
    let (sender, receiver) = inqueue(capacity, gate, &token).unwrap();
    (sender, receiver, shutdown)
}

fn items_come_out_in_the_order_pushed(make: Make) {
    let (sender, receiver, _guard) = make(3);
    assert_eq!(sender.capacity(), 3);
    for n in 0..3 {
        assert_eq!(sender.push(n), Ok(Duration::ZERO));
    }
    assert_eq!((sender.len(), receiver.len()), (3, 3));
    for n in 0..3 {
        assert_eq!(receiver.pop(Duration::ZERO), Ok(n));
    }
    assert_eq!(receiver.pop(Duration::ZERO), Err(PopError::TimedOut));
    assert!(sender.is_empty() && receiver.is_empty());
}

fn push_waits_for_room_and_says_how_long(make: Make) {
    // Which thread comes first is not in our hands, so it is tried until the push came before the pop.
    let waited = (0..10_000).any(|_| {
        let (sender, receiver, _guard) = make(1);
        sender.push(1).unwrap();
        let pushing = thread::spawn(move || sender.push(2));
        thread::yield_now();
        assert_eq!(receiver.pop(LONG), Ok(1));
        assert_eq!(receiver.pop(LONG), Ok(2));
        pushing.join().unwrap().unwrap() > Duration::ZERO
    });
    assert!(waited);
}

/// Takes an item at every wake.
struct Taking {
    wakes: crate::sync::channel::Receiver<()>,
    from: InqueueReceiver<u64>,
    taken: Vec<u64>,
}

impl Meanwhile for Taking {
    fn wakes(&self) -> Option<&crate::sync::channel::Receiver<()>> {
        Some(&self.wakes)
    }

    fn work(&mut self) {
        self.taken.extend(self.from.pop(Duration::ZERO));
    }
}

fn a_push_works_instead_of_blocking_while_there_is_work(make: Make) {
    let (sender, from, _guard) = make(2);
    let (wake, wakes) = crate::sync::channel::bounded(8);
    let mut taking = Taking { wakes, from, taken: Vec::new() };
    for n in 0..2 {
        assert_eq!(sender.push_meanwhile(n, &mut taking), Ok(Duration::ZERO), "there is room");
    }
    (0..2).for_each(|_| wake.send(()).unwrap());
    // On another thread, so that a push that does not work fails the test instead of hanging.
    let (done, ended) = crate::sync::channel::bounded(1);
    thread::spawn(move || done.send((sender.push_meanwhile(2, &mut taking), taking)).is_ok());
    let (pushed, mut taking) = ended.recv_timeout(LONG).unwrap();
    assert!(pushed.unwrap() > Duration::ZERO);
    let taken = std::mem::take(&mut taking.taken);
    // One makes room, unless the gate opens with the last.
    assert!(taken == [0] || taken == [0, 1], "{taken:?}");
    assert_eq!(taking.from.drain().collect::<Vec<_>>(), (taken.len() as u64..3).collect::<Vec<_>>());
}

fn a_push_waits_on_when_no_more_work_will_come(make: Make) {
    let (sender, receiver, _guard) = make(1);
    let (wake, wakes) = crate::sync::channel::bounded(1);
    drop(wake);
    sender.push(1).unwrap();
    let (_, from, _other) = make(1);
    let mut taking = Taking { wakes, from, taken: Vec::new() };
    let pushing = thread::spawn(move || sender.push_meanwhile(2, &mut taking).is_ok());
    assert_eq!(receiver.pop(LONG), Ok(1));
    assert_eq!(receiver.pop(LONG), Ok(2));
    assert!(pushing.join().unwrap());
}

fn try_push_returns_the_item_when_full(make: Make) {
    let (sender, _receiver, _guard) = make(1);
    assert_eq!(sender.try_push(1), Ok(()));
    assert_eq!(sender.try_push(2), Err(TryPushError::Full(2)));
}

fn push_returns_the_item_when_the_receiver_is_gone(make: Make) {
    let (sender, receiver, _guard) = make(1);
    drop(receiver);
    assert_eq!(sender.push(7), Err(Closed(7)));
    assert_eq!(sender.try_push(8), Err(TryPushError::Closed(8)));
}

fn dropping_the_receiver_wakes_every_blocked_push(make: Make) {
    let (sender, receiver, _guard) = make(1);
    sender.push(0).unwrap();
    wakes_every_blocked_push(sender, || drop(receiver));
}

fn ending_the_run_wakes_every_blocked_push(make: Make) {
    let (sender, _receiver, shutdown) = make(1);
    sender.push(0).unwrap();
    wakes_every_blocked_push(sender, || drop(shutdown));
}

fn wakes_every_blocked_push(sender: InqueueSender<u64>, end: impl FnOnce()) {
    let blocked: Vec<_> = (1..=4)
        .map(|n| {
            let sender = sender.clone();
            thread::spawn(move || sender.push(n))
        })
        .collect();
    end();
    for (n, thread) in (1..).zip(blocked) {
        assert_eq!(thread.join().unwrap(), Err(Closed(n)), "the item comes back");
    }
}

fn pop_gives_what_is_left_when_the_senders_are_gone_then_closed(make: Make) {
    let (sender, receiver, _guard) = make(2);
    sender.clone().push(1).unwrap();
    sender.push(2).unwrap();
    drop(sender);
    assert_eq!(receiver.pop(Duration::ZERO), Ok(1));
    assert_eq!(receiver.pop(LONG), Ok(2));
    assert_eq!(receiver.pop(Duration::ZERO), Err(PopError::Closed));
    assert_eq!(receiver.pop(LONG), Err(PopError::Closed));
}

fn dropping_the_last_sender_wakes_a_blocked_pop(make: Make) {
    let (sender, receiver, _guard) = make(1);
    let blocked = thread::spawn(move || receiver.pop(LONG));
    drop(sender);
    assert_eq!(blocked.join().unwrap(), Err(PopError::Closed));
}

fn ending_the_run_wakes_a_blocked_pop(make: Make) {
    let (_sender, receiver, shutdown) = make(1);
    let blocked = thread::spawn(move || receiver.pop(LONG));
    drop(shutdown);
    assert_eq!(blocked.join().unwrap(), Err(PopError::Closed));
}

fn a_queue_of_an_ended_run_takes_nothing_and_drains(make: Make) {
    let (sender, receiver, shutdown) = make(4);
    sender.push(1).unwrap();
    sender.push(2).unwrap();
    drop(shutdown);
    assert_eq!(sender.push(3), Err(Closed(3)), "though there is room");
    assert_eq!(receiver.pop(LONG), Err(PopError::Closed), "though items wait");
    assert_eq!(receiver.drain().collect::<Vec<_>>(), [1, 2]);
}

fn every_item_of_many_senders_arrives_once(make: Make) {
    const PER_SENDER: u64 = if cfg!(miri) { 20 } else { 500 };
    let (sender, receiver, _guard) = make(3);
    let senders: Vec<_> = (0..4)
        .map(|worker| {
            let sender = sender.clone();
            thread::spawn(move || {
                for n in 0..PER_SENDER {
                    sender.push(worker * PER_SENDER + n).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut arrived = Vec::new();
    while let Ok(item) = receiver.pop(LONG) {
        arrived.push(item);
    }
    for sender in senders {
        sender.join().unwrap();
    }
    arrived.sort_unstable();
    assert_eq!(arrived, (0..4 * PER_SENDER).collect::<Vec<_>>());
}

fn a_very_long_timeout_is_no_overflow(make: Make) {
    let (sender, receiver, _guard) = make(1);
    sender.push(1).unwrap();
    assert_eq!(receiver.pop(Duration::MAX), Ok(1));
    drop(sender);
    assert_eq!(receiver.pop(Duration::MAX), Err(PopError::Closed));
}

fn items_left_in_a_dropped_queue_are_dropped_with_it(make: Make) {
    let (sender, receiver, _guard) = make(4);
    sender.push(1).unwrap();
    drop(receiver);
    assert!(sender.is_empty(), "so a ticket inside is settled although the sender lives on");
}

fn a_queue_that_was_drained_goes_on(make: Make) {
    let (sender, receiver, _guard) = make(3);
    for pushed in 0..=3 {
        (0..pushed).for_each(|n| sender.try_push(n).unwrap());
        assert_eq!(receiver.drain().collect::<Vec<_>>(), (0..pushed).collect::<Vec<_>>());
    }
    (0..3).for_each(|n| sender.try_push(n).unwrap());
    assert_eq!(receiver.pop(LONG), Ok(0));
    assert_eq!(receiver.drain().collect::<Vec<_>>(), [1, 2]);
    (0..3).for_each(|n| sender.try_push(n).unwrap());
    assert_eq!(receiver.pop(LONG), Ok(0));
}

#[test]
fn a_bounded_queue_is_a_source() {
    check_all(|| rig(4, Gate::Bounded));
}

#[test]
fn a_fill_then_drain_queue_is_a_source_that_gives_once_it_is_full() {
    use source_contract as source;
    let rig = |capacity| rig(capacity, Gate::FillThenDrain);
    source::items_come_in_the_order_sent(rig(4));
    source::a_time_out_loses_nothing(rig(1));
    source::what_was_sent_comes_before_closed(rig(4));
    source::ending_the_run_ends_a_wait(rig(4));
    source::drain_gives_what_is_left_when_the_run_ended(rig(3));
    source::an_empty_source_has_no_backlog(rig(1));
}

fn rig(capacity: usize, gate: Gate) -> Rig<InqueueReceiver<u64>, impl FnMut(u64)> {
    let (sender, source, shutdown) = make(capacity, gate);
    Rig { source, feed: move |n| sender.push(n).map(drop).unwrap(), number: |n| *n, shutdown }
}

#[test]
fn no_room_at_all_is_refused_with_the_reason() {
    let (_guard, token) = shutdown();
    let error = inqueue::<u64>(0, Gate::FillThenDrain, &token).unwrap_err();
    assert!(error.to_string().contains("at least 1"), "{error}");
}

#[test]
fn without_room_a_push_waits_until_its_item_is_taken() {
    let (sender, receiver, guard) = make(0, Gate::Bounded);
    assert_eq!(sender.try_push(1), Err(TryPushError::Full(1)));
    let pushing = thread::spawn({
        let sender = sender.clone();
        move || (sender.push(1), sender.push(2))
    });
    assert_eq!((receiver.pop(LONG), receiver.len(), receiver.pop(LONG)), (Ok(1), 0, Ok(2)));
    let (first, second) = pushing.join().unwrap();
    assert!(first.is_ok() && second.is_ok());
    wakes_every_blocked_push(sender.clone(), || drop(guard));
    let (sender, receiver, _guard) = make(0, Gate::Bounded);
    wakes_every_blocked_push(sender, || drop(receiver));
}

#[test]
fn the_last_sender_opens_a_queue_that_is_not_full() {
    let (sender, receiver, _guard) = make(3, Gate::FillThenDrain);
    let other = sender.clone();
    sender.push(1).unwrap();
    other.push(2).unwrap();
    drop(sender);
    assert_eq!(receiver.pop(Duration::ZERO), Err(PopError::TimedOut), "there is a sender that may fill it");
    let blocked = thread::spawn(move || (receiver.pop(LONG), receiver.pop(LONG), receiver.pop(LONG)));
    drop(other);
    assert_eq!(blocked.join().unwrap(), (Ok(1), Ok(2), Err(PopError::Closed)));
}

#[test]
fn senders_may_leave_a_full_queue() {
    let (sender, receiver, _guard) = make(2, Gate::FillThenDrain);
    sender.push(1).unwrap();
    sender.push(2).unwrap();
    drop(sender);
    let popped = [(); 4].map(|()| receiver.pop(LONG));
    assert_eq!(popped, [Ok(1), Ok(2), Err(PopError::Closed), Err(PopError::Closed)]);
}

#[test]
fn nobody_pushes_while_the_queue_is_drained() {
    const CAPACITY: usize = 5;
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 300 };
    let (sender, receiver, _guard) = make(CAPACITY, Gate::FillThenDrain);
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let sender = sender.clone();
            thread::spawn(move || (0..).take_while(|n| sender.push(*n).is_ok()).count())
        })
        .collect();
    drop(sender);
    for _ in 0..ROUNDS {
        receiver.pop(LONG).unwrap();
        for left in (1..CAPACITY).rev() {
            assert_eq!(receiver.len(), left, "after the first pop nothing comes until all is popped");
            thread::yield_now();
            receiver.pop(Duration::ZERO).unwrap();
        }
    }
    drop(receiver);
    let pushed: usize = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
    assert!(pushed >= ROUNDS * CAPACITY);
}

/// The rule in the words of `tests/golden/seed_samplers.json`.
struct Model {
    capacity: usize,
    items: std::collections::VecDeque<u64>,
    collects: bool,
}

impl Model {
    fn push(&mut self, item: u64) -> bool {
        let granted = self.collects;
        if granted {
            self.items.push_back(item);
            self.collects = self.items.len() < self.capacity;
        }
        granted
    }

    fn pop(&mut self) -> Option<u64> {
        let item = if self.collects { None } else { self.items.pop_front() };
        self.collects |= item.is_some() && self.items.is_empty();
        item
    }

    fn drain(&mut self) -> Vec<u64> {
        self.collects = true;
        self.items.drain(..).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Push,
    Pop,
    Drain,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![12 => Just(Op::Push), 8 => Just(Op::Pop), 1 => Just(Op::Drain)];
    proptest::collection::vec(op, 0..200)
}

proptest! {
    #[test]
    fn fill_then_drain_grants_what_its_rule_grants(capacity in 1_usize..6, ops in ops()) {
        let (sender, receiver, _guard) = make(capacity, Gate::FillThenDrain);
        let mut model = Model { capacity, items: [].into(), collects: true };
        for (n, op) in (0..).zip(ops) {
            match op {
                Op::Push => {
                    let want = if model.push(n) { Ok(()) } else { Err(TryPushError::Full(n)) };
                    prop_assert_eq!(sender.try_push(n), want);
                }
                Op::Pop => {
                    prop_assert_eq!(receiver.pop(Duration::ZERO), model.pop().ok_or(PopError::TimedOut));
                }
                Op::Drain => prop_assert_eq!(receiver.drain().collect::<Vec<_>>(), model.drain()),
            }
            prop_assert_eq!((sender.len(), receiver.len()), (model.items.len(), model.items.len()));
        }
        let left: Vec<_> = model.items.into();
        drop(sender);
        let popped: Vec<_> = std::iter::from_fn(|| receiver.pop(Duration::ZERO).ok()).collect();
        prop_assert_eq!(popped, left, "without senders everything comes");
    }
}
