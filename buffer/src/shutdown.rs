//! Ends a run by dropping one value.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use crate::sync::channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};

/// Makes the guard of a run's owner, and the token of its threads.
///
/// ```
/// use std::time::Duration;
///
/// let (guard, token) = pronk_buffer::shutdown();
/// let thread = std::thread::spawn(move || token.sleep(Duration::from_secs(3600)));
/// drop(guard); // wakes the sleeper
/// assert!(thread.join().unwrap().is_err());
/// ```
pub fn shutdown() -> (ShutdownGuard, ShutdownToken) {
    // Nothing is ever sent. On a buffered channel the test for disconnection is a few atomic loads; a
    // rendezvous channel would take a lock that all threads share.
    let (held, ended) = bounded(1);
    (ShutdownGuard { _held: held }, ShutdownToken { ended })
}

/// Dropping it ends every wait of every thread that holds a [`ShutdownToken`].
#[derive(Debug)]
pub struct ShutdownGuard {
    _held: Sender<Infallible>,
}

/// Tells a thread whether the [`ShutdownGuard`] was dropped, and ends its waits.
#[derive(Clone, Debug)]
pub struct ShutdownToken {
    ended: Receiver<Infallible>,
}

impl ShutdownToken {
    /// Whether the [`ShutdownGuard`] was dropped. Cheap enough for every environment step.
    pub fn is_shut_down(&self) -> bool {
        matches!(self.ended.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Sleeps for `duration`, or until the guard is dropped.
    ///
    /// # Errors
    /// [`Closed`] if the guard was dropped, before or during the sleep.
    pub fn sleep(&self, duration: Duration) -> Result<(), Closed> {
        match self.ended.recv_timeout(duration) {
            Ok(never) => match never {},
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(Closed(())),
        }
    }

    /// To select on the end of the run.
    pub(crate) fn ended(&self) -> &Receiver<Infallible> {
        &self.ended
    }
}

/// The other end is gone or the run is ending; holds the item that was not delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<T = ()>(pub T);

impl<T> fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed(..)")
    }
}

impl<T> fmt::Display for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed: the other end was dropped or the run is ending")
    }
}

impl<T> std::error::Error for Closed<T> {}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn dropping_the_guard_wakes_every_sleeper_at_once() {
        let (shutdown, token) = shutdown();
        let began = Instant::now();
        let sleepers: Vec<_> = (0..4)
            .map(|_| {
                let token = token.clone();
                std::thread::spawn(move || token.sleep(LONG))
            })
            .collect();
        assert!(!token.is_shut_down());
        drop(shutdown);
        for sleeper in sleepers {
            assert_eq!(sleeper.join().unwrap(), Err(Closed(())));
        }
        assert!(token.is_shut_down());
        assert!(began.elapsed() < LONG);
    }

    #[test]
    fn sleep_lasts_its_duration_while_the_guard_is_held() {
        let (_guard, token) = shutdown();
        let nap = Duration::from_millis(5);
        let began = Instant::now();
        assert_eq!(token.sleep(nap), Ok(()));
        assert!(began.elapsed() >= nap);
    }

    #[test]
    fn a_very_long_sleep_is_no_overflow() {
        let (shutdown, token) = shutdown();
        drop(shutdown);
        assert_eq!(token.sleep(Duration::MAX), Err(Closed(())));
    }
}
