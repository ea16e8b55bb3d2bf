//! [`Meanwhile`]: what a thread does while it waits.

use crate::sync::channel::Receiver;

/// What a thread does while it waits for something else: work in pieces, of which it hears by a message.
pub trait Meanwhile {
    /// Receives a message when there may be work; `None` if there never is. Closed once no more will come.
    fn wakes(&self) -> Option<&Receiver<()>>;

    /// Does the work that there is now.
    fn work(&mut self);
}

/// Nothing to do.
impl Meanwhile for () {
    fn wakes(&self) -> Option<&Receiver<()>> {
        None
    }

    fn work(&mut self) {}
}
