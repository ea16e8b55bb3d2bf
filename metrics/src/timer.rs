use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use crate::numbers::{round_half_even, sum_as_numpy};

/// How long something takes: the mean and the throughput of the newest calls, and totals over all of them.
///
/// The newest `window` durations (10 unless told) and the newest `window` unit counts are kept apart, as in
/// Ray's `TimerStat`: units pushed now and then still meet the newest durations. Time is measured by the
/// monotonic clock.
///
/// ```
/// use std::time::Duration;
/// use pronk_metrics::TimerStat;
///
/// let mut grad = TimerStat::new();
/// assert_eq!(grad.mean_secs(), None);
/// grad.push(Duration::from_millis(500));
/// grad.push_units(2000.0);
/// assert_eq!(grad.mean_throughput(), Some(4000.0));
/// assert_eq!(grad.mean_ms_rounded(), 500.0);
/// let answer = grad.time(|| 6 * 7);
/// assert_eq!((answer, grad.count()), (42, 2));
/// ```
#[derive(Clone, Debug)]
pub struct TimerStat {
    window: NonZeroUsize,
    samples_secs: VecDeque<f64>,
    units: VecDeque<f64>,
    count: u64,
    total_secs: f64,
    max_secs: Option<f64>,
}

impl TimerStat {
    /// An empty timer that keeps the newest 10 durations and unit counts.
    pub fn new() -> TimerStat {
        TimerStat::with_window(DEFAULT_WINDOW)
    }

    /// An empty timer that keeps the newest `window` durations and unit counts.
    pub fn with_window(window: NonZeroUsize) -> TimerStat {
        TimerStat {
            window,
            samples_secs: VecDeque::with_capacity(window.get()),
            units: VecDeque::with_capacity(window.get()),
            count: 0,
            total_secs: 0.0,
            max_secs: None,
        }
    }

    /// Adds one measured duration.
    pub fn push(&mut self, elapsed: Duration) {
        self.push_secs(elapsed.as_secs_f64());
    }

    /// Adds one duration in seconds, for measurements made elsewhere.
    ///
    /// A negative one counts as it is, as in the original, whose clock could be set back. What is not finite
    /// is no measurement and is passed over: it would spoil the lifetime total for good.
    pub fn push_secs(&mut self, secs: f64) {
        if !secs.is_finite() {
            return;
        }
        push_newest(&mut self.samples_secs, self.window, secs);
        self.count += 1;
        self.total_secs += secs;
        self.max_secs = Some(self.max_secs.map_or(secs, |max| max.max(secs)));
    }

    /// Adds what one call worked through (rows, steps, bytes). What is not finite is passed over.
    pub fn push_units(&mut self, units: f64) {
        if units.is_finite() {
            push_newest(&mut self.units, self.window, units);
        }
    }

    /// Runs `body` and adds its duration, also when it panics.
    pub fn time<R>(&mut self, body: impl FnOnce() -> R) -> R {
        struct PushOnDrop<'a>(&'a mut TimerStat, Instant);
        impl Drop for PushOnDrop<'_> {
            fn drop(&mut self) {
                self.0.push(self.1.elapsed());
            }
        }
        let _running = PushOnDrop(self, Instant::now());
        body()
    }

    /// The mean of the kept durations.
    pub fn mean_secs(&self) -> Option<f64> {
        mean(&self.samples_secs)
    }

    /// The mean of the kept unit counts.
    pub fn mean_units(&self) -> Option<f64> {
        mean(&self.units)
    }

    /// Kept units by kept seconds; `None` without units or while the seconds sum to zero.
    pub fn mean_throughput(&self) -> Option<f64> {
        let secs: f64 = self.samples_secs.iter().sum();
        (self.has_units() && secs != 0.0).then(|| self.units.iter().sum::<f64>() / secs)
    }

    /// Seconds over the whole life of the timer.
    pub fn total_secs(&self) -> f64 {
        self.total_secs
    }

    /// Durations over the whole life of the timer.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest duration over the whole life of the timer.
    pub fn max_secs(&self) -> Option<f64> {
        self.max_secs
    }

    /// Whether any unit count is kept.
    pub fn has_units(&self) -> bool {
        !self.units.is_empty()
    }

    /// The mean in milliseconds as the result dict has it: rounded to three digits, 0.0 without a
    /// measurement.
    pub fn mean_ms_rounded(&self) -> f64 {
        round_half_even(1000.0 * self.mean_secs().unwrap_or(0.0), 3)
    }
}

impl Default for TimerStat {
    fn default() -> TimerStat {
        TimerStat::new()
    }
}

const DEFAULT_WINDOW: NonZeroUsize = NonZeroUsize::new(10).unwrap();

fn push_newest(kept: &mut VecDeque<f64>, window: NonZeroUsize, value: f64) {
    if kept.len() == window.get() {
        kept.pop_front();
    }
    kept.push_back(value);
}

fn mean(kept: &VecDeque<f64>) -> Option<f64> {
    // Oldest first in one piece: the order of the sum decides the last bit of the mean.
    let values: Vec<f64> = kept.iter().copied().collect();
    (!values.is_empty()).then(|| sum_as_numpy(&values) / values.len() as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn an_empty_timer_has_no_figures_and_zero_in_the_result_dict() {
        let timer = TimerStat::default();
        assert_eq!(timer.mean_secs(), None);
        assert_eq!(timer.mean_units(), None);
        assert_eq!(timer.mean_throughput(), None);
        assert_eq!(timer.max_secs(), None);
        assert_eq!(timer.mean_ms_rounded(), 0.0);
        assert_eq!((timer.count(), timer.total_secs()), (0, 0.0));
    }

    #[test]
    fn units_and_durations_leave_the_window_apart() {
        let mut timer = TimerStat::with_window(NonZeroUsize::new(2).unwrap());
        timer.push_units(100.0);
        for secs in [1.0, 2.0, 3.0] {
            timer.push_secs(secs);
        }
        assert_eq!(timer.mean_units(), Some(100.0));
        assert_eq!(timer.mean_throughput(), Some(100.0 / 5.0));
        timer.push_units(10.0);
        timer.push_units(20.0);
        assert_eq!(timer.mean_units(), Some(15.0));
        assert_eq!((timer.count(), timer.total_secs(), timer.max_secs()), (3, 6.0, Some(3.0)));
    }

    #[test]
    fn no_throughput_while_the_seconds_sum_to_zero() {
        let mut timer = TimerStat::new();
        timer.push_secs(0.0);
        timer.push_units(7.0);
        assert_eq!(timer.mean_throughput(), None);
    }

    #[test]
    fn what_is_no_measurement_spoils_nothing() {
        let mut timer = TimerStat::new();
        timer.push_secs(f64::NAN);
        timer.push_units(f64::INFINITY);
        timer.push_secs(0.25);
        assert_eq!((timer.count(), timer.total_secs(), timer.has_units()), (1, 0.25, false));
    }

    #[test]
    fn a_panicking_body_is_timed_too() {
        let mut timer = TimerStat::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| timer.time(|| std::panic::resume_unwind(Box::new("body")))));
        assert!(outcome.is_err());
        assert_eq!(timer.count(), 1);
    }
}
