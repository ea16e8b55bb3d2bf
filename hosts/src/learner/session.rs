//! [`Session`]: one stay of a host in a run.

use std::ops::Range;

use bytes::Bytes;
use pronk_metrics::{StepTicket, Steps};

use super::account::Account;
use super::times::ByKind;
use crate::link::Reply;
use crate::sync::{Arc, Instant, Mutex, MutexGuard, PoisonError};
use crate::wire::{Answer, Joined, News, Over, Shipment, Statement, seal};

/// Damaged shipments in a row that end a session: a link that damages so many damages more.
const MAX_DAMAGED: u32 = 3;

/// One stay of a host in a run, from joining to leaving or falling silent.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    /// The attempt to join that began it, and its answer: one that is asked again joins once.
    pub(super) attempt: u64,
    pub(super) joined: Joined,
    /// The name that the link gives the host.
    pub(super) from: Arc<str>,
    /// The name in results: the same, with a number if several sessions have it.
    pub(super) name: String,
    /// Whether results show it by its name.
    pub(super) is_listed: bool,
    pub(super) workers: Range<u32>,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    /// When it was last heard of.
    pub(super) seen: Instant,
    /// `None` once the session has ended.
    account: Option<Account>,
    couriers: Vec<Courier>,
    /// The number of the last beat.
    pub(super) beats: u64,
    /// The time of its threads by its last beat.
    pub(super) times: ByKind,
    /// A beat that waits for news, and since when.
    pub(super) waiting_beat: Option<(Reply, Instant)>,
    damaged: u32,
    pub(super) figures: Figures,
}

/// What a host has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) fragments: u64,
    pub(super) env_steps: u64,
    /// Bytes of fragments that were taken, and of copies that came after them.
    pub(super) bytes: u64,
    /// Bytes of weights that it was sent.
    pub(super) weights_bytes: u64,
    /// Steps lost on the host.
    pub(super) lost: Steps,
    /// Workers that have given up.
    pub(super) gave_up: u64,
    /// Shipments that came again after they had been taken.
    pub(super) duplicates: u64,
}

/// A courier of the host, which has one shipment under way.
#[derive(Debug, Default)]
struct Courier {
    /// The number of its last shipment that was taken.
    taken: u64,
    parked: Option<Parked>,
}

/// A shipment that waits for the inlet, or is with it.
#[derive(Debug)]
struct Parked {
    checksum: u32,
    /// The length of the frame.
    len: u64,
    /// `None` while the inlet has it.
    frame: Option<Bytes>,
    /// The courier that waits for an answer, since when it does; `None` after it was told to ask again.
    reply: Option<(Reply, Instant)>,
}

/// A shipment for the inlet.
pub(super) struct Parcel {
    pub(super) session: Arc<Session>,
    pub(super) courier: u32,
}

/// What is to be done with a shipment that arrived.
pub(super) enum Arrival {
    /// It waits for the inlet.
    Parked,
    /// Nothing: it waits already, or the reply has been given.
    Done,
    /// The run takes no more.
    Over(Reply, Over),
    /// The session is to end, because of this.
    Foreign(Reply, String),
    /// The session has ended.
    Gone(Reply),
}

impl Session {
    pub(super) fn new(
        (attempt, from, name, is_listed): (u64, Arc<str>, String, bool),
        workers: Range<u32>,
        joined: Joined,
        account: Account,
    ) -> Self {
        let couriers = (0..joined.credits).map(|_| Courier::default()).collect();
        let state = State {
            seen: Instant::now(),
            account: Some(account),
            couriers,
            beats: 0,
            times: ByKind::new(),
            waiting_beat: None,
            damaged: 0,
            figures: Figures::default(),
        };
        Self { id: joined.session, attempt, joined, from, name, is_listed, workers, state: Mutex::new(state) }
    }

    /// Its name in results, if they show it.
    pub(super) fn listed(&self) -> Option<&str> {
        self.is_listed.then_some(&self.name)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock panics but by a defect; the books are valid after each line.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a shipment in, or a question after one; a new one only if the run is not over.
    pub(super) fn arrives(
        &self,
        shipment: &Shipment,
        frame: Bytes,
        reply: Reply,
        (news, over): (News, Option<Over>),
    ) -> Arrival {
        let mut state = self.lock();
        let State { account: Some(account), couriers, figures, seen, .. } = &mut *state else {
            return Arrival::Gone(reply);
        };
        *seen = Instant::now();
        if let Err(reason) = account.state(&shipment.statement) {
            return Arrival::Foreign(reply, reason);
        }
        let credits = couriers.len();
        let Some(courier) = couriers.get_mut(shipment.courier as usize) else {
            let reason = format!("courier {} of {credits} shipped", shipment.courier);
            return Arrival::Foreign(reply, reason);
        };
        let (len, is_question) = (frame.len() as u64, frame.is_empty());
        let expected = courier.taken + 1;
        if shipment.number < expected {
            figures.duplicates += u64::from(!is_question);
            figures.bytes += len;
            reply.send(seal(&Answer::Taken(news), &[]));
            return Arrival::Done;
        }
        if shipment.number > expected {
            let reason = format!("shipment {} came where {expected} was due", shipment.number);
            return Arrival::Foreign(reply, reason);
        }
        match &mut courier.parked {
            // Asked again: the caller that waited for the earlier reply is gone.
            Some(parked) => {
                parked.reply = Some((reply, Instant::now()));
                Arrival::Done
            }
            none => {
                if let Some(over) = over {
                    return Arrival::Over(reply, over);
                }
                if is_question {
                    reply.send(seal(&Answer::Missing, &[]));
                    return Arrival::Done;
                }
                let (checksum, reply) = (shipment.checksum, Some((reply, Instant::now())));
                *none = Some(Parked { checksum, len, frame: Some(frame), reply });
                Arrival::Parked
            }
        }
    }

    /// The frame that a courier has brought, with its checksum; `None` if the session has ended meanwhile.
    pub(super) fn take_frame(&self, courier: u32) -> Option<(Bytes, u32)> {
        let mut state = self.lock();
        let parked = state.couriers.get_mut(courier as usize)?.parked.as_mut()?;
        Some((parked.frame.take()?, parked.checksum))
    }

    /// Forgets a shipment that the inlet cannot have: not any more, or else not now. Then its courier gets no
    /// reply and ships it again.
    pub(super) fn unpark(&self, courier: u32, over: Option<Over>) {
        let parked = self.lock().couriers.get_mut(courier as usize).and_then(|courier| courier.parked.take());
        if let Some((parked, over)) = parked.zip(over) {
            parked.answer(&Answer::Over(over));
        }
    }

    /// Books a fragment as arrived.
    ///
    /// # Errors
    /// More steps than are on the way. `Ok(None)` if the session has ended.
    pub(super) fn book(&self, steps: Steps) -> Result<Option<StepTicket>, String> {
        self.lock().account.as_mut().map(|account| account.arrives(steps)).transpose()
    }

    /// Acknowledges the shipment of a courier: the inqueue has it.
    pub(super) fn acknowledge(&self, courier: u32, env_steps: u64, news: News) {
        let mut state = self.lock();
        let State { damaged, figures, couriers, .. } = &mut *state;
        *damaged = 0;
        figures.fragments += 1;
        figures.env_steps += env_steps;
        let Some(courier) = couriers.get_mut(courier as usize) else { return };
        let Some(parked) = courier.parked.take() else { return };
        courier.taken += 1;
        figures.bytes += parked.len;
        if let Some((reply, since)) = parked.reply {
            let held_secs = since.elapsed().as_secs_f64();
            reply.send(seal(&Answer::Taken(News { held_secs, ..news }), &[]));
        }
    }

    /// Has a courier ship again what arrived damaged. An error if that happened too often.
    pub(super) fn ask_again(&self, courier: u32) -> Result<(), String> {
        let mut state = self.lock();
        state.damaged += 1;
        if state.damaged >= MAX_DAMAGED {
            return Err(format!("{MAX_DAMAGED} of its fragments in a row arrived damaged"));
        }
        if let Some(parked) = state.couriers.get_mut(courier as usize).and_then(|courier| courier.parked.take()) {
            parked.answer(&Answer::Corrupt);
        }
        Ok(())
    }

    /// Books a statement, and notes that the host is there. `Ok(false)` if the session has ended.
    pub(super) fn state(&self, statement: &Statement) -> Result<bool, String> {
        let mut state = self.lock();
        state.seen = Instant::now();
        let Some(account) = &mut state.account else { return Ok(false) };
        account.state(statement)?;
        state.figures.lost = account.lost();
        Ok(true)
    }

    /// Has a beat wait for news. The reply comes back if the session has ended.
    pub(super) fn park_beat(&self, reply: Reply) -> Result<(), Reply> {
        let mut state = self.lock();
        if state.has_ended() {
            return Err(reply);
        }
        state.waiting_beat = Some((reply, Instant::now()));
        Ok(())
    }

    /// Tells what waits that the run is over. What the inlet has may still be taken, so it says.
    pub(super) fn close(&self, over: Over) {
        let mut state = self.lock();
        for courier in &mut state.couriers {
            if let Some(parked) = courier.parked.take_if(|parked| parked.frame.is_some()) {
                parked.answer(&Answer::Over(over));
            }
        }
        if let Some((reply, _)) = state.waiting_beat.take() {
            reply.send(seal(&Answer::Over(over), &[]));
        }
    }

    /// Ends the session: what has not arrived is lost to `cause`, and all that wait get `answer`.
    pub(super) fn end(&self, cause: &'static str, answer: &Answer) {
        let mut state = self.lock();
        if let Some(account) = state.account.take() {
            account.close(cause);
        }
        state.answer_all(answer);
    }
}

impl State {
    pub(super) fn has_ended(&self) -> bool {
        self.account.is_none()
    }

    /// Answers everything that waits.
    fn answer_all(&mut self, answer: &Answer) {
        self.couriers.iter_mut().filter_map(|courier| courier.parked.take()).for_each(|parked| parked.answer(answer));
        if let Some((reply, _)) = self.waiting_beat.take() {
            reply.send(seal(answer, &[]));
        }
    }

    /// Tells couriers that have waited since before `asked` that the learner is there, so that they can tell
    /// a full inqueue from a link that is dead, and from one that is slow.
    pub(super) fn tell_couriers(&mut self, asked: Instant, news: &News) {
        for parked in self.couriers.iter_mut().filter_map(|courier| courier.parked.as_mut()) {
            if let Some((reply, since)) = parked.reply.take_if(|(_, since)| *since < asked) {
                let held_secs = since.elapsed().as_secs_f64();
                reply.send(seal(&Answer::Waits(News { held_secs, ..news.clone() }), &[]));
            }
        }
    }
}

impl Parked {
    /// Answers the courier, if it waits.
    fn answer(self, answer: &Answer) {
        if let Some((reply, _)) = self.reply {
            reply.send(seal(answer, &[]));
        }
    }
}
