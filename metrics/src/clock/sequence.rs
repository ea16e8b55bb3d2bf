use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Instant;

use super::ThreadTime;

/// What a clock's one writer and its readers share: a sequence lock over atomics.
///
/// The writer raises `sequence` to an odd number, stores, and raises it to the next even one; it never waits. A
/// reader takes what it found only if `sequence` was even before and has the same value after (Boehm, "Can seqlocks
/// get along with programming language memory models?", 2012). As every cell is an atomic, a torn read is a wrong
/// value to be thrown away and not undefined behaviour.
#[derive(Debug)]
pub(super) struct Shared {
    thread: String,
    names: &'static [&'static str],
    started: Instant,
    sequence: AtomicU64,
    /// Index of the state the thread is in.
    current: AtomicUsize,
    /// Nanoseconds after `started` at which the current state was entered.
    entered: AtomicU64,
    /// Nanoseconds after `started` at which the thread ended, or [`RUNNING`].
    ended: AtomicU64,
    /// Nanoseconds attributed to each state so far.
    spent: Box<[AtomicU64]>,
}

/// No thread runs for 584 years.
const RUNNING: u64 = u64::MAX;

impl Shared {
    pub(super) fn new(thread: String, names: &'static [&'static str], first: usize, now: Instant) -> Shared {
        Shared {
            thread,
            names,
            started: now,
            sequence: AtomicU64::new(0),
            current: AtomicUsize::new(first),
            entered: AtomicU64::new(0),
            ended: AtomicU64::new(RUNNING),
            spent: names.iter().map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Adds `elapsed` to state `left` and enters state `next` at `now`. Called by the one writer only.
    pub(super) fn switch(&self, left: usize, elapsed: u64, next: usize, now: Instant) {
        self.write(|| {
            self.attribute(left, elapsed);
            self.current.store(next, Ordering::Relaxed);
            self.entered.store(nanos_between(self.started, now), Ordering::Relaxed);
        });
    }

    /// Adds `elapsed` to state `left` and stops the time at `now`. Called by the one writer only.
    pub(super) fn end(&self, left: usize, elapsed: u64, now: Instant) {
        self.write(|| {
            self.attribute(left, elapsed);
            self.ended.store(nanos_between(self.started, now), Ordering::Relaxed);
        });
    }

    fn write(&self, stores: impl FnOnce()) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        // No store below may be seen before the odd number.
        fence(Ordering::Release);
        stores();
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }

    fn attribute(&self, state: usize, elapsed: u64) {
        if let Some(spent) = self.spent.get(state) {
            // A plain load and store: there is only one writer.
            spent.store(spent.load(Ordering::Relaxed) + elapsed, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> ThreadTime {
        let mut spent = vec![0; self.spent.len()];
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            for (copy, cell) in spent.iter_mut().zip(&self.spent) {
                *copy = cell.load(Ordering::Relaxed);
            }
            let current = self.current.load(Ordering::Relaxed);
            let entered = self.entered.load(Ordering::Relaxed);
            let ended = self.ended.load(Ordering::Relaxed);
            // Inside the checked part: the current state was still the current one at this instant.
            let now = nanos_between(self.started, Instant::now());
            // No load above may be moved below the second look at the sequence.
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == before {
                return self.thread_time(spent, current, entered, ended, now);
            }
            // The writer may have been put off its core between the two numbers: let it finish.
            std::thread::yield_now();
        }
    }

    fn thread_time(&self, mut spent: Vec<u64>, current: usize, entered: u64, ended: u64, now: u64) -> ThreadTime {
        let running = ended == RUNNING;
        let since = if running { now.saturating_sub(entered) } else { 0 };
        if let Some(spent) = spent.get_mut(current) {
            *spent += since;
        }
        ThreadTime {
            thread: self.thread.clone(),
            wall_secs: secs(if running { now } else { ended }),
            states: self.names.iter().copied().zip(spent.into_iter().map(secs)).collect(),
            current: self.names.get(current).copied().filter(|_| running),
            since_secs: secs(since),
        }
    }
}

/// Nanoseconds from `earlier` to `later`; 0 if the order is the other way round.
pub(super) fn nanos_between(earlier: Instant, later: Instant) -> u64 {
    u64::try_from(later.saturating_duration_since(earlier).as_nanos()).unwrap_or(RUNNING - 1)
}

fn secs(nanos: u64) -> f64 {
    nanos as f64 * 1e-9
}
