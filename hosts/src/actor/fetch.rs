//! Fetches the newest weights, piece by piece.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use crossbeam_channel::RecvTimeoutError;
use pronk_buffer::{ShutdownToken, Versioned, WeightPublisher};
use pronk_metrics::{ByPolicy, StateClock};
use pronk_policy::{ParamLayout, Params};
use xxhash_rust::xxh3::xxh3_64;

use super::contact::{AskError, Contact, Left, Pauses};
use crate::actor_states::FetchState;
use crate::link::Op;
use crate::weights::Received;
use crate::wire::{Over, WeightsReply, WeightsRequest, seal};

/// The layout of the parameters of each policy.
pub type Layouts = ByPolicy<Arc<ParamLayout>>;

/// Fetches weights for a session.
pub(super) struct Fetch {
    pub(super) session: u64,
    pub(super) contact: Arc<Contact>,
    pub(super) layouts: Layouts,
    /// How long to wait for a piece.
    pub(super) lease: Duration,
    pub(super) token: ShutdownToken,
}

/// Why weights were not fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the learner no longer has the session")]
    Gone,
    #[error("the learner no longer has the version, which took too long to fetch")]
    TooSlow,
    #[error("the learner has no place for a newer version, while other hosts fetch older ones")]
    Busy,
    #[error("the run is over")]
    Over(Over),
    #[error("weights arrived damaged: {0}")]
    Damaged(String),
}

impl Fetch {
    /// Keeps a cell up to date until the session ends.
    pub(super) fn run(self, mut publisher: WeightPublisher<ByPolicy<Params>>, mut clock: StateClock<FetchState>) {
        let mut pauses = Pauses::new();
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
            let error = match self.newest(Some(publisher.version())) {
                Ok((version, bytes)) => match Received::read(&bytes, &self.layouts) {
                    Ok(received) => {
                        let moments = Arc::new(received.moments());
                        publisher.publish_copy(version, moments, |old| received.params(&self.layouts, old));
                        pauses = Pauses::new();
                        continue;
                    }
                    Err(error) => FetchError::Damaged(error.to_string()),
                },
                Err(FetchError::Over(over)) => return self.contact.leave(Left::Over(over)),
                Err(error) => error,
            };
            tracing::debug!("weights are fetched again: {error}");
            clock.enter(FetchState::BackingOff);
            if self.token.sleep(pauses.next()).is_err() {
                return;
            }
        }
    }

    /// The newest weights, for a cell to begin with.
    pub(super) fn first(&self) -> Result<Versioned<ByPolicy<Params>>, FetchError> {
        let mut pauses = Pauses::new();
        loop {
            let error = match self.newest(None) {
                Ok((version, bytes)) => {
                    let received = Received::read(&bytes, &self.layouts);
                    let received = received.map_err(|error| FetchError::Damaged(error.to_string()))?;
                    let (weights, moments) = (received.params(&self.layouts, None), Arc::new(received.moments()));
                    return Ok(Versioned { version, weights, moments });
                }
                Err(error @ (FetchError::Over(_) | FetchError::Gone)) => return Err(error),
                Err(error) => error,
            };
            if self.contact.silent() > self.lease || self.token.sleep(pauses.next()).is_err() {
                return Err(error);
            }
        }
    }

    /// All pieces of the newest version, if it is newer than `known`.
    fn newest(&self, known: Option<u64>) -> Result<(u64, Bytes), FetchError> {
        let (first, body) = self.piece(None, 0)?;
        if known.is_some_and(|known| first.version <= known) {
            return Err(FetchError::Busy);
        }
        let expected: usize = self.layouts.values().map(|layout| size_of::<f32>() * layout.len()).sum();
        // Moments and names come on top, and are far smaller.
        let most = expected as u64 + (64 << 20);
        if first.len > most {
            return Err(FetchError::Damaged(format!("{} bytes where at most {most} are expected", first.len)));
        }
        if first.pieces <= 1 {
            return check(first.version, body, first.digest);
        }
        let mut all = BytesMut::with_capacity(first.len as usize);
        all.extend_from_slice(&body);
        for piece in 1..first.pieces {
            // Only the version can be gone: if it is the session, the next attempt says so.
            let (next, body) = self.piece(Some(first.version), piece).map_err(|error| match error {
                FetchError::Gone => FetchError::TooSlow,
                error => error,
            })?;
            if next != first || all.len() + body.len() > first.len as usize {
                return Err(FetchError::Damaged(format!("piece {piece} is of other weights")));
            }
            all.extend_from_slice(&body);
        }
        check(first.version, all.freeze(), first.digest)
    }

    fn piece(&self, version: Option<u64>, piece: u32) -> Result<(crate::wire::Piece, Bytes), FetchError> {
        let request = seal(&WeightsRequest { session: self.session, version, piece }, &[]);
        match self.contact.ask::<WeightsReply>(Op::Weights, &request, self.lease)? {
            (WeightsReply::Piece(piece), body) => Ok((piece, body)),
            (WeightsReply::Gone, _) => Err(FetchError::Gone),
            (WeightsReply::Over(over), _) => Err(FetchError::Over(over)),
        }
    }
}

fn check(version: u64, bytes: Bytes, digest: u64) -> Result<(u64, Bytes), FetchError> {
    match xxh3_64(&bytes) == digest {
        true => Ok((version, bytes)),
        false => Err(FetchError::Damaged("their digest is wrong".to_owned())),
    }
}
