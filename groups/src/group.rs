//! What a group is: its settings, its functions, and what it remembers of them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pronk_metrics::catch;

use crate::error::{GroupError, GroupErrorCause, GroupPlace};
use crate::worker::{GroupWorker, WorkerId};

/// What a function of a group returns. Every error goes into it by `?`, and a text by `.into()`.
pub type CallResult = Result<(), Box<dyn Error + Send + Sync>>;

/// The settings of a group.
///
/// ```
/// use pronk_groups::{OnWorkerError, Restarts, WorkerGroupConfig};
///
/// let config = WorkerGroupConfig {
///     name: "loader".into(),
///     on_error: OnWorkerError::Restart(Restarts::default()),
///     ..WorkerGroupConfig::default()
/// };
/// assert_eq!(config.num_workers.get(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerGroupConfig {
    /// What the group is called. Its threads are called by it and their number, such as `loader-3`. Groups may share a name;
    /// they are then stopped together.
    pub name: String,
    /// How many workers, each on its thread.
    pub num_workers: NonZeroUsize,
    /// What follows when a call of a worker fails.
    pub on_error: OnWorkerError,
}

impl Default for WorkerGroupConfig {
    /// Two workers called `train`, that the first error stops, as in Caffe2.
    fn default() -> Self {
        const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);
        Self { name: "train".to_owned(), num_workers: TWO, on_error: OnWorkerError::default() }
    }
}

/// What follows when a call of a worker fails. The error is kept in each case.
///
/// ```
/// use pronk_groups::OnWorkerError;
///
/// assert_eq!(OnWorkerError::default(), OnWorkerError::StopGroup);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnWorkerError {
    /// The whole group stops.
    #[default]
    StopGroup,
    /// The worker goes on after a pause. The whole group stops when one worker fails more often in a row than is tolerated.
    Restart(Restarts),
    /// The worker goes on at once.
    Ignore,
}

/// How many failures in a row a worker survives, and its pauses after them.
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
    /// The pause after the first failure; it doubles with every further one in a row.
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
    /// The pause after that many failures in a row.
    pub fn pause(&self, failures_in_a_row: u32) -> Duration {
        let doublings = failures_in_a_row.saturating_sub(1).min(31);
        self.first_pause.saturating_mul(1 << doublings).min(self.longest_pause)
    }
}

/// What loggers are shown after each call of a worker.
///
/// ```
/// use pronk_groups::WorkerTime;
///
/// fn mean_secs(time: &WorkerTime<'_>) -> f64 {
///     time.worker_time.as_secs_f64() / time.worker_time_count as f64
/// }
/// ```
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
    /// How many calls of all workers of the group have ended, since it was added. (Caffe2's `worker_time_count`.)
    pub group_time_count: u64,
}

type Body = dyn Fn(&GroupWorker) -> CallResult + Send + Sync;

type Init = dyn FnMut(&[WorkerId]) -> CallResult + Send;

type Shutdown = dyn FnMut() -> CallResult + Send;

type Logger = dyn FnMut(&WorkerTime<'_>) -> CallResult + Send;

/// A group of workers that call the same function again and again.
///
/// A panic in any of its functions is an error like any other.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_groups::{WorkerGroup, WorkerGroupConfig};
///
/// let polling = WorkerGroup::new(WorkerGroupConfig { name: "poll".into(), ..Default::default() }, |worker| {
///     worker.sleep(Duration::from_secs(60)); // a stop wakes it
///     Ok(())
/// })
/// .on_shutdown(|| {
///     println!("the group stops");
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
    init: Mutex<Option<Box<Init>>>,
    shutdown: Mutex<Option<Box<Shutdown>>>,
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
    /// A group whose workers call `body` until the group is stopped. It runs once it was added to
    /// [`WorkerGroups`](super::WorkerGroups) and they were started.
    ///
    /// An error of `body` is one whenever it comes: where a wait ends because the group stops, `body` returns `Ok`.
    pub fn new(config: WorkerGroupConfig, body: impl Fn(&GroupWorker) -> CallResult + Send + Sync + 'static) -> Self {
        Self {
            config,
            body: Box::new(body),
            init: Mutex::default(),
            shutdown: Mutex::default(),
            times: Mutex::default(),
            errors: Mutex::default(),
        }
    }

    /// Has `init` called with the workers' numbers whenever the group is started, on the thread that starts it and before any
    /// worker runs.
    pub fn on_init(self, init: impl FnMut(&[WorkerId]) -> CallResult + Send + 'static) -> Self {
        Self { init: Mutex::new(Some(Box::new(init))), ..self }
    }

    /// Has `shutdown` called once for each start, as soon as the group is to stop: on the thread of the worker that failed, or
    /// on the one that stops the group.
    ///
    /// Workers may still be in their last call, and this is where to wake one that waits for something of its own.
    pub fn on_shutdown(self, shutdown: impl FnMut() -> CallResult + Send + 'static) -> Self {
        Self { shutdown: Mutex::new(Some(Box::new(shutdown))), ..self }
    }

    /// Adds a function that is shown the time of every call, on the worker's thread. A group has as many as are added.
    ///
    /// Workers of the group take turns here. One that fails is called again the next time, and keeps no other from being called.
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
        let done = call(|| init.as_mut().map_or(Ok(()), |init| init(workers)));
        done.map_err(|cause| self.error(GroupPlace::Init, cause))
    }

    pub(crate) fn shut_down(&self) {
        let mut shutdown = lock(&self.shutdown);
        if let Err(cause) = call(|| shutdown.as_mut().map_or(Ok(()), |shutdown| shutdown())) {
            self.note(GroupPlace::Shutdown, cause);
        }
    }

    pub(crate) fn work(&self, worker: &GroupWorker) -> Result<(), GroupErrorCause> {
        call(|| (self.body)(worker))
    }

    /// Adds a worker's last call to the group's time and shows it to the loggers.
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
                self.note(GroupPlace::Logger(index), cause);
            }
        }
    }

    /// Keeps the newest error of a place, and how many there were.
    pub(crate) fn note(&self, place: GroupPlace, cause: GroupErrorCause) {
        let error = self.error(place, cause);
        let mut errors = lock(&self.errors);
        let before = errors.get(&place).map_or(0, |earlier| earlier.failed_calls);
        errors.insert(place, GroupError { failed_calls: before + 1, ..error });
    }

    /// What went wrong so far, one for each place.
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

/// Calls a function of the user's.
fn call(function: impl FnOnce() -> CallResult) -> Result<(), GroupErrorCause> {
    match catch(function) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(GroupErrorCause::Error(error.into())),
        Err(text) => Err(GroupErrorCause::Panic(text)),
    }
}

/// A panic of the user's functions is caught below every lock of this module, so none is left half-changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
