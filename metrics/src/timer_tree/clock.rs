use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The time source of a [`TimerTree`](super::TimerTree).
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use pronk_metrics::{TimerTree, TreeClock};
///
/// struct Scripted(Rc<Cell<f64>>);
/// impl TreeClock for Scripted {
///     fn monotonic_secs(&self) -> f64 {
///         self.0.get()
///     }
///     fn unix_secs(&self) -> f64 {
///         1_500_000_000.0 + self.0.get()
///     }
/// }
///
/// let time = Rc::new(Cell::new(0.0));
/// let mut timers = TimerTree::with_clock(Scripted(Rc::clone(&time)), []);
/// let step = timers.enter("step");
/// time.set(2.5);
/// timers.exit(step);
/// assert_eq!(timers.tree()["children"]["step"]["total"], 2.5);
/// ```
pub trait TreeClock {
    /// Seconds since a fixed instant, for durations.
    fn monotonic_secs(&self) -> f64;

    /// Seconds since 1970, for metadata and the age of gauges.
    fn unix_secs(&self) -> f64;
}

/// The system's clocks: monotonic for durations, wall time for dates.
///
/// ```
/// use pronk_metrics::{SystemClock, TreeClock};
///
/// let clock = SystemClock::new();
/// assert!(clock.monotonic_secs() <= clock.monotonic_secs());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    made: Instant,
}

impl SystemClock {
    /// A clock that starts now.
    pub fn new() -> SystemClock {
        SystemClock { made: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl TreeClock for SystemClock {
    fn monotonic_secs(&self) -> f64 {
        self.made.elapsed().as_secs_f64()
    }

    fn unix_secs(&self) -> f64 {
        // A date, not a duration.
        #[allow(clippy::disallowed_methods)]
        let now = SystemTime::now();
        match now.duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_secs_f64(),
            Err(before) => -before.duration().as_secs_f64(),
        }
    }
}
