//! All groups of a program: started, stopped and started again by name.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::error::{GroupError, GroupsStartError, StopOutcome};
use crate::group::{WorkerGroup, lock};
use crate::group_run::{GroupRun, GroupThread};
use crate::worker::WorkerId;

/// Starts and stops named groups of threads that repeat a function beside a run: loading data, evaluating,
/// copying files.
///
/// - [`start`](Self::start) calls the init functions of all groups one after the other and then starts all
///   threads.
/// - A worker calls its group's function until the group is stopped. An error or a panic stops the group,
///   unless [`OnWorkerError`](crate::OnWorkerError) says otherwise; other groups continue.
/// - The shutdown function is called once for every start, however the group ends.
/// - [`stop`](Self::stop) has one deadline for all threads and names those that missed it.
/// - A group that failed can be started again: with new threads, new worker numbers, and another call of its
///   init function.
///
/// Dropping this value stops all groups. It does not wait for their threads, which end after their current
/// call.
///
/// # Example
/// Two workers load samples into a queue of four.
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
///         Ok(_) | Err(Closed(_)) => Ok(()), // closed: the group is stopping, which is no error
///     }
/// })
/// // Wakes workers that are blocked on the full queue.
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
#[derive(Default)]
pub struct WorkerGroups {
    next_id: u64,
    groups: Vec<Entry>,
    stopper: Stopper,
}

/// A group with its threads.
struct Entry {
    group: Arc<WorkerGroup>,
    /// The newest start; `None` before the first.
    run: Option<Arc<GroupRun>>,
    /// The threads of the newest start, and those of earlier starts that still run.
    threads: Vec<GroupThread>,
}

impl WorkerGroups {
    /// No group yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a group, which the next [`start`](Self::start) starts.
    pub fn add(&mut self, group: WorkerGroup) {
        self.groups.push(Entry { group: Arc::new(group), run: None, threads: Vec::new() });
    }

    /// Starts every group that does not run: new ones, and those that failed.
    ///
    /// Calls their init functions on the calling thread, in the order in which the groups were added, and
    /// then starts all their threads.
    ///
    /// *Blocks* for the init functions, and for the shutdown function of a group that failed.
    ///
    /// # Errors
    /// [`GroupsStartError`]. Then none of these groups runs: the shutdown function of each whose init
    /// function succeeded is called, and the next start tries again.
    pub fn start(&mut self) -> Result<(), GroupsStartError> {
        self.stopper.update(|runs| runs.retain(|run| run.strong_count() > 0))?;
        let mut begun = Vec::new();
        let started = self.begin_runs(&mut begun).and_then(|()| self.spawn_workers(&begun));
        if started.is_err() {
            GroupRun::end_all(begun.iter().map(|(_, run)| &**run));
        }
        started
    }

    /// Calls the init functions. `begun` gets the runs, each with the index of its group.
    fn begin_runs(&mut self, begun: &mut Vec<(usize, Arc<GroupRun>)>) -> Result<(), GroupsStartError> {
        for (index, entry) in self.groups.iter_mut().enumerate() {
            match &entry.run {
                Some(run) if run.is_running() => continue,
                // The init function must not overlap the shutdown function of the start before.
                Some(run) => drop(run.shut_down.sleep(Duration::MAX)),
                None => {}
            }
            let first = self.next_id;
            self.next_id += entry.group.config().num_workers.get() as u64;
            let workers: Vec<_> = (first..self.next_id).map(WorkerId).collect();
            entry.group.init(&workers).map_err(GroupsStartError::Init)?;
            let run = GroupRun::begin(Arc::clone(&entry.group), workers);
            entry.run = Some(Arc::clone(&run));
            begun.push((index, Arc::clone(&run)));
            self.stopper.update(|runs| runs.push(Arc::downgrade(&run)))?;
        }
        Ok(())
    }

    fn spawn_workers(&mut self, begun: &[(usize, Arc<GroupRun>)]) -> Result<(), GroupsStartError> {
        for (index, run) in begun {
            let threads = &mut self.groups[*index].threads;
            threads.retain(GroupThread::is_running);
            for &worker in &run.workers {
                threads.push(run.spawn(worker)?);
            }
        }
        Ok(())
    }

    /// Stops all groups and removes them, those that do not run included.
    ///
    /// Tells all workers to stop, then calls the shutdown functions of the groups that run on the calling
    /// thread, and then waits for all threads with one deadline.
    ///
    /// *Blocks* for the shutdown functions, and then for at most `within`.
    pub fn stop(&mut self, within: Duration) -> StopOutcome {
        end(std::mem::take(&mut self.groups), within)
    }

    /// Stops the groups of this name and removes them, as [`stop`](Self::stop) does with all.
    ///
    /// *Blocks* for the shutdown functions, and then for at most `within`.
    pub fn stop_group(&mut self, name: &str, within: Duration) -> StopOutcome {
        end(self.groups.extract_if(.., |entry| entry.group.config().name == name).collect(), within)
    }

    /// Waits until no worker runs and every shutdown function has returned, because all groups failed or a
    /// [`Stopper`] stopped them. Returns false at the timeout.
    ///
    /// *Blocks* for at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> bool {
        let left = countdown(timeout);
        self.groups.iter().all(|entry| entry.not_ended(&left).is_empty())
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

    /// The failures until now, group by group; [`stop`](Self::stop) returns them too.
    pub fn errors(&self) -> Vec<GroupError> {
        self.groups.iter().flat_map(|entry| entry.group.errors()).collect()
    }

    /// A handle that stops all groups for good, from any thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }
}

impl Drop for WorkerGroups {
    fn drop(&mut self) {
        GroupRun::end_all(self.groups.iter().filter_map(|entry| entry.run.as_deref()));
    }
}

fn end(entries: Vec<Entry>, within: Duration) -> StopOutcome {
    GroupRun::end_all(entries.iter().filter_map(|entry| entry.run.as_deref()));
    let left = countdown(within);
    let mut outcome = StopOutcome::default();
    for entry in entries {
        outcome.not_ended.extend(entry.not_ended(&left));
        outcome.stopped.push(entry.group.config().name.clone());
        outcome.errors.extend(entry.group.errors());
        entry.threads.into_iter().filter(|thread| !thread.is_running()).for_each(GroupThread::join);
    }
    outcome
}

impl Entry {
    /// The names of the threads, and of the shutdown function, that do not end in the time left.
    fn not_ended(&self, left: &impl Fn() -> Duration) -> Vec<String> {
        let threads = self.threads.iter().filter(|thread| !thread.ends_within(left()));
        let mut names: Vec<_> = threads.map(|thread| thread.name.clone()).collect();
        if self.run.as_ref().is_some_and(|run| run.shut_down.sleep(left()).is_ok()) {
            names.push(format!("the shutdown function of group `{}`", self.group.config().name));
        }
        names
    }
}

/// What is left of `within`: one deadline for several waits.
fn countdown(within: Duration) -> impl Fn() -> Duration {
    let began = Instant::now();
    move || within.saturating_sub(began.elapsed())
}

/// Stops all groups of one [`WorkerGroups`] for good, from any thread.
///
/// Groups install no signal handlers; a program's own handler calls a stopper, and the main thread waits:
/// ```
/// use std::time::Duration;
///
/// use pronk_groups::{WorkerGroup, WorkerGroupConfig, WorkerGroups};
///
/// fn on_signal(handler: impl FnOnce() + Send + 'static) {
///     handler(); // the program's way to handle signals; here the signal comes at once
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
#[derive(Clone)]
pub struct Stopper {
    /// The runs to end; `None` once stopped. Weak, so that a group that ends drops what its functions own.
    live_runs: Arc<Mutex<Option<Vec<Weak<GroupRun>>>>>,
}

impl Default for Stopper {
    fn default() -> Self {
        Self { live_runs: Arc::new(Mutex::new(Some(Vec::new()))) }
    }
}

impl Stopper {
    /// Tells all workers to stop and calls the shutdown functions on the calling thread. It does not wait for
    /// the workers, as [`WorkerGroups::wait`] and [`WorkerGroups::stop`] do.
    ///
    /// From then on [`WorkerGroups::start`] starts nothing, so that a signal between two starts is not lost.
    pub fn stop(&self) {
        let runs = lock(&self.live_runs).take();
        let runs: Vec<_> = runs.into_iter().flatten().filter_map(|run| run.upgrade()).collect();
        GroupRun::end_all(runs.iter().map(|run| &**run));
    }

    /// # Errors
    /// [`GroupsStartError::Stopped`] after [`stop`](Self::stop).
    fn update(&self, change: impl FnOnce(&mut Vec<Weak<GroupRun>>)) -> Result<(), GroupsStartError> {
        lock(&self.live_runs).as_mut().map(change).ok_or(GroupsStartError::Stopped)
    }
}

#[cfg(test)]
mod tests;
