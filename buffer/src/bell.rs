//! One wake-up for several mailboxes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Wakes a thread or a task when one of several mailboxes got a report or was closed.
///
/// A bell counts its rings and every handle remembers up to where it heard, so a ring between looking into the
/// mailboxes and waiting is not lost: the wait then returns at once. Each waiter has its own clone.
///
/// ```
/// use std::time::Duration;
/// use pronk_buffer::Bell;
///
/// let bell = Bell::new();
/// bell.ring();
/// assert!(bell.wait(Duration::ZERO)); // rung before the wait began
/// assert!(!bell.wait(Duration::ZERO)); // and heard once
/// ```
#[derive(Debug, Default)]
pub struct Bell {
    shared: Arc<Shared>,
    heard: AtomicU64,
}

#[derive(Debug, Default)]
struct Shared {
    rings: Mutex<Rings>,
    /// For threads.
    rung: Condvar,
    /// For tasks.
    notify: Notify,
}

#[derive(Debug, Default)]
struct Rings {
    count: u64,
    threads_waiting: usize,
}

impl Bell {
    /// A bell that has not rung.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes everyone who waits, and whoever waits next without having heard this ring.
    pub fn ring(&self) {
        let mut rings = self.shared.lock();
        rings.count += 1;
        let wake_threads = rings.threads_waiting > 0; // waking nobody would still be a system call
        drop(rings);
        if wake_threads {
            self.shared.rung.notify_all();
        }
        self.shared.notify.notify_waiters();
    }

    /// Waits until the bell rings; true if it did since this handle last heard it.
    ///
    /// *Blocks* for at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> bool {
        let began = Instant::now();
        let mut rings = self.shared.lock();
        loop {
            if self.hear(&rings) {
                return true;
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return false;
            }
            rings.threads_waiting += 1;
            rings = self.shared.rung.wait_timeout(rings, left).unwrap_or_else(PoisonError::into_inner).0;
            rings.threads_waiting -= 1;
        }
    }

    /// Resolves when the bell has rung since this handle last heard it. Dropping it half-way loses nothing.
    pub async fn rung(&self) {
        loop {
            // Made before the look: a ring from here on wakes it even before it is polled.
            let next_ring = self.shared.notify.notified();
            if self.hear(&self.shared.lock()) {
                return;
            }
            next_ring.await;
        }
    }

    /// Takes note of all rings so far; true if there were new ones.
    fn hear(&self, rings: &Rings) -> bool {
        // Ordered by the lock that guards `rings`.
        self.heard.swap(rings.count, Ordering::Relaxed) != rings.count
    }
}

impl Clone for Bell {
    /// Another handle on the same bell, which has heard as much as this one.
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), heard: AtomicU64::new(self.heard.load(Ordering::Relaxed)) }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_ring_wakes_a_thread_that_waits() {
        let bell = Bell::new();
        let waiter = bell.clone();
        let woken = thread::spawn(move || waiter.wait(LONG));
        bell.ring();
        assert!(woken.join().unwrap());
    }

    #[test]
    fn every_handle_hears_for_itself() {
        let bell = Bell::new();
        let other = bell.clone();
        bell.ring();
        assert!(bell.wait(Duration::ZERO) && !bell.wait(Duration::ZERO));
        assert!(other.clone().wait(Duration::ZERO), "a clone has heard as much as its original");
        assert!(other.wait(Duration::ZERO));
    }

    #[test]
    fn two_threads_in_step_by_bells_alone_never_miss_a_ring() {
        const ROUNDS: usize = 2_000;
        let (there, back) = (Bell::new(), Bell::new());
        let (hears, answers) = (there.clone(), back.clone());
        let echo = thread::spawn(move || {
            (0..ROUNDS).all(|_| {
                let heard = hears.wait(LONG);
                answers.ring();
                heard
            })
        });
        assert!((0..ROUNDS).all(|_| {
            there.ring();
            back.wait(LONG)
        }));
        assert!(echo.join().unwrap());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_task_hears_rings_before_and_during_its_wait() {
        let bell = Bell::new();
        bell.ring();
        bell.rung().await;
        let ringer = bell.clone();
        let rings = thread::spawn(move || ringer.ring());
        bell.rung().await;
        rings.join().unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_wait_dropped_half_way_takes_no_ring_with_it() {
        let bell = Bell::new();
        let half_way = tokio::time::timeout(Duration::from_millis(1), bell.rung()).await;
        assert!(half_way.is_err());
        bell.ring();
        bell.rung().await;
    }
}
