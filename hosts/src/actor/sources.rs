//! [`Sources`]: where a host gets weights from.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::contact::Contact;
use crate::ask::{AskError, ask};
use crate::link::{Link, Op};
use crate::sync::Instant;
use crate::wire::{WeightsReply, WeightsRequest, seal};

/// The relay, if the host has one and it answers; otherwise the learner.
pub(super) struct Sources {
    learner: Arc<Contact>,
    relay: Option<Arc<dyn Link>>,
    /// When the relay is asked again after it did not answer.
    relay_rests_until: Option<Instant>,
    lease: Duration,
}

impl Sources {
    pub(super) fn new(learner: Arc<Contact>, relay: Option<Arc<dyn Link>>, lease: Duration) -> Self {
        Self { learner, relay, relay_rests_until: None, lease }
    }

    /// Asks for a piece.
    pub(super) fn ask(&mut self, request: &WeightsRequest) -> Result<(WeightsReply, Bytes), AskError> {
        let question = seal(request, &[]);
        if let Some(piece) = self.ask_relay(&question) {
            return Ok(piece);
        }
        self.learner.ask(Op::Weights, &question, self.lease)
    }

    /// A piece from the relay, if it has one.
    fn ask_relay(&mut self, question: &Bytes) -> Option<(WeightsReply, Bytes)> {
        let relay = self.relay.as_ref()?;
        // Before the first weights only these questions tell the learner that the host is there.
        let is_due = self.learner.silent() > self.lease / 4;
        if is_due || self.relay_rests_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        match ask(&**relay, Op::Weights, question.clone(), self.lease / 4) {
            Ok((piece @ WeightsReply::Piece(_), body)) => {
                self.relay_rests_until = None;
                Some((piece, body))
            }
            // What it does not have the learner may have.
            Ok(_) => None,
            Err(error) => {
                if self.learner.left().is_none() {
                    tracing::warn!("the relay does not answer, so weights come from the learner: {error}");
                }
                self.relay_rests_until = Some(Instant::now() + self.lease);
                None
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::link::{Desk, Dial, Limits, Listen, Listening, Request};
    use crate::memory::MemoryNetwork;
    use crate::wire::Piece;

    /// An end whose weights are of one version, and which counts who asks for them.
    struct Of(u64, Mutex<u64>);

    impl Desk for Of {
        fn accept(&self, request: Request) {
            *self.1.lock().unwrap() += 1;
            let piece = Piece { version: self.0, pieces: 1, len: 0, digest: 0 };
            let reply = if self.0 == 0 { WeightsReply::Gone } else { WeightsReply::Piece(piece) };
            request.reply.send(seal(&reply, &[]));
        }
    }

    fn end(version: u64) -> (MemoryNetwork, Arc<Of>, Box<dyn Listening>) {
        let (network, desk) = (MemoryNetwork::new(), Arc::new(Of(version, Mutex::default())));
        let limits = Limits { hosts: 1, request_bytes: 1000 };
        let listening = Box::new(network.listen()).listen(Arc::clone(&desk) as Arc<_>, limits).unwrap();
        (network, desk, listening)
    }

    fn sources(learner: &MemoryNetwork, relay: Option<&MemoryNetwork>, lease: Duration) -> Sources {
        let contact = Contact::new(learner.dial("host").dial().unwrap());
        Sources::new(Arc::new(contact), relay.map(|relay| relay.dial("host").dial().unwrap()), lease)
    }

    fn version(sources: &mut Sources) -> u64 {
        let request = WeightsRequest { session: 1, run: 1, version: None, at_least: 0, piece: 0 };
        match sources.ask(&request) {
            Ok((WeightsReply::Piece(piece), _)) => piece.version,
            other => panic!("{other:?}"),
        }
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_relay_is_asked_first_and_the_learner_for_what_it_does_not_have() {
        let (learner, of_learner, _listening) = end(1);
        let ((with, ..), (without, of_without, _without)) = (end(2), end(0));
        let mut no_relay = sources(&learner, None, LONG);
        assert_eq!(version(&mut no_relay), 1);
        // Its end is closed, so the learner is asked, and the relay not again for a lease.
        let mut closed = sources(&learner, Some(&with), LONG);
        assert_eq!((version(&mut closed), version(&mut closed)), (1, 1));
        assert!(closed.relay_rests_until.is_some());
        let (with, _, _open) = end(2);
        assert_eq!(version(&mut sources(&learner, Some(&with), LONG)), 2);
        assert_eq!(*of_learner.1.lock().unwrap(), 3);
        let mut none = sources(&learner, Some(&without), LONG);
        assert_eq!((version(&mut none), version(&mut none)), (1, 1));
        assert_eq!((*of_without.1.lock().unwrap(), none.relay_rests_until), (2, None));
    }

    #[test]
    fn a_learner_that_has_not_been_heard_for_a_while_is_asked_itself() {
        let (learner, _, _learning) = end(1);
        let (relay, of_relay, _relaying) = end(2);
        // A quarter of no lease is always over.
        assert_eq!(version(&mut sources(&learner, Some(&relay), Duration::ZERO)), 1);
        assert_eq!(*of_relay.1.lock().unwrap(), 0);
    }
}
