//! Threads of a network's own, among which the parts of a batch are shared out.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};

use crate::PolicyError;
use crate::error::panic_text;

/// Work on one part of a batch: it carries all that it needs, and its result, with it.
pub(super) trait Job: Send + 'static {
    /// Does the work.
    fn run(&mut self);
}

/// The calling thread and its helpers. Dropping it ends the helpers.
///
/// Jobs move to the thread that does them and back; nothing is lent across threads. Which thread does which job decides
/// nothing about the result.
pub(super) struct ThreadPool<J> {
    /// Nothing when the calling thread is alone.
    edges: Option<Edges<J>>,
    /// Joined when dropped.
    helpers: Vec<JoinHandle<()>>,
    finished: Vec<(usize, J)>,
}

/// What lies between the calling thread and its helpers.
struct Edges<J> {
    jobs: Arc<Jobs<J>>,
    /// Says that there are jobs: one ring for each helper.
    wake: Sender<()>,
    done: Receiver<(usize, Result<J, String>)>,
}

/// Jobs to be done, in the order of the batch. The calling thread takes them from the back and helpers from the front,
/// so that each mostly gets the rows on the way back that it had, and still has in its cache, on the way forward.
struct Jobs<J>(Mutex<VecDeque<(usize, J)>>);

impl<J> Jobs<J> {
    /// No job is done under the lock, so none can leave the queue half changed.
    fn queue(&self) -> MutexGuard<'_, VecDeque<(usize, J)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Job> ThreadPool<J> {
    /// A pool of `threads`, the calling one included, for up to `capacity` jobs at once.
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

    /// Does all jobs and leaves them in the order they had.
    ///
    /// # Errors
    /// When a job panicked; the jobs are gone then.
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
    /// Has all jobs done, some of them by the calling thread.
    fn run(&self, jobs: &mut Vec<J>, helpers: usize, mut collect: impl FnMut((usize, Result<J, String>))) {
        let mut running = jobs.len();
        self.jobs.queue().extend(jobs.drain(..).enumerate());
        // A wake that is still ringing is heard all the same.
        for _ in 1..running.min(helpers + 1) {
            let _ = self.wake.try_send(());
        }
        while running > 0 {
            let own = self.jobs.queue().pop_back();
            let result = match own {
                Some((index, job)) => (index, run(job)),
                None => match self.done.recv() {
                    Ok(result) => result,
                    // Helpers end when the wake is gone, and it is here.
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

/// How long a helper listens for the wake before it sleeps. Backward follows forward after the loss, some tens of
/// microseconds; to be woken takes as long.
const AWAKE: Duration = Duration::from_micros(50);

/// The far ends of the edges.
struct Helper<J> {
    jobs: Arc<Jobs<J>>,
    wakes: Receiver<()>,
    done: Sender<(usize, Result<J, String>)>,
}

impl<J: Job> Helper<J> {
    fn work(self) {
        while self.bell_rings() {
            loop {
                let Some((index, job)) = self.jobs.queue().pop_front() else { break };
                if self.done.send((index, run(job))).is_err() {
                    return;
                }
            }
        }
    }

    /// Waits until there are jobs; `false` when there will be none.
    fn bell_rings(&self) -> bool {
        let patience = Instant::now() + AWAKE;
        while Instant::now() < patience {
            match self.wakes.try_recv() {
                Ok(()) => return true,
                // Whoever has something to do goes first.
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        self.wakes.recv().is_ok()
    }
}

/// The job after its work, or what its panic said.
fn run<J: Job>(mut job: J) -> Result<J, String> {
    // A job that panicked is dropped, so nobody sees it half done.
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
    fn jobs_come_back_done_and_in_order_whoever_did_them() {
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
