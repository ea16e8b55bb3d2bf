use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use crate::numbers::{round_half_even, sum_as_numpy};

/// Durations of calls: mean and throughput of the newest, and totals over all.
///
/// The newest `window` durations (10 by default) and the newest `window` unit counts are separate, as in
/// Ray's `TimerStat`.
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
    /// An empty timer with a window of 10.
    pub fn new() -> TimerStat {
        TimerStat::with_window(DEFAULT_WINDOW)
    }

    /// An empty timer with this window.
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

    /// Adds a duration.
    pub fn push(&mut self, elapsed: Duration) {
        self.push_secs(elapsed.as_secs_f64());
    }

    /// Adds a duration in seconds. Negative ones count, as in the original, whose clock could be set back;
    /// non-finite ones are ignored, since they would spoil the lifetime total.
    pub fn push_secs(&mut self, secs: f64) {
        if !secs.is_finite() {
            return;
        }
        push_newest(&mut self.samples_secs, self.window, secs);
        self.count += 1;
        self.total_secs += secs;
        self.max_secs = Some(self.max_secs.map_or(secs, |max| max.max(secs)));
    }

    /// Adds the units (rows, steps, bytes) of one call. Non-finite ones are ignored.
    pub fn push_units(&mut self, units: f64) {
        if units.is_finite() {
            push_newest(&mut self.units, self.window, units);
        }
    }

    /// Runs `body` and adds its duration, even if it panics.
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

    /// The mean of the durations in the window.
    pub fn mean_secs(&self) -> Option<f64> {
        mean(&self.samples_secs)
    }

    /// The mean of the unit counts in the window.
    pub fn mean_units(&self) -> Option<f64> {
        mean(&self.units)
    }

    /// Units per second in the window; `None` without units, or if the seconds sum to zero.
    pub fn mean_throughput(&self) -> Option<f64> {
        let secs: f64 = self.samples_secs.iter().sum();
        (self.has_units() && secs != 0.0).then(|| self.units.iter().sum::<f64>() / secs)
    }

    /// The sum of all durations, in seconds.
    pub fn total_secs(&self) -> f64 {
        self.total_secs
    }

    /// The number of all durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest of all durations.
    pub fn max_secs(&self) -> Option<f64> {
        self.max_secs
    }

    /// Whether there are unit counts.
    pub fn has_units(&self) -> bool {
        !self.units.is_empty()
    }

    /// The mean in milliseconds for the result dict: rounded to three digits, 0.0 without durations.
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
    // Oldest first: the order of the sum decides the last bit of the mean.
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
