//! A courier: brings one fragment after the other to the learner.

use std::time::Duration;

use bytes::Bytes;
use pronk_buffer::{InqueueReceiver, MultiAgentBatch, PopError, ShutdownToken};
use pronk_metrics::{StateClock, StepLedger, StepTicket};

use super::contact::{Contact, Left};
use super::window::Window;
use crate::actor_states::CourierState;
use crate::ask::Pauses;
use crate::frame::{Encoder, Pixels};
use crate::link::Op;
use crate::sync::{Arc, Instant, Mutex, PoisonError};
use crate::wire::{Answer, Shipment, Statement, seal, seal_into};

/// Room for the header in front of a frame, so that the frame is written once.
const HEADROOM: usize = 4096;

/// How long the last question of a courier waits for its answer.
const LAST: Duration = Duration::from_millis(500);

pub(super) struct Courier {
    pub(super) number: u32,
    pub(super) session: u64,
    pub(super) contact: Arc<Contact>,
    /// One courier waits for a fragment, the others for that one.
    pub(super) fragments: Arc<Mutex<InqueueReceiver<MultiAgentBatch>>>,
    pub(super) window: Arc<Window>,
    pub(super) steps: StepLedger,
    /// How long to wait for an acknowledgement before the fragment is sent again.
    pub(super) lease: Duration,
    pub(super) pixels: Pixels,
    pub(super) token: ShutdownToken,
    pub(super) clock: StateClock<CourierState>,
}

impl Courier {
    /// Runs until the workers' inqueue closes or the session ends. Returns the steps of a fragment that the
    /// learner may have taken or not: the host must not state them as dropped.
    pub(super) fn run(mut self) -> Option<StepTicket> {
        let mut encoder = Encoder::default();
        let mut usual = 0;
        let window = Arc::clone(&self.window);
        for number in 1.. {
            self.clock.enter(CourierState::Held);
            let place = window.enter();
            self.clock.enter(CourierState::Waiting);
            let mut fragment = self.next()?;
            self.clock.enter(CourierState::Packing);
            let ticket = fragment.take_ticket();
            let message = self.pack(number, &fragment, &mut encoder, usual);
            usual = message.len();
            // Its storage is free for the next fragment while this one is on its way.
            drop(fragment);
            match (self.ship(number, &message), ticket) {
                (Shipped::Taken { network_secs, blocked_secs }, ticket) => {
                    place.arrived(network_secs, blocked_secs);
                    if let Some(ticket) = ticket {
                        ticket.trained();
                    }
                }
                (Shipped::Refused, ticket) => {
                    if let Some(ticket) = ticket {
                        ticket.dropped("shutdown");
                    }
                    return None;
                }
                (Shipped::Unknown, ticket) => return ticket,
            }
        }
        None
    }

    fn next(&self) -> Option<MultiAgentBatch> {
        let fragments = self.fragments.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match fragments.pop(Duration::MAX) {
                Ok(fragment) => return Some(fragment),
                Err(PopError::TimedOut) => {}
                Err(PopError::Closed) => return None,
            }
        }
    }

    /// A fragment as a message; `usual` is the length of the one before.
    fn pack(&self, number: u64, fragment: &MultiAgentBatch, encoder: &mut Encoder, usual: usize) -> Bytes {
        let mut message = Vec::with_capacity(HEADROOM + usual);
        message.resize(HEADROOM, 0);
        encoder.encode(fragment, self.pixels, &mut message);
        let mut header = Vec::new();
        seal_into(&self.shipment(number, crc32c::crc32c(&message[HEADROOM..])), &mut header);
        match HEADROOM.checked_sub(header.len()) {
            Some(start) => {
                message[start..HEADROOM].copy_from_slice(&header);
                Bytes::from(message).slice(start..)
            }
            // Many causes of losses with long names.
            None => {
                header.extend_from_slice(&message[HEADROOM..]);
                header.into()
            }
        }
    }

    fn shipment(&self, number: u64, checksum: u32) -> Shipment {
        let statement = Statement::from(&self.steps.snapshot());
        Shipment { session: self.session, courier: self.number, number, statement, checksum }
    }

    /// Sends a message until the learner has taken it or the session has ended. Where no answer comes, it
    /// asks what became of the fragment before it sends it again.
    fn ship(&mut self, number: u64, message: &Bytes) -> Shipped {
        let mut pauses = Pauses::new();
        let mut question = message.clone();
        let (began, mut held_secs) = (Instant::now(), 0.0);
        let mut answered = began;
        let mut is_last = false;
        loop {
            self.clock.enter(CourierState::Network);
            let deadline = if is_last { LAST.min(self.lease) } else { self.lease };
            let answer = self.contact.ask::<Answer>(Op::Ship, &question, deadline);
            if answer.is_ok() {
                answered = Instant::now();
            }
            let left = match answer {
                Ok((Answer::Taken(news), _)) => {
                    self.contact.hears(&news, &self.steps);
                    let network_secs = began.elapsed().as_secs_f64() - held_secs - news.held_secs;
                    return Shipped::Taken { network_secs, blocked_secs: news.blocked_secs };
                }
                Ok((Answer::Waits(news), _)) => {
                    self.contact.hears(&news, &self.steps);
                    held_secs += news.held_secs;
                    question = seal(&self.shipment(number, 0), &[]);
                    continue;
                }
                Ok((Answer::Missing, _)) => {
                    question = message.clone();
                    continue;
                }
                Ok((Answer::Over(over), _)) => Some(Left::Over(over)),
                Ok((Answer::Gone, _)) => Some(Left::Gone),
                Ok((Answer::Foreign(reason), _)) => Some(Left::Foreign(reason)),
                Ok((Answer::Corrupt, _)) => {
                    tracing::warn!("a fragment arrived damaged and is sent again");
                    question = message.clone();
                    None
                }
                Err(error) => {
                    tracing::debug!("no answer to a fragment: {error}");
                    question = seal(&self.shipment(number, 0), &[]);
                    None
                }
            };
            if let Some(left) = left {
                self.contact.leave(left);
                return Shipped::Refused;
            }
            if answered.elapsed() > 2 * self.lease {
                // Beats may get through all the same; a new link may carry fragments again.
                self.contact.leave(Left::Silent);
                return Shipped::Unknown;
            }
            if is_last {
                return Shipped::Unknown;
            }
            self.clock.enter(CourierState::BackingOff);
            // A host that ends asks once more: the learner books a fragment of unknown fate as lost.
            is_last = self.token.sleep(pauses.next()).is_err();
            // The thread that reports notices when the learner is silent for a lease.
            if self.contact.left().is_some() {
                return Shipped::Unknown;
            }
        }
    }
}

/// What became of a fragment. In the books of this host, one that the learner has is used up.
enum Shipped {
    Taken {
        network_secs: f64,
        blocked_secs: f64,
    },
    Refused,
    /// No answer came before the stay was over.
    Unknown,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
