use std::num::NonZeroUsize;
use std::time::Duration;

use pronk_model::time::FOREVER;
use pronk_model::{block_on, check, exhaust, sometimes, thread};

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
fn a_notifier_wakes_every_waiter() {
    exhaust("notifier", || {
        let notifier = Notifier::new();
        let waiters = [notifier.clone(), notifier.clone()].map(|waiter| thread::spawn(move || waiter.wait(FOREVER)));
        notifier.notify();
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
    });
}

/// A task is woken as a thread is.
#[test]
fn a_notifier_wakes_a_task() {
    exhaust("notifier, a task", || {
        let notifier = Notifier::new();
        let waiter = notifier.clone();
        let waiting = thread::spawn(move || block_on(waiter.notified()));
        notifier.notify();
        waiting.join().unwrap();
    });
}

/// A wait that times out takes no notification with it.
#[test]
fn a_wait_that_times_out_leaves_the_notification_to_the_next() {
    check("notifier, time-outs", SCHEDULES, || {
        let notifier = Notifier::new();
        let waiter = notifier.clone();
        let waiting = thread::spawn(move || {
            let is_notified = waiter.wait(SHORT);
            sometimes("a wait times out", !is_notified);
            sometimes("a wait is notified", is_notified);
            is_notified || waiter.wait(SHORT) || waiter.wait(FOREVER)
        });
        notifier.notify();
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
            Ok(report) => {
                sometimes("reports fold", report.0 > 1);
                sum += report.0;
            }
            Err(PopError::Closed) => return sum,
            Err(PopError::TimedOut) => panic!("nothing came"),
        }
    }
}

/// Dropping the guard ends every sleep, and the end is final.
#[test]
fn the_shutdown_ends_every_sleep() {
    exhaust("shutdown", || {
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
