use std::num::NonZeroUsize;
use std::time::Duration;

use pronk_model::time::FOREVER;
use pronk_model::{block_on, check, exhaust, thread};

use super::SCHEDULES;
use crate::{Fold, Mailbox, Notifier, PopError, mailbox, shutdown};

const SHORT: Duration = Duration::from_millis(1);

struct Count(u64);

impl Fold for Count {
    fn fold(&mut self, later: Self) {
        self.0 += later.0;
    }
}

/// A notification wakes every thread that waits, or that waits next.
#[test]
fn the_bell_wakes_every_waiter() {
    exhaust("bell", || {
        let bell = Notifier::new();
        let waiters = [bell.clone(), bell.clone()].map(|bell| thread::spawn(move || bell.wait(FOREVER)));
        bell.notify();
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
    });
}

/// A task is woken as a thread is.
#[test]
fn the_bell_wakes_a_task() {
    exhaust("bell, a task", || {
        let bell = Notifier::new();
        let waiter = bell.clone();
        let waiting = thread::spawn(move || block_on(waiter.notified()));
        bell.notify();
        waiting.join().unwrap();
    });
}

/// A wait that times out takes no notification with it.
#[test]
fn a_wait_that_times_out_leaves_the_notification_to_the_next() {
    check("bell, time-outs", SCHEDULES, || {
        let bell = Notifier::new();
        let waiter = bell.clone();
        let waiting = thread::spawn(move || waiter.wait(SHORT) || waiter.wait(SHORT) || waiter.wait(FOREVER));
        bell.notify();
        assert!(waiting.join().unwrap());
    });
}

/// A full mailbox folds and loses no count, and its reader gets all before it sees the end.
#[test]
fn a_mailbox_loses_no_count() {
    check("mailbox", SCHEDULES, || {
        let (sender, reports) = mailbox(NonZeroUsize::MIN, &Notifier::new());
        let senders = [sender.clone(), sender].map(|sender| {
            thread::spawn(move || {
                for _ in 0..2 {
                    sender.post(Count(1)).unwrap();
                }
            })
        });
        assert_eq!(all(&reports), 4);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// The last sender wakes the reader.
#[test]
fn a_mailbox_ends_with_its_last_sender() {
    exhaust("mailbox, the end", || {
        let (sender, reports) = mailbox::<Count>(NonZeroUsize::MIN, &Notifier::new());
        let dropping = thread::spawn(move || drop(sender));
        assert_eq!(all(&reports), 0);
        dropping.join().unwrap();
    });
}

fn all(reports: &Mailbox<Count>) -> u64 {
    let mut sum = 0;
    loop {
        match reports.take(FOREVER) {
            Ok(report) => sum += report.0,
            Err(PopError::Closed) => return sum,
            Err(PopError::TimedOut) => panic!("nothing came"),
        }
    }
}

/// Dropping the guard ends every sleep, and the end is final.
#[test]
fn a_lifeline_ends_every_sleep() {
    exhaust("lifeline", || {
        let (guard, token) = shutdown();
        let sleeping = token.clone();
        let sleeper = thread::spawn(move || {
            assert!(sleeping.sleep(FOREVER).is_err());
            assert!(sleeping.is_shut_down());
        });
        let was_shut_down = token.is_shut_down();
        drop(guard);
        assert!(!was_shut_down && token.is_shut_down());
        sleeper.join().unwrap();
    });
}
