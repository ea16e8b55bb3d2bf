use std::sync::Arc;
use std::thread;

use super::*;
use crate::lifeline::{Lifeline, lifeline};
use crate::source_contract::{Rig, check_all};

const LONG: Duration = Duration::from_secs(60);

/// Makes a queue of one kind: what is promised below holds for each.
type Make = fn(capacity: usize) -> (InqueueSender<u64>, InqueueReceiver<u64>, Lifeline);

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

queue_contract!(
    bounded,
    make_bounded,
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
        it_is_a_source,
    ]
);

fn make_bounded(capacity: usize) -> (InqueueSender<u64>, InqueueReceiver<u64>, Lifeline) {
    let (lifeline, tether) = lifeline();
    let (sender, receiver) = inqueue(capacity, &tether).unwrap();
    (sender, receiver, lifeline)
}

fn items_come_out_in_the_order_pushed(make: Make) {
    let (sender, receiver, _lifeline) = make(3);
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
        let (sender, receiver, _lifeline) = make(1);
        sender.push(1).unwrap();
        let pushing = thread::spawn(move || sender.push(2));
        thread::yield_now();
        assert_eq!(receiver.pop(LONG), Ok(1));
        assert_eq!(receiver.pop(LONG), Ok(2));
        pushing.join().unwrap().unwrap() > Duration::ZERO
    });
    assert!(waited);
}

fn try_push_returns_the_item_when_full(make: Make) {
    let (sender, _receiver, _lifeline) = make(1);
    assert_eq!(sender.try_push(1), Ok(()));
    assert_eq!(sender.try_push(2), Err(TryPushError::Full(2)));
}

fn push_returns_the_item_when_the_receiver_is_gone(make: Make) {
    let (sender, receiver, _lifeline) = make(1);
    drop(receiver);
    assert_eq!(sender.push(7), Err(Closed(7)));
    assert_eq!(sender.try_push(8), Err(TryPushError::Closed(8)));
}

fn dropping_the_receiver_wakes_every_blocked_push(make: Make) {
    let (sender, receiver, _lifeline) = make(1);
    wakes_every_blocked_push(sender, || drop(receiver));
}

fn ending_the_run_wakes_every_blocked_push(make: Make) {
    let (sender, _receiver, lifeline) = make(1);
    wakes_every_blocked_push(sender, || drop(lifeline));
}

fn wakes_every_blocked_push(sender: InqueueSender<u64>, end: impl FnOnce()) {
    sender.push(0).unwrap();
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
    let (sender, receiver, _lifeline) = make(2);
    sender.clone().push(1).unwrap();
    sender.push(2).unwrap();
    drop(sender);
    assert_eq!(receiver.pop(Duration::ZERO), Ok(1));
    assert_eq!(receiver.pop(LONG), Ok(2));
    assert_eq!(receiver.pop(Duration::ZERO), Err(PopError::Closed));
    assert_eq!(receiver.pop(LONG), Err(PopError::Closed));
}

fn dropping_the_last_sender_wakes_a_blocked_pop(make: Make) {
    let (sender, receiver, _lifeline) = make(1);
    let blocked = thread::spawn(move || receiver.pop(LONG));
    drop(sender);
    assert_eq!(blocked.join().unwrap(), Err(PopError::Closed));
}

fn ending_the_run_wakes_a_blocked_pop(make: Make) {
    let (_sender, receiver, lifeline) = make(1);
    let blocked = thread::spawn(move || receiver.pop(LONG));
    drop(lifeline);
    assert_eq!(blocked.join().unwrap(), Err(PopError::Closed));
}

fn a_queue_of_an_ended_run_takes_nothing_and_drains(make: Make) {
    let (sender, receiver, lifeline) = make(4);
    sender.push(1).unwrap();
    sender.push(2).unwrap();
    drop(lifeline);
    assert_eq!(sender.push(3), Err(Closed(3)), "though there is room");
    assert_eq!(receiver.pop(LONG), Err(PopError::Closed), "though items wait");
    assert_eq!(receiver.drain().collect::<Vec<_>>(), [1, 2]);
}

fn every_item_of_many_senders_arrives_once(make: Make) {
    const PER_SENDER: u64 = 500;
    let (sender, receiver, _lifeline) = make(3);
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

fn it_is_a_source(make: Make) {
    check_all(|| {
        let (sender, source, lifeline) = make(4);
        Rig { source, feed: move |n| sender.push(n).map(drop).unwrap(), number: |n| *n, lifeline }
    });
}

#[test]
fn no_room_at_all_is_refused_with_the_reason() {
    let (_lifeline, tether) = lifeline();
    let error = inqueue::<u64>(0, &tether).unwrap_err();
    assert!(error.to_string().contains("at least 1"), "{error}");
}

#[test]
fn a_very_long_timeout_is_no_overflow() {
    let (sender, receiver, _lifeline) = make_bounded(1);
    sender.push(1).unwrap();
    assert_eq!(receiver.pop(Duration::MAX), Ok(1));
    drop(sender);
    assert_eq!(receiver.pop(Duration::MAX), Err(PopError::Closed));
}

#[test]
fn items_left_in_a_dropped_queue_are_dropped_with_it() {
    let (_lifeline, tether) = lifeline();
    let (sender, receiver) = inqueue(4, &tether).unwrap();
    let item = Arc::new(());
    sender.push(Arc::clone(&item)).unwrap();
    drop(receiver);
    assert_eq!(Arc::strong_count(&item), 1, "so a ticket inside is settled although the sender lives on");
}
