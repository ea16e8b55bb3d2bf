use std::convert::Infallible;
use std::thread;
use std::time::Duration;

use pronk_metrics::catch;

use crate::sync::Instant;
use crate::sync::channel::{Receiver, bounded};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Runs the slow cleanup of dropped environments, such as ending their processes, on its own threads: a
/// worker that waited for it would seem to hang. Environments reach a run's reaper through their
/// [`CallMonitor`](crate::CallMonitor); the run waits for it at its end, as does dropping it.
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
    /// A reaper with nothing to wait for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for every cleanup, up to its limit, and returns the names of the threads that exceeded it.
    pub fn wait(&self) -> Vec<String> {
        // Taken out first, so that a new cleanup does not wait for the lock.
        let endings = std::mem::take(&mut *self.0.lock());
        endings.into_iter().filter(Ending::is_late).map(|ending| ending.thread).collect()
    }

    /// A handle for environments to add cleanups to.
    pub fn handle(&self) -> ReaperHandle {
        self.0.clone()
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.wait();
    }
}

/// Adds cleanups to a [`Reaper`]; a [`CallMonitor`](crate::CallMonitor) holds one.
#[derive(Clone, Debug, Default)]
pub struct ReaperHandle(Arc<Mutex<Vec<Ending>>>);

#[derive(Debug)]
struct Ending {
    thread: String,
    /// `None` when it is too far away for an `Instant`.
    deadline: Option<Instant>,
    /// Disconnects when the thread ends; nothing is ever sent.
    over: Receiver<Infallible>,
}

impl Ending {
    fn is_over(&self) -> bool {
        self.over.try_recv().is_err_and(|end| end.is_disconnected())
    }

    /// Waits for the end and returns whether it missed the deadline.
    fn is_late(&self) -> bool {
        match self.deadline {
            Some(deadline) => !self.over.recv_deadline(deadline).is_err_and(|end| end.is_disconnected()),
            None => self.over.recv().is_ok(),
        }
    }
}

impl ReaperHandle {
    /// Runs `end`, which takes at most `limit`, on a thread of that name.
    pub(crate) fn add(&self, thread: &str, limit: Duration, end: impl FnOnce() + Send + 'static) {
        let (ending, over) = bounded::<Infallible>(0);
        let body = move || {
            // A panic during cleanup is contained.
            let _ = catch(end);
            drop(ending);
        };
        // If no thread can be spawned, `end` is dropped here and what it holds cleans up in its `Drop`.
        if thread::Builder::new().name(thread.to_owned()).spawn(body).is_ok() {
            let deadline = Instant::now().checked_add(limit);
            let mut endings = self.lock();
            // Keeps the list short in a run whose environments fail often.
            endings.retain(|ending| !ending.is_over());
            endings.push(Ending { thread: thread.to_owned(), deadline, over });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ending>> {
        // No holder of the lock leaves the list half-changed.
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
