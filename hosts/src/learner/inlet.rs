//! The thread that brings fragments of hosts into the inqueue.

use std::time::Duration;

use pronk_buffer::{Closed, InqueueSender, MultiAgentBatch, Pool, WeightCell};
use pronk_metrics::{ByPolicy, StateClock, catch, thread_states};
use pronk_policy::Params;

use super::desk::HostsDesk;
use super::session::Parcel;
use crate::frame::{Decoder, Sender};
use crate::sync::Arc;
use crate::sync::channel::Receiver;
use crate::wire::News;

thread_states! {
    /// What the thread is doing that brings fragments of hosts into the inqueue.
    pub enum InletState {
        /// Waiting for a fragment.
        Waiting = "waiting",
        /// Decoding one.
        Unpacking = "unpacking",
        /// Waiting for room in the inqueue.
        Blocked = "blocked",
    }
}

/// Decodes fragments, pushes them and acknowledges them, in the order in which they arrived.
pub(super) struct Inlet {
    pub(super) desk: Arc<HostsDesk>,
    pub(super) fragments: InqueueSender<MultiAgentBatch>,
    pub(super) pool: Pool,
    pub(super) weights: WeightCell<ByPolicy<Params>>,
    pub(super) clock: StateClock<InletState>,
}

impl Inlet {
    pub(super) const NAME: &'static str = "inlet";

    /// Runs until no more fragments are taken, or the inqueue closes.
    pub(super) fn run(mut self, parcels: &Receiver<Parcel>) {
        let mut decoder = Decoder::default();
        loop {
            self.clock.enter(InletState::Waiting);
            let Ok(Parcel { session, courier }) = parcels.recv() else { return };
            self.clock.enter(InletState::Unpacking);
            let Some((frame, checksum)) = session.take_frame(courier) else { continue };
            let unpacked = match crc32c::crc32c(&frame) == checksum {
                false => Ok(None),
                true => {
                    // Not the version that the cell counts, which rises only after the weights can be had: a
                    // fast host ships a fragment of theirs while the learner's thread is between the two.
                    let newest_version = self.weights.load().version;
                    let sender = Sender { workers: session.workers.clone(), newest_version };
                    // A frame that makes decoding panic is a defect, which may cost the host, not the run.
                    let decoded = catch(|| decoder.decode(&frame, &self.pool, &self.desk.run.expected, &sender));
                    match decoded {
                        Ok(Ok(batch)) => Ok(Some(batch)),
                        Ok(Err(error)) if error.is_corrupt() => Ok(None),
                        Ok(Err(error)) => Err(error.to_string()),
                        Err(panic) => Err(format!("decoding its fragment panicked: {panic}")),
                    }
                }
            };
            let booked = match unpacked {
                Ok(Some(batch)) => session.book(batch.steps()).map(|ticket| ticket.map(|ticket| (batch, ticket))),
                Ok(None) => session.ask_again(courier).map(|()| None),
                Err(reason) => Err(reason),
            };
            let (batch, ticket) = match booked {
                Ok(Some(fragment)) => fragment,
                // Damaged, or of a session that has ended meanwhile.
                Ok(None) => continue,
                Err(reason) => {
                    self.desk.punish(&session, reason);
                    continue;
                }
            };
            let env_steps = batch.env_steps();
            self.clock.enter(InletState::Blocked);
            // Blocks while the inqueue is full. The host gets no reply meanwhile, and so its workers block.
            let pushed = self.fragments.push(batch.with_ticket(ticket));
            let blocked_secs = pushed.as_ref().map_or(0.0, Duration::as_secs_f64);
            // One that finds it closed stands in the books of the run as well: the host must not state it.
            session.acknowledge(courier, env_steps, News { blocked_secs, ..self.desk.news() });
            if let Err(Closed(mut unwanted)) = pushed {
                if let Some(ticket) = unwanted.take_ticket() {
                    ticket.dropped("shutdown");
                }
                return;
            }
        }
    }
}
