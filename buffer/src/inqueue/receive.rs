use std::time::Duration;

use crossbeam_channel::{Receiver, Select, TryRecvError};

use crate::shutdown::ShutdownToken;

/// The next message of a channel, unless the run ends first.
pub(crate) fn receive<M>(channel: &Receiver<M>, token: &ShutdownToken, timeout: Duration) -> Result<M, PopError> {
    match channel.try_recv() {
        Ok(message) => return Ok(message),
        Err(TryRecvError::Disconnected) => return Err(PopError::Closed),
        Err(TryRecvError::Empty) if timeout.is_zero() => return Err(PopError::TimedOut),
        Err(TryRecvError::Empty) => {}
    }
    let mut wait = Select::new();
    let message = wait.recv(channel);
    wait.recv(token.ended());
    let Ok(ready) = wait.select_timeout(timeout) else {
        return Err(PopError::TimedOut);
    };
    if ready.index() == message {
        return ready.recv(channel).map_err(|_| PopError::Closed);
    }
    let _ = ready.recv(token.ended());
    Err(PopError::Closed)
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
