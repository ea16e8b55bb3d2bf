//! Keeps the weights of a host up to date.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pronk_buffer::{ShutdownToken, Versioned, WeightPublisher};
use pronk_metrics::{ByPolicy, StateClock};
use pronk_policy::{ParamLayout, Params};

use super::contact::{Contact, Left};
use super::sources::Sources;
use crate::actor_states::FetchState;
use crate::ask::Pauses;
use crate::pull::{self, PullError};
use crate::sync::Instant;
use crate::sync::channel::RecvTimeoutError;
use crate::weights::Received;
use crate::wire::WeightsRequest;

/// The layout of the parameters of each policy.
pub type Layouts = ByPolicy<Arc<ParamLayout>>;

/// Fetches weights for a session.
pub(super) struct Fetch {
    pub(super) session: u64,
    /// The process of the learner.
    pub(super) run: u64,
    pub(super) contact: Arc<Contact>,
    pub(super) sources: Sources,
    pub(super) layouts: Layouts,
    /// How long to wait for a piece.
    pub(super) lease: Duration,
    pub(super) token: ShutdownToken,
}

impl Fetch {
    /// Keeps a cell up to date until the session ends.
    pub(super) fn run(mut self, mut publisher: WeightPublisher<ByPolicy<Params>>, mut clock: StateClock<FetchState>) {
        let mut pauses = Pauses::new();
        let mut silent_since: Option<Instant> = None;
        loop {
            clock.enter(FetchState::Waiting);
            while self.contact.newest() <= publisher.version() {
                if self.token.is_shut_down() {
                    return;
                }
                // It looks at the token between two waits.
                match self.contact.newer().recv_timeout(Duration::from_millis(200)) {
                    Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            clock.enter(FetchState::Fetching);
            let error = match self.newest(Some(publisher.version()), &mut silent_since) {
                Ok((version, bytes)) => match Received::read(&bytes, &self.layouts) {
                    Ok(received) => {
                        let moments = Arc::new(received.moments());
                        publisher.publish_copy(version, moments, |old| received.params(&self.layouts, old));
                        pauses = Pauses::new();
                        continue;
                    }
                    Err(error) => PullError::Damaged(error.to_string()),
                },
                Err(PullError::Over(over)) => return self.contact.leave(Left::Over(over)),
                Err(error) => error,
            };
            tracing::debug!("weights are fetched again: {error}");
            if silent_since.is_some_and(|since| since.elapsed() > 2 * self.lease) {
                // Beats may get through all the same; a new link may carry weights again.
                return self.contact.leave(Left::Silent);
            }
            clock.enter(FetchState::BackingOff);
            if self.token.sleep(pauses.next()).is_err() {
                return;
            }
        }
    }

    /// The newest weights, for a cell to begin with.
    pub(super) fn first(mut self) -> Result<Versioned<ByPolicy<Params>>, PullError> {
        let mut pauses = Pauses::new();
        loop {
            let error = match self.newest(None, &mut None) {
                Ok((version, bytes)) => {
                    let received = Received::read(&bytes, &self.layouts);
                    let received = received.map_err(|error| PullError::Damaged(error.to_string()))?;
                    let (weights, moments) = (received.params(&self.layouts, None), Arc::new(received.moments()));
                    return Ok(Versioned { version, weights, moments });
                }
                Err(error @ (PullError::Over(_) | PullError::Gone)) => return Err(error),
                Err(error) => error,
            };
            if self.contact.silent() > self.lease || self.token.sleep(pauses.next()).is_err() {
                return Err(error);
            }
        }
    }

    /// The newest version, if it is newer than `known`. Notes since when questions have had no answer.
    fn newest(&mut self, known: Option<u64>, silent_since: &mut Option<Instant>) -> Result<(u64, Bytes), PullError> {
        let expected: usize = self.layouts.values().map(|layout| size_of::<f32>() * layout.len()).sum();
        // Moments and names come on top, and are far smaller.
        let most = expected as u64 + (64 << 20);
        let (session, run, at_least) = (self.session, self.run, self.contact.newest());
        let request = WeightsRequest { session, run, version: None, at_least, piece: 0 };
        let newest = pull::newest(&request, most, |request| {
            let answer = self.sources.ask(request);
            let since = silent_since.unwrap_or_else(Instant::now);
            *silent_since = answer.is_err().then_some(since);
            answer
        })?;
        match known.is_some_and(|known| newest.version <= known) {
            true => Err(PullError::Busy),
            false => Ok((newest.version, newest.bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use pronk_buffer::{shutdown, weight_cell};
    use pronk_metrics::StepLedger;

    use super::*;
    use crate::link::Link;
    use crate::link::closures::Answering;
    use crate::wire::{News, Over, WeightsReply, seal};

    /// Why a stay ends in which newer weights are asked for on this link.
    fn left(link: impl Link + 'static, lease: Duration) -> Option<Left> {
        let contact = Arc::new(Contact::new(Arc::new(link)));
        // As an acknowledgement says it: fragments get through.
        contact.hears(&News { version: 1, ..News::default() }, &StepLedger::new());
        let (_guard, token) = shutdown();
        let sources = Sources::new(Arc::clone(&contact), None, lease);
        let layouts = Layouts::new();
        let fetch = Fetch { session: 1, run: 1, contact: Arc::clone(&contact), sources, layouts, lease, token };
        let (publisher, _cell) = weight_cell(ByPolicy::new());
        fetch.run(publisher, StateClock::new("weights", FetchState::Waiting));
        contact.left()
    }

    #[test]
    fn two_leases_without_weights_end_the_stay_although_the_learner_is_heard() {
        assert_eq!(left(Answering(|_| None), Duration::from_millis(60)), Some(Left::Silent));
    }

    #[test]
    fn an_answer_without_weights_says_that_the_learner_is_there() {
        let asked = AtomicU32::new(0);
        // The second question without an answer comes more than two leases after the first.
        let link = Answering(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
            0 | 3 => None,
            1 | 2 => Some(seal(&WeightsReply::Gone, &[])),
            _ => Some(seal(&WeightsReply::Over(Over::Finished), &[])),
        });
        assert_eq!(left(link, Duration::from_millis(150)), Some(Left::Over(Over::Finished)));
    }
}
