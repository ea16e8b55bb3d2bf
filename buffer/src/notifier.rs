//! One wake-up for several mailboxes.

use std::time::Duration;

use crate::sync::Instant;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, Notify, PoisonError};

/// Wakes a thread or task when one of several mailboxes gets a report or closes.
///
/// It counts notifications, and every handle remembers how many it has seen, so that none is lost between
/// polling the mailboxes and waiting. Each waiter needs its own clone.
///
/// ```
/// use std::time::Duration;
/// use pronk_buffer::Notifier;
///
/// let notifier = Notifier::new();
/// notifier.notify();
/// assert!(notifier.wait(Duration::ZERO)); // notified before the wait began
/// assert!(!notifier.wait(Duration::ZERO)); // and seen once
/// ```
#[derive(Debug, Default)]
pub struct Notifier {
    shared: Arc<Shared>,
    seen: AtomicU64,
}

#[derive(Debug, Default)]
struct Shared {
    notifications: Mutex<Notifications>,
    /// For threads.
    waiting_threads: Condvar,
    /// For tasks.
    notify: Notify,
}

#[derive(Debug, Default)]
struct Notifications {
    count: u64,
    threads_waiting: usize,
}

impl Notifier {
    /// A notifier without notifications.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes every waiter, now or at its next wait.
    pub fn notify(&self) {
        let mut notifications = self.shared.lock();
        notifications.count += 1;
        let wake_threads = notifications.threads_waiting > 0; // a notify without waiters would still be a system call
        drop(notifications);
        if wake_threads {
            self.shared.waiting_threads.notify_all();
        }
        self.shared.notify.notify_waiters();
    }

    /// Waits for a notification that this handle has not seen; false after a timeout.
    ///
    /// *Blocks* for at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> bool {
        let began = Instant::now();
        let mut notifications = self.shared.lock();
        loop {
            if self.catch_up(&notifications) {
                return true;
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return false;
            }
            notifications.threads_waiting += 1;
            notifications =
                self.shared.waiting_threads.wait_timeout(notifications, left).unwrap_or_else(PoisonError::into_inner).0;
            notifications.threads_waiting -= 1;
        }
    }

    /// Looks now and after each notification; what `look` finds, or `None` after `timeout`.
    ///
    /// *Blocks* for at most `timeout`, and for `look`.
    pub fn wait_for<R>(&self, timeout: Duration, mut look: impl FnMut() -> Option<R>) -> Option<R> {
        let began = Instant::now();
        loop {
            // In this order, so that what arrives in time is found however late it is looked for.
            let left = timeout.saturating_sub(began.elapsed());
            let found = look();
            if found.is_some() || left.is_zero() {
                return found;
            }
            self.wait(left);
        }
    }

    /// As [`wait`](Self::wait), for tasks. Cancel safe.
    pub async fn notified(&self) {
        loop {
            // Created before the check, so that a notification in between wakes it.
            let next = self.shared.notify.notified();
            if self.catch_up(&self.shared.lock()) {
                return;
            }
            next.await;
        }
    }

    /// Marks all notifications as seen; true if there were new ones.
    fn catch_up(&self, notifications: &Notifications) -> bool {
        // Ordered by the lock that guards `notifications`.
        self.seen.swap(notifications.count, Ordering::Relaxed) != notifications.count
    }
}

impl Clone for Notifier {
    /// Another handle, which has seen the same notifications.
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), seen: AtomicU64::new(self.seen.load(Ordering::Relaxed)) }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Notifications> {
        self.notifications.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_notification_wakes_a_thread_that_waits() {
        let notifier = Notifier::new();
        let waiter = notifier.clone();
        let woken = thread::spawn(move || waiter.wait(LONG));
        notifier.notify();
        assert!(woken.join().unwrap());
    }

    #[test]
    fn every_handle_sees_each_notification() {
        let notifier = Notifier::new();
        let other = notifier.clone();
        notifier.notify();
        assert!(notifier.wait(Duration::ZERO) && !notifier.wait(Duration::ZERO));
        assert!(other.clone().wait(Duration::ZERO), "a clone has seen as much as its original");
        assert!(other.wait(Duration::ZERO));
    }

    #[test]
    fn two_threads_in_step_miss_no_notification() {
        const ROUNDS: usize = if cfg!(miri) { 50 } else { 2_000 };
        let (there, back) = (Notifier::new(), Notifier::new());
        let (waits, answers) = (there.clone(), back.clone());
        let echo = thread::spawn(move || {
            (0..ROUNDS).all(|_| {
                let seen = waits.wait(LONG);
                answers.notify();
                seen
            })
        });
        assert!((0..ROUNDS).all(|_| {
            there.notify();
            back.wait(LONG)
        }));
        assert!(echo.join().unwrap());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_task_sees_notifications_before_and_during_its_wait() {
        let notifier = Notifier::new();
        notifier.notify();
        notifier.notified().await;
        let sender = notifier.clone();
        let notifications = thread::spawn(move || sender.notify());
        notifier.notified().await;
        notifications.join().unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_wait_dropped_half_way_takes_no_notification_with_it() {
        let notifier = Notifier::new();
        let half_way = tokio::time::timeout(Duration::from_millis(1), notifier.notified()).await;
        assert!(half_way.is_err());
        notifier.notify();
        notifier.notified().await;
    }
}
