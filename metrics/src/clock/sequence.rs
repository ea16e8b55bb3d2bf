use super::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use super::sync::{Arc, Instant, hint, thread};
use super::{ProcessorClock, ThreadTime};

/// The state shared by a clock's only writer and its readers: a sequence lock over atomics.
///
/// The writer raises `sequence` to an odd number, stores, and raises it to the next even one; it never waits.
/// A reader uses its copy only if `sequence` was even before and is unchanged after (Boehm, "Can seqlocks get
/// along with programming language memory models?", 2012). As every cell is an atomic, a torn read is a wrong
/// value to discard, not undefined behaviour.
///
/// A reader first notes in `seen` the time until which it counts the current state, and a switch is not dated
/// before that. Otherwise a writer that is preempted between reading the time and switching would take time
/// away from a state that a reader has seen with it.
#[derive(Debug)]
pub(super) struct Shared {
    thread: String,
    names: &'static [&'static str],
    started: Instant,
    sequence: AtomicU64,
    /// Index of the current state.
    current: AtomicUsize,
    /// Nanoseconds after `started` at which the current state was entered.
    entered: AtomicU64,
    /// Nanoseconds after `started` at which the thread ended, or [`RUNNING`].
    ended: AtomicU64,
    /// Nanoseconds attributed to each state so far.
    spent: Box<[AtomicU64]>,
    /// Nanoseconds after `started` of the newest reading.
    seen: AtomicU64,
    /// The processor time of a process outside of this one.
    processors: Option<Arc<dyn ProcessorClock>>,
}

/// No thread runs for 584 years.
const RUNNING: u64 = u64::MAX;

/// Tries before a reader yields its core to the writer.
const SPINS: u32 = 100;

impl Shared {
    pub(super) fn new(
        thread: String,
        names: &'static [&'static str],
        first: usize,
        processors: Option<Arc<dyn ProcessorClock>>,
    ) -> Shared {
        Shared {
            thread,
            names,
            started: Instant::now(),
            sequence: AtomicU64::new(0),
            current: AtomicUsize::new(first),
            entered: AtomicU64::new(0),
            ended: AtomicU64::new(RUNNING),
            spent: names.iter().map(|_| AtomicU64::new(0)).collect(),
            seen: AtomicU64::new(0),
            processors,
        }
    }

    /// Books the time since the last switch to state `left` and enters `next`. Only for the writer.
    pub(super) fn switch(&self, left: usize, next: usize) {
        self.leave(left, |at| {
            self.current.store(next, Ordering::Relaxed);
            self.entered.store(at, Ordering::Relaxed);
        });
    }

    /// Books the time since the last switch to state `left` and stops the time. Only for the writer.
    pub(super) fn end(&self, left: usize) {
        self.leave(left, |at| self.ended.store(at, Ordering::Relaxed));
    }

    fn leave(&self, left: usize, go_on: impl FnOnce(u64)) {
        let now = self.now();
        let entered = self.entered.load(Ordering::Relaxed);
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        // No store below may be visible before the odd number. With the fence of `read`, either this sees the
        // reader's `seen`, or the reader sees the odd number.
        fence(Ordering::SeqCst);
        let at = now.max(entered).max(self.seen.load(Ordering::Relaxed));
        if let Some(spent) = self.spent.get(left) {
            // A plain load and store suffice for a single writer.
            spent.store(spent.load(Ordering::Relaxed) + (at - entered), Ordering::Relaxed);
        }
        go_on(at);
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }

    pub(super) fn read(&self) -> ThreadTime {
        let now = self.now();
        self.seen.fetch_max(now, Ordering::Relaxed);
        // As in `leave`.
        fence(Ordering::SeqCst);
        let mut spent = vec![0; self.spent.len()];
        let mut n_tries = 0;
        loop {
            if let Some(copy) = self.try_copy(&mut spent) {
                return self.thread_time(spent, copy, now);
            }
            // A switch takes some ten nanoseconds, unless the writer is preempted in the middle.
            n_tries += 1;
            if n_tries < SPINS { hint::spin_loop() } else { thread::yield_now() }
        }
    }

    /// Copies the shared state, and the time of each state into `spent`; `None` if the writer wrote
    /// meanwhile.
    fn try_copy(&self, spent: &mut [u64]) -> Option<Copied> {
        let before = self.sequence.load(Ordering::Acquire);
        for (copy, cell) in spent.iter_mut().zip(&self.spent) {
            *copy = cell.load(Ordering::Relaxed);
        }
        let copied = Copied {
            sequence: before,
            current: self.current.load(Ordering::Relaxed),
            entered: self.entered.load(Ordering::Relaxed),
            ended: self.ended.load(Ordering::Relaxed),
        };
        // No load above may move below the second load of the sequence.
        fence(Ordering::Acquire);
        let after = self.sequence.load(Ordering::Relaxed);
        (before.is_multiple_of(2) && before == after).then_some(copied)
    }

    /// Whether the thread has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) != RUNNING
    }

    pub(super) fn thread(&self) -> &str {
        &self.thread
    }

    /// Nanoseconds since the clock started.
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(RUNNING - 1)
    }

    fn thread_time(&self, mut spent: Vec<u64>, copied: Copied, now: u64) -> ThreadTime {
        let Copied { sequence, current, entered, ended } = copied;
        let running = ended == RUNNING;
        // The copy may show a switch later than `now`; that is the newest known instant then.
        let now = now.max(entered);
        let since = if running { now - entered } else { 0 };
        if let Some(spent) = spent.get_mut(current) {
            *spent += since;
        }
        ThreadTime {
            thread: self.thread.clone(),
            wall_secs: secs(if running { now } else { ended }),
            states: self.names.iter().copied().zip(spent.into_iter().map(secs)).collect(),
            current: self.names.get(current).copied().filter(|_| running),
            since_secs: secs(since),
            n_threads: 1,
            // The end of the thread is part of the sequence.
            n_switches: sequence / 2 - u64::from(!running),
            processor_secs: self.processors.as_ref().and_then(|of| of.processor_time()).map(|time| time.as_secs_f64()),
        }
    }
}

struct Copied {
    sequence: u64,
    current: usize,
    entered: u64,
    ended: u64,
}

fn secs(nanos: u64) -> f64 {
    nanos as f64 * 1e-9
}
