//! [`Offering`]: jobs that any thread may take, and that return to the one that offered them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::sync::channel::{Receiver, Sender, TryRecvError, bounded};
use super::sync::thread::{self, JoinHandle};
use super::sync::{Arc, Instant, Mutex, MutexGuard, PoisonError};
use super::{PolicyError, panic_text};

/// Work on one share of a batch, with its input and result.
pub(super) trait Job: Send + 'static {
    /// Does the work.
    fn run(&mut self);
}

/// A job that is offered to any thread, its place among those of one call, and where it returns to.
struct Offer<J> {
    place: usize,
    job: J,
    returns: Sender<Return<J>>,
}

/// The place of a job, and the job or the message of its panic.
type Return<J> = (usize, Result<J, String>);

impl<J: Job> Offer<J> {
    fn run(self) {
        let Self { place, mut job, returns } = self;
        // A job that panicked is dropped, so its partial result is never observed.
        let done = catch_unwind(AssertUnwindSafe(move || {
            job.run();
            job
        }));
        // Fails only if the network was dropped meanwhile.
        let _ = returns.send((place, done.map_err(panic_text)));
    }
}

/// Offers in the order of the batch. The thread that offers takes them from the back, others from the front,
/// so that in the backward pass each mostly gets the rows that are in its cache.
struct Offers<J>(Mutex<(VecDeque<Offer<J>>, Next)>);

/// When the next offers come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// After these, as the backward pass after the forward pass.
    Soon,
    /// At some time.
    Later,
}

impl<J> Offers<J> {
    /// No job runs under the lock, so a panic cannot leave the queue inconsistent.
    fn lock(&self) -> MutexGuard<'_, (VecDeque<Offer<J>>, Next)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes offers of other threads.
pub(super) struct Taker<J> {
    offers: Arc<Offers<J>>,
    wakes: Receiver<()>,
}

impl<J> Clone for Taker<J> {
    fn clone(&self) -> Self {
        Self { offers: Arc::clone(&self.offers), wakes: self.wakes.clone() }
    }
}

impl<J: Job> Taker<J> {
    /// Receives a message when there may be offers; closed once no more will come.
    pub(super) fn wakes(&self) -> &Receiver<()> {
        &self.wakes
    }

    /// Runs offers until none is left.
    pub(super) fn run_all(&self) -> Next {
        loop {
            let offer = {
                let (offers, next) = &mut *self.offers.lock();
                let Some(offer) = offers.pop_front() else { return *next };
                offer
            };
            offer.run();
        }
    }
}

/// Offers jobs to other threads, some of them its own, which are joined on drop.
pub(super) struct Offering<J> {
    offers: Arc<Offers<J>>,
    /// One message for each thread to wake; `None` without helpers.
    wake: Option<Sender<()>>,
    taker: Taker<J>,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Job> Offering<J> {
    /// Wakes at most `helpers` threads for the jobs of one call, of which it starts `threads`.
    pub(super) fn new(helpers: usize, threads: usize) -> Result<Self, PolicyError> {
        let offers = Arc::new(Offers(Mutex::new((VecDeque::new(), Next::Later))));
        let (wake, wakes) = bounded(helpers);
        let taker = Taker { offers: Arc::clone(&offers), wakes };
        // A channel without capacity would still wake a thread that waits.
        let wake = (helpers > 0).then_some(wake);
        let mut offering = Self { offers, wake, taker, threads: Vec::new() };
        for i in 1..=threads {
            let taker = offering.taker.clone();
            let work = move || {
                while poll(&taker.wakes).is_some() || taker.wakes.recv().is_ok() {
                    taker.run_all();
                }
            };
            let spawned = thread::Builder::new().name(format!("network-{i}")).spawn(work);
            offering.threads.push(spawned.map_err(|source| PolicyError::Threads { threads, source })?);
        }
        Ok(offering)
    }

    /// For a thread that takes offers while it waits; `None` without helpers.
    pub(super) fn taker(&self) -> Option<Taker<J>> {
        self.wake.as_ref().map(|_| self.taker.clone())
    }

    /// Runs all jobs, some of them on the calling thread, and returns them in their order.
    ///
    /// # Errors
    /// A job panicked; all jobs are lost then.
    pub(super) fn run(&self, jobs: &mut Vec<J>, next: Next, returns: &mut Returns<J>) -> Result<(), PolicyError> {
        let mut out = jobs.len();
        {
            let mut offers = self.offers.lock();
            offers.0.extend(jobs.drain(..).enumerate().map(|(place, job)| returns.offer(place, job)));
            offers.1 = next;
        }
        // A full channel means that all helpers have been woken already.
        let wakes = self.wake.iter().flat_map(|wake| std::iter::repeat_n(wake, out.saturating_sub(1)));
        wakes.map(|wake| wake.try_send(())).find(Result::is_err);
        let mut panicked = None;
        while out > 0 {
            let offered = self.offers.lock().0.pop_back();
            let back = match offered {
                Some(offer) => {
                    offer.run();
                    returns.receiver.try_recv().ok()
                }
                None => returns.wait(),
            };
            let Some((place, result)) = back else { continue };
            out -= 1;
            match result {
                Ok(job) => returns.returned.push((place, job)),
                Err(message) => panicked = Some(message),
            }
        }
        returns.returned.sort_unstable_by_key(|(place, _)| *place);
        jobs.extend(returns.returned.drain(..).map(|(_, job)| job));
        match panicked {
            None => Ok(()),
            Some(message) => Err(PolicyError::Panicked { message }),
        }
    }
}

impl<J> Drop for Offering<J> {
    fn drop(&mut self) {
        self.wake = None;
        for thread in self.threads.drain(..) {
            // A panic of a job has been reported as its result.
            let _ = thread.join();
        }
    }
}

/// How long to poll before blocking: about what it costs to block and to be woken. Most jobs take less.
const WAKING: Duration = Duration::from_micros(50);

/// Polls for so long.
pub(super) fn poll<M>(channel: &Receiver<M>) -> Option<M> {
    let deadline = Instant::now() + WAKING;
    loop {
        match channel.try_recv() {
            Ok(message) => return Some(message),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if Instant::now() >= deadline => return None,
            // For a thread that has work.
            Err(TryRecvError::Empty) => thread::yield_now(),
        }
    }
}

/// Where the jobs of one network return to. Its memory is reused.
pub(super) struct Returns<J> {
    sender: Sender<Return<J>>,
    receiver: Receiver<Return<J>>,
    returned: Vec<(usize, J)>,
}

impl<J> Returns<J> {
    /// For up to `capacity` jobs at once.
    pub(super) fn new(capacity: usize) -> Self {
        let (sender, receiver) = bounded(capacity);
        Self { sender, receiver, returned: Vec::with_capacity(capacity) }
    }

    /// Waits for a job that another thread runs.
    fn wait(&self) -> Option<Return<J>> {
        poll(&self.receiver).or_else(|| self.receiver.recv().ok())
    }

    fn offer(&self, place: usize, job: J) -> Offer<J> {
        Offer { place, job, returns: self.sender.clone() }
    }
}

#[cfg(not(pronk_model))]
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
        for helpers in [0, 1, 4] {
            let offering = Offering::new(helpers, helpers).unwrap();
            assert_eq!(offering.threads.len(), helpers);
            let mut returns = Returns::new(12);
            for _ in 0..50 {
                let mut jobs: Vec<_> = (0..12).map(Square).collect();
                offering.run(&mut jobs, Next::Later, &mut returns).unwrap();
                assert_eq!(jobs, (0..12).map(|i| Square(i * i)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_job_that_panics_is_an_error_and_the_threads_go_on() {
        for helpers in [0, 2] {
            let offering = Offering::new(helpers, helpers).unwrap();
            let mut returns = Returns::new(16);
            let error = offering.run(&mut (10..16).map(Square).collect(), Next::Later, &mut returns).unwrap_err();
            assert!(error.to_string().contains("unlucky"), "{error}");
            let mut jobs = vec![Square(4)];
            offering.run(&mut jobs, Next::Later, &mut returns).unwrap();
            assert_eq!(jobs, [Square(16)]);
        }
    }

    #[test]
    fn networks_that_share_helpers_get_their_own_jobs_back() {
        let offering = Offering::new(2, 2).unwrap();
        std::thread::scope(|scope| {
            for first in [100, 200, 300] {
                let offering = &offering;
                scope.spawn(move || {
                    let mut returns = Returns::new(8);
                    for _ in 0..200 {
                        let mut jobs: Vec<_> = (first..first + 8).map(Square).collect();
                        offering.run(&mut jobs, Next::Later, &mut returns).unwrap();
                        assert_eq!(jobs, (first..first + 8).map(|i| Square(i * i)).collect::<Vec<_>>());
                    }
                });
            }
        });
    }
}
