//! Takes what is slow to end off the threads that drop it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use pronk_metrics::catch;

/// Ends what environments leave behind when they are dropped, such as their processes, on threads of its own.
///
/// A worker that waited for them itself could not be told from one that hangs. The run has a reaper and hands it to its
/// environments with their [`CallMonitor`](crate::CallMonitor); as the run ends, it waits for the reaper. Dropping a reaper waits, too.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_metrics::TimeLedger;
/// use pronk_rollout::{Reaper, CallMonitor};
///
/// let reaper = Reaper::new();
/// let monitor = CallMonitor::new().of_run(&TimeLedger::new(), &reaper.handle());
/// monitor.reap("simulator-1", Duration::from_secs(5), || println!("closing the window takes a while"));
/// assert!(reaper.wait().is_empty(), "all has ended");
/// ```
#[derive(Debug, Default)]
pub struct Reaper(ReaperHandle);

impl Reaper {
    /// A reaper that has nothing to wait for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until all that was handed over has ended; the names of the threads that have not within their limits.
    ///
    /// *Blocks* until the last limit is over, at most.
    pub fn wait(&self) -> Vec<String> {
        // Taken out first: what is handed over meanwhile must not wait for the lock.
        let endings = std::mem::take(&mut *self.0.lock());
        endings.into_iter().filter(Ending::is_late).map(|ending| ending.thread).collect()
    }

    /// What environments hand over to.
    pub fn handle(&self) -> ReaperHandle {
        self.0.clone()
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.wait();
    }
}

/// Hands over to a [`Reaper`], for a [`CallMonitor`](crate::CallMonitor) to be given.
///
/// ```
/// use pronk_metrics::TimeLedger;
/// use pronk_rollout::{Reaper, CallMonitor};
///
/// let reaper = Reaper::new();
/// let handle = reaper.handle();
/// let watches: Vec<_> = (0..3).map(|_| CallMonitor::new().of_run(&TimeLedger::new(), &handle)).collect();
/// # assert_eq!(watches.len(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReaperHandle(Arc<Mutex<Vec<Ending>>>);

#[derive(Debug)]
struct Ending {
    thread: String,
    /// `None` where it is too far away to be told.
    deadline: Option<Instant>,
    /// Closes as the thread ends; nothing is ever sent.
    over: Receiver<Infallible>,
}

impl Ending {
    fn is_over(&self) -> bool {
        self.over.try_recv().is_err_and(|end| end.is_disconnected())
    }

    /// Waits until it is over; whether it was not by its deadline.
    fn is_late(&self) -> bool {
        match self.deadline {
            Some(deadline) => !self.over.recv_deadline(deadline).is_err_and(|end| end.is_disconnected()),
            None => self.over.recv().is_ok(),
        }
    }
}

impl ReaperHandle {
    /// Runs `end`, which takes no longer than `limit`, on a thread of that name.
    pub(crate) fn add(&self, thread: &str, limit: Duration, end: impl FnOnce() + Send + 'static) {
        let (ending, over) = bounded::<Infallible>(0);
        let body = move || {
            // A panic while it ends is contained.
            let _ = catch(end);
            drop(ending);
        };
        // Without a thread `end` is dropped here, and what it holds ends as it is dropped.
        if thread::Builder::new().name(thread.to_owned()).spawn(body).is_ok() {
            let deadline = Instant::now().checked_add(limit);
            let mut endings = self.lock();
            // A run whose environments fail a thousand times keeps no list of a thousand.
            endings.retain(|ending| !ending.is_over());
            endings.push(Ending { thread: thread.to_owned(), deadline, over });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ending>> {
        // The list is whole whatever its holder was doing when it panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const FAR: Duration = Duration::from_secs(600);

    #[test]
    fn it_waits_for_all_and_names_those_that_are_late() {
        let reaper = Reaper::new();
        let (go_on, waits) = channel::<()>();
        let (done, is_done) = channel();
        reaper.handle().add("prompt", FAR, move || done.send(()).unwrap());
        reaper.handle().add("panics", FAR, || panic!("the window is gone"));
        reaper.handle().add("late", Duration::ZERO, move || {
            let _ = waits.recv();
        });
        assert_eq!(reaper.wait(), ["late"]);
        assert_eq!(is_done.try_recv(), Ok(()), "it was waited for");
        assert_eq!(reaper.wait(), Vec::<String>::new(), "each is named once");
        drop(go_on);
    }

    #[test]
    fn what_has_ended_is_forgotten() {
        let reaper = Reaper::new();
        for _ in 0..100 {
            reaper.handle().add("closing", FAR, || {});
            let over = reaper.0.lock().iter().map(|ending| ending.over.clone()).collect::<Vec<_>>();
            assert_eq!(over.len(), 1, "those before have ended");
            assert!(over[0].recv().is_err(), "it closes");
        }
    }

    #[test]
    fn a_dropped_reaper_has_waited() {
        let (done, is_done) = channel();
        let reaper = Reaper::new();
        let (go_on, waits) = channel::<()>();
        reaper.handle().add("closing", FAR, move || {
            let _ = waits.recv();
            done.send(()).unwrap();
        });
        drop(go_on);
        drop(reaper);
        assert_eq!(is_done.try_recv(), Ok(()));
    }
}
