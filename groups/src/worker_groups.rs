//! All groups of a program: started, stopped and started again by name.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::error::{GroupError, GroupsStartError, StopOutcome};
use crate::group::{WorkerGroup, lock};
use crate::group_run::{GroupRun, GroupThread};
use crate::worker::{WorkerId, thread_name};

/// Starts and stops named groups of workers.
///
/// For threads beside a run that repeat one function: loading data, evaluating, copying files away.
///
/// - [`start`](Self::start) calls the init functions of all groups one after the other and then starts all threads.
/// - A worker calls its group's function until the group is stopped. An error or a panic stops the group, or what
///   [`OnWorkerError`](crate::OnWorkerError) says; the others go on.
/// - However a group comes to its end, its shutdown function is called once for every start.
/// - [`stop`](Self::stop) has one deadline for all threads, and names those that missed it.
/// - A group that failed can be started again: with new threads, new numbers, and its init function called again.
///
/// When this value is dropped, all groups stop; their threads end after the call that they are in, and nobody waits for that.
///
/// # Example
/// Two workers load samples into a queue that has room for four.
/// ```
/// use std::time::Duration;
///
/// use pronk_buffer::{Closed, Gate, inqueue, shutdown};
/// use pronk_groups::{WorkerGroup, WorkerGroupConfig, WorkerGroups};
///
/// let (shutdown, token) = shutdown();
/// let (sender, loaded) = inqueue(4, Gate::Bounded, &token)?;
/// let mut open = Some(shutdown);
///
/// let config = WorkerGroupConfig { name: "loader".into(), ..WorkerGroupConfig::default() };
/// let loaders = WorkerGroup::new(config, move |worker| {
///     let sample = format!("loaded by {}", worker.id()); // read, decode, augment
///     match sender.push(sample) {
///         Ok(_) | Err(Closed(_)) => Ok(()), // closed: the group is stopping, and that is no error
///     }
/// })
/// // Wakes who waits for room.
/// .on_shutdown(move || {
///     drop(open.take());
///     Ok(())
/// });
///
/// let mut groups = WorkerGroups::new();
/// groups.add(loaders);
/// groups.start()?;
/// for _ in 0..100 {
///     assert!(loaded.pop(Duration::from_secs(60))?.starts_with("loaded by"));
/// }
/// let outcome = groups.stop(Duration::from_secs(5));
/// assert!(outcome.is_clean(), "{outcome:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Signals
/// Groups install no signal handlers. Whoever handles signals calls a [`Stopper`]; the main thread waits meanwhile.
/// ```
/// use std::time::Duration;
///
/// use pronk_groups::{WorkerGroup, WorkerGroupConfig, WorkerGroups};
///
/// fn on_signal(handler: impl FnOnce() + Send + 'static) {
///     // whatever the program handles signals with; here the signal comes at once
///     handler();
/// }
///
/// let mut groups = WorkerGroups::new();
/// groups.add(WorkerGroup::new(WorkerGroupConfig::default(), |worker| {
///     worker.sleep(Duration::from_secs(60));
///     Ok(())
/// }));
/// groups.start()?;
/// let stopper = groups.stopper();
/// on_signal(move || stopper.stop());
/// assert!(groups.wait(Duration::MAX)); // until the signal comes, or all groups have failed
/// let outcome = groups.stop(Duration::from_secs(5));
/// assert!(outcome.is_clean(), "{outcome:?}");
/// # Ok::<(), pronk_groups::GroupsStartError>(())
/// ```
#[derive(Default)]
pub struct WorkerGroups {
    next_id: u64,
    groups: Vec<Entry>,
    live_runs: LiveRuns,
}

/// A group that was added, with its threads.
struct Entry {
    group: Arc<WorkerGroup>,
    /// Of the newest start; none before the first.
    run: Option<Arc<GroupRun>>,
    /// Of all starts; those of earlier ones only while they run.
    threads: Vec<GroupThread>,
}

impl WorkerGroups {
    /// No group yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a group, which begins with the next [`start`](Self::start).
    pub fn add(&mut self, group: WorkerGroup) {
        self.groups.push(Entry { group: Arc::new(group), run: None, threads: Vec::new() });
    }

    /// Starts every group that does not run: new ones, and those that failed.
    ///
    /// First their init functions are called, one after the other in the order in which the groups were added, on the calling
    /// thread; then all their threads start. Groups that run are left alone.
    ///
    /// *Blocks* for the init functions, and until the shutdown function of a group that failed has returned.
    ///
    /// # Errors
    /// [`GroupsStartError`]. Then all that were to start stay where they are: a group whose init function had been called gets
    /// its shutdown, and the next start tries again.
    pub fn start(&mut self) -> Result<(), GroupsStartError> {
        self.live_runs.check()?;
        let mut begun = Vec::new();
        let started = self.begin_runs(&mut begun).and_then(|()| self.spawn_workers(&begun));
        if started.is_err() {
            GroupRun::end_all(begun.iter().map(|begun| &*begun.run));
        }
        started
    }

    /// Calls the init functions.
    fn begin_runs(&mut self, begun: &mut Vec<Begun>) -> Result<(), GroupsStartError> {
        for (index, entry) in self.groups.iter_mut().enumerate() {
            match &entry.run {
                Some(run) if run.is_on() => continue,
                Some(run) => {
                    // An init that met the shutdown of the start before it would be no clean start.
                    let _ = run.shut_down().sleep(Duration::MAX);
                }
                None => {}
            }
            let first = self.next_id;
            self.next_id += entry.group.config().num_workers.get() as u64;
            let workers: Vec<_> = (first..self.next_id).map(WorkerId).collect();
            entry.group.init(&workers).map_err(GroupsStartError::Init)?;
            let run = GroupRun::begin(Arc::clone(&entry.group));
            entry.run = Some(Arc::clone(&run));
            begun.push(Begun { index, run: Arc::clone(&run), workers });
            self.live_runs.add(&run)?;
        }
        Ok(())
    }

    fn spawn_workers(&mut self, begun: &[Begun]) -> Result<(), GroupsStartError> {
        for Begun { index, run, workers } in begun {
            let threads = &mut self.groups[*index].threads;
            threads.retain(GroupThread::is_running);
            for &worker in workers {
                let thread = run.spawn(worker).map_err(|cause| GroupsStartError::Spawn {
                    thread: thread_name(&self.groups[*index].group.config().name, worker),
                    cause,
                })?;
                self.groups[*index].threads.push(thread);
            }
        }
        Ok(())
    }

    /// Stops all groups and forgets them.
    ///
    /// All workers are told first; then the shutdown functions of the groups that run are called, on the calling thread; then
    /// there is one deadline for all threads. Groups that were never started, or that failed and so had their shutdown, are
    /// forgotten too.
    ///
    /// *Blocks* for the shutdown functions, and then for at most `within`.
    pub fn stop(&mut self, within: Duration) -> StopOutcome {
        end(std::mem::take(&mut self.groups), within)
    }

    /// Stops the groups of this name and forgets them, as [`stop`](Self::stop) does with all. No other is touched, and a name
    /// that no group has stops nothing.
    ///
    /// *Blocks* for the shutdown functions, and then for at most `within`.
    pub fn stop_group(&mut self, name: &str, within: Duration) -> StopOutcome {
        end(self.groups.extract_if(.., |entry| entry.group.config().name == name).collect(), within)
    }

    /// Waits until no worker runs and every shutdown function has returned: until all groups have failed, or a [`Stopper`]
    /// stopped them. Says whether it came to that.
    ///
    /// *Blocks* for at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Deadline::from_now(timeout);
        self.groups.iter().all(|entry| entry.not_ended_before(&deadline).is_empty())
    }

    /// How many workers' threads have not ended.
    pub fn n_running(&self) -> usize {
        let threads = self.groups.iter().flat_map(|entry| &entry.threads);
        threads.filter(|thread| thread.is_running()).count()
    }

    /// The names of the groups, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|entry| &*entry.group.config().name)
    }

    /// What failed until now, group by group. It stays and is part of what [`stop`](Self::stop) returns.
    pub fn errors(&self) -> Vec<GroupError> {
        self.groups.iter().flat_map(|entry| entry.group.errors()).collect()
    }

    /// What stops all groups from another thread, for good.
    pub fn stopper(&self) -> Stopper {
        Stopper { live_runs: self.live_runs.clone() }
    }
}

impl Drop for WorkerGroups {
    fn drop(&mut self) {
        GroupRun::end_all(self.groups.iter().filter_map(|entry| entry.run.as_deref()));
    }
}

/// A group between its init function and the start of its threads.
struct Begun {
    /// Which of the groups.
    index: usize,
    run: Arc<GroupRun>,
    workers: Vec<WorkerId>,
}

/// Ends groups and says how.
fn end(entries: Vec<Entry>, within: Duration) -> StopOutcome {
    GroupRun::end_all(entries.iter().filter_map(|entry| entry.run.as_deref()));
    let deadline = Deadline::from_now(within);
    let mut outcome = StopOutcome::default();
    for entry in entries {
        outcome.not_ended.extend(entry.not_ended_before(&deadline));
        outcome.stopped.push(entry.group.config().name.clone());
        outcome.errors.extend(entry.group.errors());
        entry.threads.into_iter().filter(|thread| !thread.is_running()).for_each(GroupThread::join);
    }
    outcome
}

impl Entry {
    /// The names of what does not end before the deadline.
    fn not_ended_before(&self, deadline: &Deadline) -> Vec<String> {
        let threads = self.threads.iter().filter(|thread| !thread.ends_within(deadline.left()));
        let mut names: Vec<_> = threads.map(|thread| thread.name.clone()).collect();
        if self.run.as_ref().is_some_and(|run| run.shut_down().sleep(deadline.left()).is_ok()) {
            names.push(format!("the shutdown function of group `{}`", self.group.config().name));
        }
        names
    }
}

/// One deadline for several waits.
struct Deadline {
    began: Instant,
    within: Duration,
}

impl Deadline {
    fn from_now(within: Duration) -> Self {
        Self { began: Instant::now(), within }
    }

    fn left(&self) -> Duration {
        self.within.saturating_sub(self.began.elapsed())
    }
}

/// The runs that a [`Stopper`] would end. It takes the list away, and then nothing starts any more.
#[derive(Clone)]
struct LiveRuns {
    /// Weak, so that what the functions of a stopped group hold is dropped with the group.
    runs: Arc<Mutex<Option<Vec<Weak<GroupRun>>>>>,
}

impl Default for LiveRuns {
    fn default() -> Self {
        Self { runs: Arc::new(Mutex::new(Some(Vec::new()))) }
    }
}

impl LiveRuns {
    /// # Errors
    /// [`GroupsStartError::Stopped`] when the list was taken away.
    fn check(&self) -> Result<(), GroupsStartError> {
        lock(&self.runs).as_ref().map(|_| ()).ok_or(GroupsStartError::Stopped)
    }

    /// # Errors
    /// [`GroupsStartError::Stopped`] when the list was taken away.
    fn add(&self, run: &Arc<GroupRun>) -> Result<(), GroupsStartError> {
        let mut runs = lock(&self.runs);
        let runs = runs.as_mut().ok_or(GroupsStartError::Stopped)?;
        runs.retain(|run| run.strong_count() > 0);
        runs.push(Arc::downgrade(run));
        Ok(())
    }
}

/// Stops all groups of one [`WorkerGroups`] from any thread, and for good: made for whoever handles signals.
///
/// ```
/// use pronk_groups::{GroupsStartError, WorkerGroup, WorkerGroupConfig, WorkerGroups};
///
/// let mut groups = WorkerGroups::new();
/// groups.stopper().stop();
/// groups.add(WorkerGroup::new(WorkerGroupConfig::default(), |_| Ok(())));
/// assert!(matches!(groups.start(), Err(GroupsStartError::Stopped)), "the signal came first");
/// ```
#[derive(Clone)]
pub struct Stopper {
    live_runs: LiveRuns,
}

impl Stopper {
    /// Tells all workers to leave and calls the shutdown functions, on the calling thread. It does not wait for the workers:
    /// [`WorkerGroups::wait`] and [`WorkerGroups::stop`] do.
    ///
    /// From then on [`WorkerGroups::start`] starts nothing, so that a signal that comes between two groups is not lost.
    pub fn stop(&self) {
        let runs: Vec<_> =
            lock(&self.live_runs.runs).take().into_iter().flatten().filter_map(|run| run.upgrade()).collect();
        GroupRun::end_all(runs.iter().map(|run| &**run));
    }
}

#[cfg(test)]
mod tests;
