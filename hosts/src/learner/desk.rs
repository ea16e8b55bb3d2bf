//! [`HostsDesk`]: takes every request of every host, and answers what can be answered at once.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use crossbeam_channel::Sender;
use pronk_buffer::{MailboxSender, VersionReader};
use pronk_metrics::{StepLedger, Steps, TimeLedger};
use pronk_rollout::WorkerReport;
use serde::de::DeserializeOwned;

use super::account::Account;
use super::session::{Arrival, Session};
use super::{reported, times};
use crate::frame::Expected;
use crate::link::{Desk, Op, Reply, Request};
use crate::terms::Terms;
use crate::wire::{
    Answer, Beat, Door, Facts, Hello, Join, Joined, Knock, News, Over, Refusal, Shipment, WeightsReply, WeightsRequest,
    Welcome, open, seal,
};

/// Shipments that wait for the inlet at most, of all hosts together.
pub(super) const MAX_PARKED: u32 = 4096;

/// Sessions of one name that may break the rules before the name is shut out.
const MAX_STRIKES: u32 = 3;

/// Why the steps of a session that ended were lost.
const HOST_LOST: &str = "host_lost";

/// Where the requests of hosts arrive.
pub(super) struct HostsDesk {
    pub(super) terms: Terms,
    pub(super) expected: Arc<Expected>,
    /// The most steps of a fragment.
    pub(super) fragment: Steps,
    pub(super) welcome: Welcome,
    pub(super) facts: Facts,
    pub(super) steps: StepLedger,
    pub(super) time: TimeLedger,
    pub(super) version: VersionReader,
    pub(super) reports: MailboxSender<WorkerReport>,
    /// Requests for weights, which the keeper answers.
    pub(super) weights: Sender<WeightsAsked>,
    members: Mutex<Members>,
}

/// The hosts of a run.
pub(super) struct Members {
    pub(super) sessions: BTreeMap<u64, Arc<Session>>,
    next_worker: u32,
    /// What hosts did that broke the rules, by name.
    strikes: BTreeMap<Arc<str>, (u32, String)>,
    /// To the inlet; `None` once no more fragments are taken.
    parcels: Option<Sender<Parcel>>,
    over: Option<Over>,
    /// Kinds of threads in the account of hosts that have left.
    left: BTreeSet<String>,
    /// Sessions that have begun, and those that ended because their hosts fell silent.
    pub(super) joined: u64,
    pub(super) lost: u64,
}

/// A shipment for the inlet.
pub(super) struct Parcel {
    pub(super) session: Arc<Session>,
    pub(super) courier: u32,
}

/// A request for weights.
pub(super) struct WeightsAsked {
    pub(super) session: u64,
    pub(super) version: Option<u64>,
    pub(super) piece: u32,
    pub(super) reply: Reply,
}

/// What a desk is made of, but for what it keeps itself.
pub(super) struct DeskParts {
    pub(super) terms: Terms,
    pub(super) expected: Arc<Expected>,
    pub(super) fragment: Steps,
    pub(super) welcome: Welcome,
    pub(super) facts: Facts,
    pub(super) steps: StepLedger,
    pub(super) time: TimeLedger,
    pub(super) version: VersionReader,
    pub(super) reports: MailboxSender<WorkerReport>,
    pub(super) weights: Sender<WeightsAsked>,
    pub(super) parcels: Sender<Parcel>,
    pub(super) first_worker: u32,
}

impl HostsDesk {
    pub(super) fn new(parts: DeskParts) -> Self {
        let DeskParts { terms, expected, fragment, welcome, facts, steps, time, version, reports, .. } = parts;
        let members = Members {
            sessions: BTreeMap::new(),
            next_worker: parts.first_worker,
            strikes: BTreeMap::new(),
            parcels: Some(parts.parcels),
            over: None,
            left: BTreeSet::new(),
            joined: 0,
            lost: 0,
        };
        let members = Mutex::new(members);
        let weights = parts.weights;
        Self { terms, expected, fragment, welcome, facts, steps, time, version, reports, weights, members }
    }

    pub(super) fn members(&self) -> MutexGuard<'_, Members> {
        // Nothing under this lock panics but by a defect, and each line leaves the list valid.
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What every host should know now.
    pub(super) fn news(&self) -> News {
        News { version: self.version.current(), drains: self.steps.limit_reached(), held_secs: 0.0 }
    }

    /// Ends the sessions of hosts that have been silent for a lease, and answers beats that have waited for
    /// long enough, or for news. Takes no more fragments once the run drains and all hosts have left.
    pub(super) fn look_after(&self, now: Instant) {
        let news = self.news();
        let members = self.members();
        let (sessions, over): (Vec<_>, _) = (members.sessions.values().cloned().collect(), members.over);
        drop(members);
        let answer = seal(&over.map_or_else(|| Answer::Taken(news.clone()), Answer::Over), &[]);
        for session in &sessions {
            let mut state = session.lock();
            if now.saturating_duration_since(state.seen) > self.terms.lease {
                drop(state);
                let silent = self.terms.lease.as_secs_f64();
                tracing::warn!(host = session.name, "lost: nothing was heard of it for {silent:.1} s");
                if self.end(session, &Answer::Gone) {
                    self.members().lost += 1;
                }
                continue;
            }
            let is_due = |(_, since): &mut (Reply, Instant)| {
                news.drains || over.is_some() || now.saturating_duration_since(*since) >= self.terms.beat
            };
            if let Some((reply, _)) = state.waiting_beat.take_if(is_due) {
                reply.send(answer.clone());
            }
        }
        let mut members = self.members();
        if news.drains && members.sessions.is_empty() {
            members.parcels = None;
        }
    }

    /// Tells all hosts that the run is over, and lets none in from now on.
    pub(super) fn close(&self, over: Over) {
        let mut members = self.members();
        let over = *members.over.get_or_insert(over);
        members.parcels = None;
        let sessions: Vec<_> = members.sessions.values().cloned().collect();
        drop(members);
        sessions.iter().for_each(|session| session.close(over));
    }

    /// Ends every session.
    pub(super) fn end_all(&self) {
        let sessions: Vec<_> = self.members().sessions.values().cloned().collect();
        for session in &sessions {
            self.end(session, &Answer::Gone);
        }
    }

    /// Ends a session that broke the rules, and shuts its name out if it keeps doing so.
    pub(super) fn punish(&self, session: &Arc<Session>, reason: String) {
        tracing::warn!(host = session.name, "its session ends: {reason}");
        // Several of its messages may break the rules at once; the session counts once.
        if self.end(session, &Answer::Foreign(reason.clone())) {
            let mut members = self.members();
            let strikes = members.strikes.entry(Arc::clone(&session.from)).or_default();
            *strikes = (strikes.0 + 1, reason);
        }
    }

    /// Ends a session; its time goes to the account of hosts that have left. False if it had ended before.
    fn end(&self, session: &Arc<Session>, answer: &Answer) -> bool {
        // Under the lock, so that the next session of this name begins with no time.
        let mut members = self.members();
        if members.sessions.remove(&session.id).is_none() {
            return false;
        }
        session.end(HOST_LOST, answer);
        let kinds = std::mem::take(&mut session.lock().named.kinds);
        times::end(&self.time, &session.name, kinds, &mut members.left);
        true
    }

    fn find(&self, id: u64, from: &str) -> Option<Arc<Session>> {
        self.members().sessions.get(&id).filter(|session| *session.from == *from).cloned()
    }

    fn join(&self, request: &Request) -> Door {
        let knock = match open::<Knock>(&request.bytes) {
            Ok((knock, _)) => knock,
            Err(error) => {
                tracing::warn!(host = &*request.from, "not let in: {error}");
                return Door::Refused(Refusal::Differs {
                    what: "protocol".to_owned(),
                    learner: crate::wire::PROTOCOL.to_string(),
                    actor: error.to_string(),
                });
            }
        };
        let door = match knock {
            Knock::Hello(hello) => match self.check(&request.from, &hello) {
                Ok(()) => self.over().map_or_else(|| Door::Welcome(self.welcome.clone()), Door::Over),
                Err(refusal) => Door::Refused(refusal),
            },
            Knock::Join(join) => self.let_in(&request.from, join).unwrap_or_else(Door::Refused),
        };
        if let Door::Refused(refusal) = &door {
            tracing::warn!(host = &*request.from, "not let in: {refusal}");
        }
        door
    }

    /// Whether hosts are still let in.
    fn over(&self) -> Option<Over> {
        self.members().over.or_else(|| self.steps.limit_reached().then_some(Over::Finished))
    }

    fn check(&self, from: &Arc<str>, hello: &Hello) -> Result<(), Refusal> {
        let version = env!("CARGO_PKG_VERSION");
        if hello.version != version {
            return Err(differs("version of pronk", version, &shortened(&hello.version)));
        }
        let limit = self.terms.max_workers;
        if !(1..=limit).contains(&hello.workers) {
            return Err(Refusal::Workers { asked: hello.workers, limit });
        }
        match self.members().strikes.get(from) {
            Some((MAX_STRIKES.., reason)) => Err(Refusal::ShutOut { reason: reason.clone() }),
            _ => Ok(()),
        }
    }

    fn let_in(&self, from: &Arc<str>, join: Join) -> Result<Door, Refusal> {
        self.check(from, &join.hello)?;
        if let Some(over) = self.over() {
            return Ok(Door::Over(over));
        }
        if join.run != self.welcome.run {
            // The learner was resumed between the two questions.
            return Ok(Door::Welcome(self.welcome.clone()));
        }
        self.compare(&join.facts)?;
        if let Some(before) = join.before.and_then(|id| self.find(id, from)) {
            self.end(&before, &Answer::Gone);
        }
        let workers = join.hello.workers;
        let mut members = self.members();
        // The run may have ended since it was looked at.
        let full_of_steps = members.parcels.is_none().then_some(Over::Finished);
        if let Some(over) = members.over.or(full_of_steps) {
            return Ok(Door::Over(over));
        }
        // The reply to this attempt was lost, or comes late.
        let again = |session: &&Arc<Session>| session.attempt == join.attempt && session.from == *from;
        if let Some(session) = members.sessions.values().find(again) {
            return Ok(Door::Joined(session.joined.clone()));
        }
        let limit = self.terms.max_hosts;
        let full = |what: &str, limit: u64| Refusal::Full { what: what.to_owned(), limit };
        if members.sessions.len() >= limit as usize {
            return Err(full("hosts", limit.into()));
        }
        let end = members.next_worker.checked_add(workers).ok_or_else(|| full("workers", u32::MAX.into()))?;
        let numbers = members.next_worker..end;
        members.next_worker = end;
        // One shipment for each worker while it makes the next, and one that hides the way of the reply.
        let credits = workers.saturating_add(1).min((MAX_PARKED / limit).max(2));
        let session = members.new_id();
        let name = members.name(from);
        let bound = 2 * u64::from(workers) + u64::from(credits) + 2;
        let of = |steps: u64| bound.saturating_mul(steps);
        let bound = Steps { env: of(self.fragment.env), agent: of(self.fragment.agent) };
        let account = Account::new(self.steps.clone(), bound);
        tracing::info!(host = name, "joined with workers {} to {}", numbers.start, end - 1);
        let joined = Joined { session, first_worker: numbers.start, credits, terms: self.terms };
        let new = Session::new((join.attempt, Arc::clone(from), name), numbers, joined.clone(), account);
        members.sessions.insert(session, Arc::new(new));
        members.joined += 1;
        Ok(Door::Joined(joined))
    }

    /// Refuses the first fact that differs.
    fn compare(&self, facts: &Facts) -> Result<(), Refusal> {
        let names = self.facts.keys().chain(facts.keys().filter(|name| !self.facts.contains_key(*name)));
        for name in names {
            let (ours, theirs) = (self.facts.get(name), facts.get(name));
            if ours != theirs {
                let text = |fact: Option<&String>| fact.map_or("none".to_owned(), |fact| shortened(fact));
                return Err(differs(&shortened(name), &text(ours), &text(theirs)));
            }
        }
        Ok(())
    }

    fn ship(&self, request: Request) {
        let Some((shipment, frame)) = self.read::<Shipment>(&request) else { return };
        let reply = request.reply;
        let Some(session) = self.find(shipment.session, &request.from) else {
            return reply.send(seal(&Answer::Gone, &[]));
        };
        if frame.len() > self.expected.max_bytes() {
            let reason = format!("a frame of {} bytes is longer than any fragment of the run", frame.len());
            reply.send(seal(&Answer::Foreign(reason.clone()), &[]));
            return self.punish(&session, reason);
        }
        let over = self.members().over;
        match session.arrives(&shipment, frame, reply, (self.news(), over)) {
            Arrival::Parked => {
                let parcel = Parcel { session: Arc::clone(&session), courier: shipment.courier };
                let members = self.members();
                // There is room for all credits of all sessions, unless those of ended ones are still on
                // their way; the courier then asks again after its deadline.
                if members.parcels.as_ref().is_none_or(|inlet| inlet.try_send(parcel).is_err()) {
                    drop(members);
                    session.unpark(shipment.courier);
                }
            }
            Arrival::Done => {}
            Arrival::Over(reply, over) => reply.send(seal(&Answer::Over(over), &[])),
            Arrival::Gone(reply) => reply.send(seal(&Answer::Gone, &[])),
            Arrival::Foreign(reply, reason) => {
                reply.send(seal(&Answer::Foreign(reason.clone()), &[]));
                self.punish(&session, reason);
            }
        }
    }

    fn beat(&self, request: Request) {
        let Some((beat, _)) = self.read::<Beat>(&request) else { return };
        let reply = request.reply;
        let session = self.find(beat.session, &request.from);
        let booked = session.as_ref().map_or(Ok(false), |session| session.state(&beat.statement));
        let session = match (session, booked) {
            (Some(session), Ok(true)) => session,
            (Some(session), Err(reason)) => {
                reply.send(seal(&Answer::Foreign(reason.clone()), &[]));
                return self.punish(&session, reason);
            }
            _ => return reply.send(seal(&Answer::Gone, &[])),
        };
        let (leaves, knows) = (beat.leaves.as_deref().map(shortened), beat.drains);
        if let Err(reason) = self.take_report(&session, beat) {
            reply.send(seal(&Answer::Foreign(reason.clone()), &[]));
            return self.punish(&session, reason);
        }
        let news = self.news();
        let over = self.members().over;
        match (leaves, over) {
            (Some(why), _) => {
                tracing::info!(host = session.name, "left: {why}");
                self.end(&session, &Answer::Gone);
                reply.send(seal(&Answer::Taken(news), &[]));
            }
            (None, Some(over)) => reply.send(seal(&Answer::Over(over), &[])),
            (None, None) if news.drains && !knows => reply.send(seal(&Answer::Taken(news), &[])),
            // It waits for news, or for the interval.
            (None, None) => {
                if let Err(reply) = session.park_beat(reply) {
                    reply.send(seal(&Answer::Gone, &[]));
                }
            }
        }
    }

    /// Counts what a beat reports, once.
    fn take_report(&self, session: &Session, beat: Beat) -> Result<(), String> {
        let mut state = session.lock();
        let expected = state.beats + 1;
        if beat.number > expected {
            return Err(format!("beat {} came where {expected} was due", beat.number));
        }
        if beat.number < expected || state.has_ended() {
            return Ok(());
        }
        reported::check(&beat, &session.workers, &mut state.named.policies)?;
        times::adopt(&self.time, &session.name, &beat.times, &mut state.named.kinds)?;
        state.beats = expected;
        drop(state);
        for worker in &beat.gave_up {
            tracing::warn!(host = session.name, "a worker gave up: {}", shortened(worker));
        }
        let mut report = beat.report;
        let texts = report.failures.iter_mut().chain(&mut report.abandoned.newest);
        texts.for_each(|text| *text = format!("{}: {}", session.name, shortened(text)));
        // The trainer is gone at the end of a run only.
        let _ = self.reports.post(report);
        Ok(())
    }

    fn weights(&self, request: Request) {
        let Some((asked, _)) = self.read::<WeightsRequest>(&request) else { return };
        let Some(session) = self.find(asked.session, &request.from) else {
            return request.reply.send(seal(&WeightsReply::Gone, &[]));
        };
        // The first weights may take longer than a lease, and no beat comes before them.
        session.lock().seen = Instant::now();
        if let Some(over) = self.members().over {
            return request.reply.send(seal(&WeightsReply::Over(over), &[]));
        }
        let WeightsRequest { session, version, piece } = asked;
        // A full channel drops the reply, so that the host asks again later.
        let _ = self.weights.try_send(WeightsAsked { session, version, piece, reply: request.reply });
    }

    /// Reads a message of a session; what cannot be read gets no reply.
    fn read<M: DeserializeOwned>(&self, request: &Request) -> Option<(M, Bytes)> {
        match open(&request.bytes) {
            Ok(message) => Some(message),
            Err(error) => {
                tracing::debug!(host = &*request.from, op = request.op.name(), "not read: {error}");
                None
            }
        }
    }
}

impl Desk for HostsDesk {
    fn accept(&self, request: Request) {
        match request.op {
            Op::Join => {
                let door = self.join(&request);
                request.reply.send(seal(&door, &[]));
            }
            Op::Ship => self.ship(request),
            Op::Weights => self.weights(request),
            Op::Beat => self.beat(request),
        }
    }
}

impl Members {
    /// A number that no session has and that cannot be guessed easily.
    fn new_id(&self) -> u64 {
        let draw = || RandomState::new().hash_one(self.joined);
        std::iter::repeat_with(draw).find(|id| !self.sessions.contains_key(id)).unwrap_or_default()
    }

    /// The name of a new session in results.
    fn name(&self, from: &str) -> String {
        let is_taken = |name: &str| name == times::LEFT || self.sessions.values().any(|session| session.name == name);
        let numbered = (2..).map(|number| format!("{from}#{number}"));
        let mut names = std::iter::once(from.to_owned()).chain(numbered);
        names.find(|name| !is_taken(name)).unwrap_or_default()
    }
}

fn differs(what: &str, learner: &str, actor: &str) -> Refusal {
    Refusal::Differs { what: what.to_owned(), learner: learner.to_owned(), actor: actor.to_owned() }
}

/// A text of a host, for an error, a log or a result.
fn shortened(text: &str) -> String {
    const MOST: usize = 2000;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
