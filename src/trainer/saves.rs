//! [`Saves`]: when a run saves itself, and what became of that.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::mem::discriminant;
use std::path::Path;
use std::time::{Duration, Instant};

use pronk_buffer::Pool;
use pronk_learner::CutStorage;
use pronk_metrics::ResultDict;
use serde_json::json;

use super::checkpoint_thread::{CheckpointThread, Job};
use crate::checkpoint::{CheckpointError, Retention, Store};
use crate::config::{CheckpointConfig, Every};
use crate::error::TrainError;
use crate::resume::Agreement;

/// The file in which a run notes how far its results have come, so that a resumed one can say what was lost.
const PROGRESS: &str = "PROGRESS";

/// When a run saves itself, and what became of that.
pub(super) struct Saves {
    every: Every,
    thread: CheckpointThread,
    pub(super) agreement: Agreement,
    /// Storage of copied batches.
    pool: Pool,
    /// The last checkpoint: when, and at how many env-steps.
    last: (Instant, u64),
    /// The iteration that an exact run goes on from.
    pub(super) resumed_from: Option<u64>,
    /// Checkpoints begun.
    number: u64,
    /// Those not taken because the one before was still being written.
    skipped: u64,
    /// How long learner and workers waited for the last one.
    pub(super) pause: Duration,
    progress: Option<File>,
    /// The first failure of each cause.
    pub(super) failures: Vec<CheckpointError>,
}

impl Saves {
    /// Makes the folder and starts the thread, for a run that has come to `env_steps`, and that goes on with
    /// the checkpoints in the folder or replaces them. An error if either cannot be.
    pub(super) fn start(
        (dir, goes_on): (&Path, bool),
        config: &CheckpointConfig,
        agreement: Agreement,
        env_steps: u64,
    ) -> Result<Self, TrainError> {
        let CheckpointConfig { every, keep, keep_every, keep_best } = *config;
        let store = Store::open(dir, Retention { keep, keep_every, keep_best }, goes_on)?;
        let no_thread =
            |error: io::Error| CheckpointError::NoState { reason: format!("no thread to write it: {error}") };
        let progress = OpenOptions::new().create(true).truncate(false).write(true).open(dir.join(PROGRESS));
        Ok(Self {
            every,
            thread: CheckpointThread::start(store).map_err(no_thread)?,
            agreement,
            pool: Pool::new(usize::MAX),
            last: (Instant::now(), env_steps),
            resumed_from: None,
            number: 0,
            skipped: 0,
            pause: Duration::ZERO,
            // Without it, a resumed run only cannot say how much was lost.
            progress: progress.ok(),
            failures: Vec::new(),
        })
    }

    /// The iteration of the newest one that is written, and whether a run goes on exactly from there.
    pub(super) fn newest(&self) -> Option<(u64, bool)> {
        self.thread.written().newest.or(self.resumed_from.map(|iteration| (iteration, true)))
    }

    /// Whether a run goes on exactly from the newest one.
    pub(super) fn is_exact(&self) -> bool {
        self.newest().is_some_and(|(_, is_exact)| is_exact)
    }

    pub(super) fn thread(&self) -> &CheckpointThread {
        &self.thread
    }

    /// Whether a checkpoint is due and the one before is written. One that is due but not possible is
    /// counted.
    pub(super) fn is_due(&mut self, env_steps: u64) -> bool {
        let (at, steps) = self.last;
        let is_due = match self.every {
            Every::Time(time) => at.elapsed() >= time,
            Every::EnvSteps(every) => env_steps.saturating_sub(steps) >= every,
        };
        if is_due && self.thread.is_busy() {
            self.skipped += 1;
            // The next try is a whole interval later.
            self.last = (Instant::now(), env_steps);
            return false;
        }
        is_due
    }

    /// Storage for the next cut: that of the one which was written last.
    pub(super) fn storage(&self) -> CutStorage {
        CutStorage { batches: self.pool.clone(), learners: std::mem::take(&mut self.thread.written().spare) }
    }

    /// The number of the next checkpoint.
    pub(super) fn begin(&mut self, env_steps: u64) -> u64 {
        self.last = (Instant::now(), env_steps);
        self.number += 1;
        self.number
    }

    pub(super) fn hand(&mut self, job: Job) {
        self.thread.hand(job);
    }

    /// Notes how far the results have come. A failure only makes a later report less exact.
    pub(super) fn note_progress(&mut self, iteration: u64, env_steps: u64) {
        if let Some(progress) = &mut self.progress {
            let line = format!("{iteration:>20} {env_steps:>20}\n");
            let _ = progress.seek(SeekFrom::Start(0)).and_then(|_| progress.write_all(line.as_bytes()));
        }
    }

    /// Waits for the thread, at most this long; false if it still writes.
    pub(super) fn finish(&mut self, deadline: Duration) -> bool {
        let has_ended = self.thread.finish(deadline);
        self.take_failures();
        has_ended
    }

    /// Records a failure, unless one of the same cause is known.
    pub(super) fn note(&mut self, error: CheckpointError) {
        if self.failures.iter().all(|known| !is_same_cause(known, &error)) {
            tracing::warn!(%error, "a checkpoint could not be saved; the run goes on");
            self.failures.push(error);
        }
    }

    fn take_failures(&mut self) {
        let failures = std::mem::take(&mut self.thread.written().failures);
        failures.into_iter().for_each(|failure| self.note(failure));
    }

    /// Writes `checkpoint` and `checkpoints_failed`.
    pub(super) fn write_into(&mut self, dict: &mut ResultDict) {
        self.take_failures();
        let written = self.thread.written();
        dict.set("checkpoint.saved", written.saved);
        dict.set("checkpoint.skipped", self.skipped);
        dict.set("checkpoint.last_iteration", written.newest.map_or(0, |(iteration, _)| iteration));
        dict.set("checkpoint.pause_ms", self.pause.as_secs_f64() * 1e3);
        dict.set("checkpoint.write_s", written.took.as_secs_f64());
        dict.set("checkpoint.bytes", written.report.bytes);
        dict.set("checkpoint.bytes_written", written.report.bytes_written);
        if !self.failures.is_empty() {
            let failures: Vec<_> = self.failures.iter().map(ToString::to_string).collect();
            dict.set("checkpoints_failed", json!(failures));
        }
    }
}

/// How far the results of the run in the folder `dir` had come: iteration and env-steps.
pub(super) fn progress(dir: &Path) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(dir.join(PROGRESS)).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Whether two failures differ only in the file, whose name changes with every checkpoint.
fn is_same_cause(one: &CheckpointError, other: &CheckpointError) -> bool {
    use CheckpointError::{Io, NoState};
    match (one, other) {
        (Io { doing, cause, .. }, Io { doing: other_doing, cause: other_cause, .. }) => {
            doing == other_doing && cause.kind() == other_cause.kind()
        }
        (NoState { reason }, NoState { reason: other_reason }) => reason == other_reason,
        _ => discriminant(one) == discriminant(other),
    }
}
