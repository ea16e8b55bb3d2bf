//! The thread pool of a network, which runs the shares of a batch.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};

use crate::PolicyError;
use crate::error::panic_text;

/// Work on one share of a batch, with its input and result.
pub(super) trait Job: Send + 'static {
    /// Does the work.
    fn run(&mut self);
}

/// The calling thread and its helper threads, which are joined on drop. Jobs move to a thread and back;
/// results do not depend on the thread.
pub(super) struct ThreadPool<J> {
    /// `None` without helpers.
    edges: Option<Edges<J>>,
    /// Joined when dropped.
    helpers: Vec<JoinHandle<()>>,
    finished: Vec<(usize, J)>,
}

/// The channels between the calling thread and its helpers.
struct Edges<J> {
    jobs: Arc<Jobs<J>>,
    /// Signals that there are jobs: one message per helper.
    wake: Sender<()>,
    done: Receiver<(usize, Result<J, String>)>,
}

/// Jobs in the order of the batch. The calling thread takes them from the back, helpers from the front, so
/// that in the backward pass each mostly gets the rows that are in its cache.
struct Jobs<J>(Mutex<VecDeque<(usize, J)>>);

impl<J> Jobs<J> {
    /// No job runs under the lock, so a panic cannot leave the queue inconsistent.
    fn queue(&self) -> MutexGuard<'_, VecDeque<(usize, J)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Job> ThreadPool<J> {
    /// A pool of `threads`, including the calling one, for up to `capacity` jobs.
    pub(super) fn new(threads: usize, capacity: usize) -> Result<Self, PolicyError> {
        let mut pool = Self { edges: None, helpers: Vec::new(), finished: Vec::new() };
        if threads < 2 {
            return Ok(pool);
        }
        let jobs = Arc::new(Jobs(Mutex::new(VecDeque::with_capacity(capacity))));
        let (wake, wakes) = bounded(threads - 1);
        let (own_done, done) = bounded(capacity);
        for i in 1..threads {
            let helper = Helper { jobs: Arc::clone(&jobs), wakes: wakes.clone(), done: own_done.clone() };
            let spawned = std::thread::Builder::new().name(format!("network-{i}")).spawn(move || helper.work());
            pool.helpers.push(spawned.map_err(|source| PolicyError::Threads { threads, source })?);
        }
        pool.edges = Some(Edges { jobs, wake, done });
        Ok(pool)
    }

    /// Runs all jobs and returns them in their order.
    ///
    /// # Errors
    /// A job panicked; all jobs are lost then.
    pub(super) fn run(&mut self, jobs: &mut Vec<J>) -> Result<(), PolicyError> {
        let mut panicked = None;
        let mut collect = |(index, result)| match result {
            Ok(job) => self.finished.push((index, job)),
            Err(message) => panicked = Some(message),
        };
        match &self.edges {
            None => jobs.drain(..).enumerate().for_each(|(index, job)| collect((index, run(job)))),
            Some(edges) => edges.run(jobs, self.helpers.len(), collect),
        }
        self.finished.sort_unstable_by_key(|(index, _)| *index);
        jobs.extend(self.finished.drain(..).map(|(_, job)| job));
        match panicked {
            None => Ok(()),
            Some(message) => Err(PolicyError::Panicked { message }),
        }
    }
}

impl<J: Job> Edges<J> {
    /// Runs all jobs, some of them on the calling thread.
    fn run(&self, jobs: &mut Vec<J>, helpers: usize, mut collect: impl FnMut((usize, Result<J, String>))) {
        let mut running = jobs.len();
        self.jobs.queue().extend(jobs.drain(..).enumerate());
        // A full channel means that all helpers have been signalled already.
        for _ in 1..running.min(helpers + 1) {
            let _ = self.wake.try_send(());
        }
        while running > 0 {
            let own = self.jobs.queue().pop_back();
            let result = match own {
                Some((index, job)) => (index, run(job)),
                None => match self.done.recv() {
                    Ok(result) => result,
                    // Unreachable: helpers run until `wake` is dropped, and `self` holds it.
                    Err(_) => break,
                },
            };
            collect(result);
            running -= 1;
        }
    }
}

impl<J> Drop for ThreadPool<J> {
    fn drop(&mut self) {
        self.edges = None;
        for helper in self.helpers.drain(..) {
            // A helper's panic has been reported as its job's result.
            let _ = helper.join();
        }
    }
}

/// How long a helper polls before it blocks. The backward pass follows the forward pass within about the time
/// that waking a thread takes.
const AWAKE: Duration = Duration::from_micros(50);

/// A helper thread's ends of the channels.
struct Helper<J> {
    jobs: Arc<Jobs<J>>,
    wakes: Receiver<()>,
    done: Sender<(usize, Result<J, String>)>,
}

impl<J: Job> Helper<J> {
    fn work(self) {
        while self.wait_for_jobs() {
            loop {
                let Some((index, job)) = self.jobs.queue().pop_front() else { break };
                if self.done.send((index, run(job))).is_err() {
                    return;
                }
            }
        }
    }

    /// Waits for jobs; `false` if the pool ends.
    fn wait_for_jobs(&self) -> bool {
        let deadline = Instant::now() + AWAKE;
        while Instant::now() < deadline {
            match self.wakes.try_recv() {
                Ok(()) => return true,
                // Yield to threads with work.
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        self.wakes.recv().is_ok()
    }
}

/// The finished job, or the message of its panic.
fn run<J: Job>(mut job: J) -> Result<J, String> {
    // A job that panicked is dropped, so its partial result is never observed.
    catch_unwind(AssertUnwindSafe(move || {
        job.run();
        job
    }))
    .map_err(panic_text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Square(u64);

    impl Job for Square {
        fn run(&mut self) {
            assert_ne!(self.0, 13, "unlucky");
            self.0 *= self.0;
        }
    }

    #[test]
    fn jobs_come_back_done_and_in_order_on_any_thread() {
        for threads in [1, 2, 5] {
            let mut pool = ThreadPool::new(threads, 12).unwrap();
            assert_eq!(pool.helpers.len() + 1, threads);
            for _ in 0..50 {
                let mut jobs: Vec<_> = (0..12).map(Square).collect();
                pool.run(&mut jobs).unwrap();
                assert_eq!(jobs, (0..12).map(|i| Square(i * i)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_job_that_panics_is_an_error_and_the_crew_goes_on() {
        for threads in [1, 3] {
            let mut pool = ThreadPool::new(threads, 16).unwrap();
            let error = pool.run(&mut (10..16).map(Square).collect()).unwrap_err();
            assert!(error.to_string().contains("unlucky"), "{error}");
            let mut jobs = vec![Square(4)];
            pool.run(&mut jobs).unwrap();
            assert_eq!(jobs, [Square(16)]);
        }
    }
}
