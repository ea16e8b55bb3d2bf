use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// The newest, smallest and largest value of a figure, and their number. Clones, and trees that adopted it by
/// a merge, share it.
///
/// ```
/// let mut timers = pronk_metrics::TimerTree::new();
/// timers.set_gauge("queue", 4.0);
/// let queue = timers.gauge("queue").unwrap();
/// timers.set_gauge("queue", 1.0);
/// assert_eq!((queue.value(), queue.min(), queue.max(), queue.count()), (1.0, 1.0, 4.0, 2));
/// ```
#[derive(Clone, Debug)]
pub struct Gauge(Arc<Mutex<Values>>);

#[derive(Clone, Copy, Debug)]
struct Values {
    newest: f64,
    min: f64,
    max: f64,
    count: u64,
    unix_secs: f64,
}

impl Gauge {
    pub(super) fn new(value: f64, unix_secs: f64) -> Gauge {
        Gauge(Arc::new(Mutex::new(Values { newest: value, min: value, max: value, count: 1, unix_secs })))
    }

    /// The newest value.
    pub fn value(&self) -> f64 {
        self.values().newest
    }

    /// The smallest value so far.
    pub fn min(&self) -> f64 {
        self.values().min
    }

    /// The largest value so far.
    pub fn max(&self) -> f64 {
        self.values().max
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.values().count
    }

    pub(super) fn set(&self, value: f64, unix_secs: f64) {
        let mut own = self.values();
        own.newest = value;
        own.unix_secs = unix_secs;
        own.min = own.min.min(value);
        own.max = own.max.max(value);
        own.count += 1;
    }

    pub(super) fn merge(&self, other: &Gauge) {
        // Copied first, because both can be the same gauge, which then counts twice, as in the original.
        let theirs = *other.values();
        let mut own = self.values();
        if theirs.unix_secs > own.unix_secs {
            own.newest = theirs.newest;
            own.unix_secs = theirs.unix_secs;
        }
        own.min = own.min.min(theirs.min);
        own.max = own.max.max(theirs.max);
        own.count += theirs.count;
    }

    pub(super) fn to_json(&self) -> Value {
        let own = *self.values();
        json!({"value": own.newest, "min": own.min, "max": own.max, "count": own.count})
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
