//! A group: its settings, its functions, their times and errors.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pronk_metrics::catch;

use crate::error::{GroupError, GroupErrorCause, GroupPlace};
use crate::worker::{GroupWorker, WorkerId};

/// What a function of a group returns. `?` converts any error, `.into()` a text.
pub type CallResult = Result<(), Box<dyn Error + Send + Sync>>;

/// The settings of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerGroupConfig {
    /// The group's name; its threads have its name and their number, such as `loader-3`. Groups that share a
    /// name are stopped together.
    pub name: String,
    /// How many workers, each on its thread.
    pub num_workers: NonZeroUsize,
    /// What happens when a call fails.
    pub on_error: OnWorkerError,
}

impl Default for WorkerGroupConfig {
    /// Two workers named `train`, which the first error stops, as in Caffe2.
    fn default() -> Self {
        const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);
        Self { name: "train".to_owned(), num_workers: TWO, on_error: OnWorkerError::default() }
    }
}

/// The reaction to a failed call. The error is recorded in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnWorkerError {
    /// The whole group stops.
    #[default]
    StopGroup,
    /// The worker continues after a pause. The whole group stops when one worker fails too often in a row.
    Restart(Restarts),
    /// The worker continues at once.
    Ignore,
}

/// How many failures in a row a worker survives, and the pauses after them.
///
/// ```
/// use std::time::Duration;
/// use pronk_groups::Restarts;
///
/// let restarts = Restarts { first_pause: Duration::from_millis(100), ..Restarts::default() };
/// assert_eq!(restarts.pause(3), Duration::from_millis(400));
/// assert_eq!(restarts.pause(1000), restarts.longest_pause);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restarts {
    /// Failures in a row that a worker survives; one more stops its group.
    pub failures_in_a_row: u32,
    /// The pause after the first failure; it doubles with each further failure in a row.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for Restarts {
    /// Ten failures in a row, with pauses from 10 ms to 1 s.
    fn default() -> Self {
        Self { failures_in_a_row: 10, first_pause: Duration::from_millis(10), longest_pause: Duration::from_secs(1) }
    }
}

impl Restarts {
    /// The pause after so many failures in a row.
    pub fn pause(&self, failures_in_a_row: u32) -> Duration {
        let doublings = failures_in_a_row.saturating_sub(1).min(31);
        self.first_pause.saturating_mul(1 << doublings).min(self.longest_pause)
    }
}

/// What loggers get after each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerTime<'a> {
    /// The name of the group.
    pub group: &'a str,
    /// The worker whose call has ended.
    pub worker: WorkerId,
    /// How long this call took.
    pub call: Duration,
    /// How long all calls of this worker took.
    pub worker_time: Duration,
    /// How many calls of this worker have ended.
    pub worker_time_count: u64,
    /// How long all calls of all workers of the group took, since it was added. (Caffe2's `worker_time`.)
    pub group_time: Duration,
    /// How many calls of all workers of the group have ended, since it was added. (Caffe2's
    /// `worker_time_count`.)
    pub group_time_count: u64,
}

type Body = dyn Fn(&GroupWorker) -> CallResult + Send + Sync;
type Init = dyn FnMut(&[WorkerId]) -> CallResult + Send;
type Shutdown = dyn FnMut() -> CallResult + Send;
type Logger = dyn FnMut(&WorkerTime<'_>) -> CallResult + Send;

/// Workers that repeat the same function. A panic in any function of the group is an error like any other.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_groups::{WorkerGroup, WorkerGroupConfig};
///
/// let polling = WorkerGroup::new(WorkerGroupConfig { name: "poll".into(), ..Default::default() }, |worker| {
///     worker.sleep(Duration::from_secs(60)); // stopping the group wakes it
///     Ok(())
/// })
/// .with_logger(|time| {
///     println!("a call of worker {} took {:?}", time.worker, time.call);
///     Ok(())
/// });
/// assert_eq!(polling.config().name, "poll");
/// ```
pub struct WorkerGroup {
    config: WorkerGroupConfig,
    body: Box<Body>,
    init: Mutex<Box<Init>>,
    shutdown: Mutex<Box<Shutdown>>,
    times: Mutex<Times>,
    errors: Mutex<BTreeMap<GroupPlace, GroupError>>,
}

#[derive(Default)]
struct Times {
    group_time: Duration,
    group_time_count: u64,
    loggers: Vec<Box<Logger>>,
}

impl WorkerGroup {
    /// A group whose workers call `body` until the group is stopped. [`WorkerGroups`](super::WorkerGroups)
    /// start it.
    ///
    /// An error of `body` is recorded even while the group stops, so return `Ok` when stopping ends a wait.
    pub fn new(config: WorkerGroupConfig, body: impl Fn(&GroupWorker) -> CallResult + Send + Sync + 'static) -> Self {
        Self {
            config,
            body: Box::new(body),
            init: Mutex::new(Box::new(|_| Ok(()))),
            shutdown: Mutex::new(Box::new(|| Ok(()))),
            times: Mutex::default(),
            errors: Mutex::default(),
        }
    }

    /// Calls `init` with the workers' numbers at every start, on the thread that starts the group, before any
    /// worker runs.
    pub fn on_init(self, init: impl FnMut(&[WorkerId]) -> CallResult + Send + 'static) -> Self {
        Self { init: Mutex::new(Box::new(init)), ..self }
    }

    /// Calls `shutdown` once for each start, as soon as the group stops: on the thread of the worker that
    /// failed, or on the one that stops the group.
    ///
    /// Workers may still be in their last call; `shutdown` must wake those that block on something of their
    /// own.
    pub fn on_shutdown(self, shutdown: impl FnMut() -> CallResult + Send + 'static) -> Self {
        Self { shutdown: Mutex::new(Box::new(shutdown)), ..self }
    }

    /// Adds a function that gets the time of every call, on the worker's thread. A group may have several.
    ///
    /// Only one worker of the group logs at a time. After an error a logger is called again the next time.
    pub fn with_logger(self, logger: impl FnMut(&WorkerTime<'_>) -> CallResult + Send + 'static) -> Self {
        lock(&self.times).loggers.push(Box::new(logger));
        self
    }

    /// The settings.
    pub fn config(&self) -> &WorkerGroupConfig {
        &self.config
    }

    pub(crate) fn init(&self, workers: &[WorkerId]) -> Result<(), GroupError> {
        let mut init = lock(&self.init);
        call(|| init(workers)).map_err(|cause| self.error(GroupPlace::Init, cause))
    }

    pub(crate) fn shut_down(&self) {
        let mut shutdown = lock(&self.shutdown);
        if let Err(cause) = call(&mut *shutdown) {
            self.record(GroupPlace::Shutdown, cause);
        }
    }

    pub(crate) fn work(&self, worker: &GroupWorker) -> Result<(), GroupErrorCause> {
        call(|| (self.body)(worker))
    }

    /// Adds a call to the group's time and passes it to the loggers.
    pub(crate) fn log(&self, worker: WorkerId, took: Duration, worker_time: Duration, worker_time_count: u64) {
        let mut times = lock(&self.times);
        times.group_time += took;
        times.group_time_count += 1;
        let time = WorkerTime {
            group: &self.config.name,
            worker,
            call: took,
            worker_time,
            worker_time_count,
            group_time: times.group_time,
            group_time_count: times.group_time_count,
        };
        for (index, logger) in times.loggers.iter_mut().enumerate() {
            if let Err(cause) = call(|| logger(&time)) {
                self.record(GroupPlace::Logger(index), cause);
            }
        }
    }

    /// Records the newest error of a place, and how many there were.
    pub(crate) fn record(&self, place: GroupPlace, cause: GroupErrorCause) {
        let error = self.error(place, cause);
        let mut errors = lock(&self.errors);
        let before = errors.get(&place).map_or(0, |earlier| earlier.failed_calls);
        errors.insert(place, GroupError { failed_calls: before + 1, ..error });
    }

    /// The errors so far, one for each place.
    pub(crate) fn errors(&self) -> Vec<GroupError> {
        lock(&self.errors).values().cloned().collect()
    }

    fn error(&self, place: GroupPlace, cause: GroupErrorCause) -> GroupError {
        GroupError { group: self.config.name.clone(), place, failed_calls: 1, cause }
    }
}

impl fmt::Debug for WorkerGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerGroup").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Calls a function of the user.
fn call(function: impl FnOnce() -> CallResult) -> Result<(), GroupErrorCause> {
    match catch(function) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(GroupErrorCause::Error(error.into())),
        Err(text) => Err(GroupErrorCause::Panic(text)),
    }
}

/// Locks without regard to poison: panics of the user's functions are caught inside every lock of this crate.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
