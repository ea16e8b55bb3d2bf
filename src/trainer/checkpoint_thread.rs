//! [`CheckpointThread`]: writes checkpoints while the run goes on.

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pronk_buffer::{ShutdownToken, Versioned, shutdown};
use pronk_learner::LearnerState;
use pronk_metrics::{ByPolicy, ClockReader, StateClock, catch, thread_states};
use pronk_policy::Params;

use crate::checkpoint::{Checkpoint, CheckpointError, RunPart, SaveReport, SavedSummary, Store};
use crate::resume::{Agreement, Snapshot};

thread_states! {
    /// What the thread that writes checkpoints is doing.
    pub enum CheckpointState {
        /// Waiting for the next checkpoint.
        Waiting = "waiting",
        /// Encoding and writing one, and waiting for the disk.
        Writing = "writing",
    }
}

/// A checkpoint to be written.
pub(super) struct Job {
    pub(super) checkpoints: ByPolicy<Checkpoint>,
    pub(super) snapshot: Snapshot,
    pub(super) published: Arc<Versioned<ByPolicy<Params>>>,
    pub(super) summary: SavedSummary,
    pub(super) agreement: Agreement,
    /// The files whose lengths are in the snapshot.
    pub(super) logs: Vec<PathBuf>,
}

/// What became of the jobs so far.
#[derive(Default)]
pub(super) struct Written {
    /// Jobs that have ended.
    pub(super) jobs: u64,
    pub(super) saved: u64,
    /// The iteration of the newest one, and whether a run goes on exactly from there.
    pub(super) newest: Option<(u64, bool)>,
    pub(super) took: Duration,
    pub(super) report: SaveReport,
    /// The states of the newest one, for their storage.
    pub(super) spare: ByPolicy<LearnerState>,
    /// Failures since they were last taken.
    pub(super) failures: Vec<CheckpointError>,
}

#[derive(Default)]
struct Outcome {
    written: Mutex<Written>,
    /// Notified after each job.
    changed: Condvar,
}

impl Outcome {
    fn lock(&self) -> MutexGuard<'_, Written> {
        // Nothing that can panic runs under this lock.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread `checkpoint`. It has at most one checkpoint to write; dropping it waits for that.
pub(super) struct CheckpointThread {
    jobs: Option<SyncSender<Box<Job>>>,
    outcome: Arc<Outcome>,
    /// Jobs handed over.
    handed: u64,
    /// Shut down as the thread ends.
    ended: ShutdownToken,
    clock: ClockReader,
    handle: Option<JoinHandle<()>>,
}

impl CheckpointThread {
    /// Starts the thread, which writes into `store`. An error if the system refuses a thread.
    pub(super) fn start(mut store: Store) -> std::io::Result<Self> {
        let (jobs, to_do) = sync_channel::<Box<Job>>(1);
        let (alive, ended) = shutdown();
        let outcome = Arc::new(Outcome::default());
        let mut clock = StateClock::new("checkpoint", CheckpointState::Waiting);
        let (reader, shared) = (clock.reader(), Arc::clone(&outcome));
        let body = move || {
            for job in to_do {
                clock.enter(CheckpointState::Writing);
                let (began, newest) = (Instant::now(), Some((job.summary.iteration, job.summary.exact)));
                let mut spare = ByPolicy::new();
                let saved = catch(|| write(&mut store, *job, &mut spare)).unwrap_or_else(|panic| {
                    Err(CheckpointError::NoState { reason: format!("writing it panicked: {panic}") })
                });
                let mut written = shared.lock();
                (written.jobs, written.spare) = (written.jobs + 1, spare);
                match saved {
                    Ok(report) => {
                        written.saved += 1;
                        (written.newest, written.took, written.report) = (newest, began.elapsed(), report);
                    }
                    Err(error) => written.failures.push(error),
                }
                drop(written);
                shared.changed.notify_all();
                clock.enter(CheckpointState::Waiting);
            }
            drop(alive);
        };
        let handle = Some(std::thread::Builder::new().name("checkpoint".to_owned()).spawn(body)?);
        Ok(Self { jobs: Some(jobs), outcome, handed: 0, ended, clock: reader, handle })
    }

    /// How its time is split.
    pub(super) fn clock(&self) -> ClockReader {
        self.clock.clone()
    }

    /// Whether it still writes the last one.
    pub(super) fn is_busy(&self) -> bool {
        self.outcome.lock().jobs < self.handed
    }

    /// Hands a checkpoint over; call it when the thread is not busy.
    pub(super) fn hand(&mut self, job: Job) {
        if let Some(jobs) = &self.jobs
            && jobs.try_send(Box::new(job)).is_ok()
        {
            self.handed += 1;
        }
    }

    /// What became of the jobs so far.
    pub(super) fn written(&self) -> MutexGuard<'_, Written> {
        self.outcome.lock()
    }

    /// Waits until the checkpoint in progress is written, at most this long.
    pub(super) fn wait(&self, deadline: Duration) {
        let in_progress = |written: &mut Written| written.jobs < self.handed;
        drop(self.outcome.changed.wait_timeout_while(self.outcome.lock(), deadline, in_progress));
    }

    /// Waits until all is written, at most this long. Returns whether it is.
    pub(super) fn finish(&mut self, deadline: Duration) -> bool {
        self.jobs = None;
        let has_ended = self.ended.sleep(deadline).is_err();
        if has_ended && let Some(handle) = self.handle.take() {
            // Waits for its last instructions only.
            let _ = handle.join();
        }
        has_ended
    }
}

fn write(store: &mut Store, job: Job, spare: &mut ByPolicy<LearnerState>) -> Result<SaveReport, CheckpointError> {
    let Job { checkpoints, mut snapshot, published, summary, agreement, logs } = job;
    let is_published = |(policy, checkpoint): (_, &Checkpoint)| {
        published.weights.get(policy).is_some_and(|params| params.values() == checkpoint.state.params.values())
    };
    if !checkpoints.iter().all(is_published) {
        snapshot.published = Some(published.weights.clone());
    }
    drop(published);
    let unencodable =
        |error: postcard::Error| CheckpointError::NoState { reason: format!("the state of the run: {error}") };
    let (state, fragments) = snapshot.encode().map_err(unencodable)?;
    let run = RunPart { summary, agrees: agreement.0, state, fragments };
    let saved = store.save(&checkpoints, Some(&run), &logs);
    *spare = checkpoints.into_iter().map(|(policy, checkpoint)| (policy, checkpoint.state)).collect();
    saved
}
