use std::time::Duration;

use crate::meanwhile::Meanwhile;
use crate::shutdown::ShutdownToken;
use crate::sync::channel::{Receiver, Select, TryRecvError, never};

/// The next message of a channel, unless the run ends first.
pub(crate) fn receive<M>(channel: &Receiver<M>, token: &ShutdownToken, timeout: Duration) -> Result<M, PopError> {
    receive_meanwhile(channel, token, timeout, &mut ())
}

/// As [`receive`]; works at `meanwhile` instead of blocking while there is work, after which the timeout
/// begins again.
pub(crate) fn receive_meanwhile<M>(
    channel: &Receiver<M>,
    token: &ShutdownToken,
    timeout: Duration,
    meanwhile: &mut dyn Meanwhile,
) -> Result<M, PopError> {
    loop {
        match channel.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Disconnected) => return Err(PopError::Closed),
            Err(TryRecvError::Empty) if timeout.is_zero() => return Err(PopError::TimedOut),
            Err(TryRecvError::Empty) => {}
        }
        let mut wait = Select::new();
        let message = wait.recv(channel);
        let end = wait.recv(token.ended());
        let no_work = never();
        let wakes = meanwhile.wakes().unwrap_or(&no_work);
        wait.recv(wakes);
        let Ok(ready) = wait.select_timeout(timeout) else {
            return Err(PopError::TimedOut);
        };
        if ready.index() == message {
            return ready.recv(channel).map_err(|_| PopError::Closed);
        }
        if ready.index() == end {
            let _ = ready.recv(token.ended());
            return Err(PopError::Closed);
        }
        // Without threads that offer work there is nothing to wait for but the channel.
        if ready.recv(wakes).is_err() {
            return receive(channel, token, timeout);
        }
        meanwhile.work();
    }
}

/// Why a queue or mailbox returned nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PopError {
    /// A timeout.
    #[error("nothing came within the timeout")]
    TimedOut,
    /// No more items will come.
    #[error("closed: all senders were dropped or the run is ending")]
    Closed,
}
