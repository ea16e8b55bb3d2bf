use std::sync::Arc;
use std::time::Duration;

use pronk_metrics::{StepLedger, Steps};
use pronk_model::channel::{Receiver, bounded};
use pronk_model::time::FOREVER;
use pronk_model::{check, sometimes, thread};

use super::SCHEDULES;
use crate::{Closed, Gate, InqueueReceiver, InqueueSender, Meanwhile, PopError, ShutdownGuard, inqueue, shutdown};

const GATES: [(Gate, &str); 2] = [(Gate::Bounded, "bounded"), (Gate::FillThenDrain, "fill then drain")];
const SHORT: Duration = Duration::from_millis(1);

fn queue<T>(capacity: usize, gate: Gate) -> (InqueueSender<T>, InqueueReceiver<T>, ShutdownGuard) {
    let (guard, token) = shutdown();
    let (sender, receiver) = inqueue(capacity, gate, &token).unwrap();
    (sender, receiver, guard)
}

fn of_both_gates(what: &str, model: fn(Gate)) {
    for (gate, name) in GATES {
        check(&format!("inqueue ({name}), {what}"), SCHEDULES, move || model(gate));
    }
}

/// Items of several senders arrive once each, in the order of each sender, and then the queue is closed.
#[test]
fn every_item_arrives_once() {
    of_both_gates("every item once", |gate| {
        let (sender, receiver, _guard) = queue(2, gate);
        let senders = [(sender.clone(), [10, 11]), (sender, [20, 21])].map(|(sender, items)| {
            thread::spawn(move || items.into_iter().for_each(|item| assert!(sender.push(item).is_ok())))
        });
        let mut items = Vec::new();
        loop {
            sometimes("the queue is full", receiver.len() == 2);
            sometimes("the queue is empty", receiver.is_empty());
            match receiver.pop(FOREVER) {
                Ok(item) => items.push(item),
                Err(PopError::Closed) => break,
                Err(PopError::TimedOut) => panic!("nothing came"),
            }
        }
        let of = |tens: i32| items.iter().copied().filter(|item| item / 10 == tens).collect::<Vec<_>>();
        assert_eq!((items.len(), of(1), of(2)), (4, vec![10, 11], vec![20, 21]));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// However a run ends, every push ends, and each item was taken, is drained, or comes back.
#[test]
fn the_end_of_a_run_loses_no_item() {
    of_both_gates("the end of the run", |gate| {
        let (sender, receiver, guard) = queue(1, gate);
        let senders = [sender.clone(), sender]
            .map(|sender| thread::spawn(move || (0..2).filter(|_| matches!(sender.push(()), Err(Closed(())))).count()));
        let ending = thread::spawn(move || drop(guard));
        let mut taken = 0;
        while receiver.pop(FOREVER).is_ok() {
            taken += 1;
        }
        let came_back: usize = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
        ending.join().unwrap();
        let drained = receiver.drain().count();
        assert_eq!(taken + drained + came_back, 4);
        sometimes("an item is taken", taken > 0);
        sometimes("an item is drained", drained > 0);
        sometimes("an item comes back", came_back > 0);
    });
}

/// A receiver that goes away at any time ends every push, and what was in the queue is dropped with it
/// although senders live on.
#[test]
fn a_dropped_receiver_keeps_no_item() {
    of_both_gates("a dropped receiver", |gate| {
        let (sender, receiver, _guard) = queue(2, gate);
        let item = Arc::new(());
        let senders = [sender.clone(), sender.clone()].map(|sender| {
            let item = Arc::clone(&item);
            thread::spawn(move || while sender.push(Arc::clone(&item)).is_ok() {})
        });
        drop(receiver.pop(SHORT));
        sometimes("an item is dropped with the receiver", !receiver.is_empty());
        drop(receiver);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!((Arc::strong_count(&item), sender.len()), (1, 0));
    });
}

/// The ledger closes: every step that was sampled is trained or dropped, exactly once, however the run ends.
#[test]
fn every_ticket_is_settled_once() {
    of_both_gates("tickets", |gate| {
        let ledger = StepLedger::new();
        let (sender, receiver, guard) = queue(1, gate);
        let senders = [sender.clone(), sender].map(|sender| {
            let ledger = ledger.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    drop(sender.push(ledger.sampled(Steps { env: 1, agent: 1 })));
                }
            })
        });
        let ending = thread::spawn(move || drop(guard));
        if let Ok(ticket) = receiver.pop(SHORT) {
            ticket.trained();
        }
        drop(receiver);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        ending.join().unwrap();
        let totals = ledger.snapshot();
        assert!(totals.is_closed() && totals.in_flight == Steps::default(), "{totals:?}");
        sometimes("steps are trained", totals.trained_once.env > 0);
        sometimes("no steps are trained", totals.trained_once.env == 0);
    });
}

/// Behind the gate that fills before it drains, no push happens between the first and the last pop.
#[test]
fn nothing_is_pushed_into_a_queue_that_is_drained() {
    check("inqueue (fill then drain), the gate", SCHEDULES, || {
        let (sender, receiver, _guard) = queue(2, Gate::FillThenDrain);
        let senders = [sender.clone(), sender].map(|sender| thread::spawn(move || while sender.push(()).is_ok() {}));
        for _ in 0..2 {
            receiver.pop(FOREVER).unwrap();
            assert_eq!(receiver.len(), 1);
            receiver.pop(Duration::ZERO).unwrap();
        }
        drop(receiver);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// A queue that is drained while others push goes on: the drain ends, no place is lost, and none comes twice.
#[test]
fn a_drained_queue_keeps_all_its_places() {
    of_both_gates("drained meanwhile", |gate| {
        let (sender, receiver, _guard) = queue(2, gate);
        let pushing = thread::spawn({
            let sender = sender.clone();
            move || assert!((0..3).all(|item| sender.push(item).is_ok()))
        });
        let mut items: Vec<_> = receiver.drain().collect();
        sometimes("a first drain finds items", !items.is_empty());
        sometimes("a first drain finds none", items.is_empty());
        assert!(items.len() <= 2, "more than can wait");
        while items.len() < 3 {
            items.extend(receiver.pop(SHORT));
            items.extend(receiver.drain());
        }
        pushing.join().unwrap();
        assert_eq!(items, [0, 1, 2]);
        assert!((0..2).all(|item| sender.try_push(item).is_ok()));
        assert!(sender.try_push(2).is_err());
    });
}

/// Work for a thread that waits to push.
struct Work {
    wakes: Receiver<()>,
    done: usize,
}

impl Meanwhile for Work {
    fn wakes(&self) -> Option<&Receiver<()>> {
        Some(&self.wakes)
    }

    fn work(&mut self) {
        self.done += 1;
    }
}

/// A push that works meanwhile does all that it is woken for, and still sees room and ends.
#[test]
fn a_push_that_works_meanwhile_misses_neither_work_nor_room() {
    of_both_gates("work meanwhile", |gate| {
        let (sender, receiver, _guard) = queue(1, gate);
        sender.push(0).unwrap();
        let (wake, wakes) = bounded(2);
        let pushing = thread::spawn(move || {
            let mut work = Work { wakes, done: 0 };
            sender.push_meanwhile(1, &mut work).unwrap();
            sometimes("work is done while it waits", work.done > 0);
            sometimes("work is left when there is room", work.done < 2);
            work.done + work.wakes.len()
        });
        wake.send(()).unwrap();
        wake.send(()).unwrap();
        assert_eq!((receiver.pop(FOREVER), receiver.pop(FOREVER)), (Ok(0), Ok(1)));
        assert_eq!(pushing.join().unwrap(), 2);
    });
}
