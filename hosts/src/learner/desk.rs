//! [`HostsDesk`]: takes every request of every host, and answers what can be answered at once.

use std::collections::BTreeSet;

use bytes::Bytes;
use pronk_buffer::{MailboxSender, VersionReader};
use pronk_metrics::{PolicyId, StepLedger, Steps};
use pronk_rollout::{FailureLog, WorkerReport};
use serde::de::DeserializeOwned;

use super::members::{Entry, Members};
use super::reported;
use super::session::{Arrival, Parcel, Session};
use super::times::Times;
use crate::frame::Expected;
use crate::link::{Desk, Op, Reply, Request};
use crate::sync::channel::Sender;
use crate::sync::{Arc, Instant, Mutex, MutexGuard, PoisonError};
use crate::terms::Terms;
use crate::wire::{
    Answer, Beat, Door, Facts, Hello, Join, Knock, News, Over, Refusal, Shipment, WeightsReply, WeightsRequest,
    Welcome, open, seal,
};

/// Why the steps of a session that ended were lost.
const HOST_LOST: &str = "host_lost";

/// Where the requests of hosts arrive.
pub(super) struct HostsDesk {
    pub(super) run: DeskRun,
    members: Mutex<Members>,
    failures: FailureLog,
}

/// What a desk knows of the run.
pub(super) struct DeskRun {
    pub(super) terms: Terms,
    pub(super) expected: Arc<Expected>,
    /// The most steps of a fragment.
    pub(super) fragment: Steps,
    /// All policies, those that are not trained among them.
    pub(super) policies: BTreeSet<PolicyId>,
    pub(super) welcome: Welcome,
    pub(super) facts: Facts,
    pub(super) steps: StepLedger,
    pub(super) time: Times,
    pub(super) version: VersionReader,
    pub(super) reports: MailboxSender<WorkerReport>,
    /// Requests for weights, which the keeper answers.
    pub(super) weights: Sender<WeightsAsked>,
}

/// A request for weights.
pub(super) struct WeightsAsked {
    pub(super) session: Arc<Session>,
    pub(super) version: Option<u64>,
    pub(super) piece: u32,
    pub(super) reply: Reply,
}

impl HostsDesk {
    pub(super) fn new(run: DeskRun, first_worker: u32, parcels: Sender<Parcel>) -> Self {
        let members = Mutex::new(Members::new(run.terms, first_worker, parcels));
        Self { run, members, failures: FailureLog::default() }
    }

    pub(super) fn members(&self) -> MutexGuard<'_, Members> {
        // Nothing under this lock panics but by a defect, and each line leaves the list valid.
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What every host should know now.
    pub(super) fn news(&self) -> News {
        let drains = self.run.steps.limit_reached();
        News { version: self.run.version.current(), drains, ..News::default() }
    }

    /// Ends the sessions of hosts that have been silent for a lease, and answers what has waited for long
    /// enough, or for news. Takes no more fragments once the run drains and all hosts have left.
    pub(super) fn look_after(&self, now: Instant) {
        let news = self.news();
        let members = self.members();
        let (sessions, over): (Vec<_>, _) = (members.sessions.values().cloned().collect(), members.over);
        drop(members);
        let answer = seal(&over.map_or_else(|| Answer::Taken(news.clone()), Answer::Over), &[]);
        for session in &sessions {
            let mut state = session.lock();
            if now.saturating_duration_since(state.seen) > self.run.terms.lease {
                drop(state);
                let silent = self.run.terms.lease.as_secs_f64();
                tracing::warn!(host = session.name, "lost: nothing was heard of it for {silent:.1} s");
                if self.end(session, &Answer::Gone) {
                    self.members().lost += 1;
                }
                continue;
            }
            if let Some(asked) = now.checked_sub(2 * self.run.terms.beat) {
                state.tell_couriers(asked, &news);
            }
            let is_due = |(_, since): &mut (Reply, Instant)| {
                news.drains || over.is_some() || now.saturating_duration_since(*since) >= self.run.terms.beat
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
            self.members().strike(&session.from, reason);
        }
    }

    /// Ends a session; its time goes to the account of hosts that have left. False if it had ended before.
    fn end(&self, session: &Session, answer: &Answer) -> bool {
        // Under the lock, so that the next session of this name begins with no time.
        let mut members = self.members();
        if !members.remove(session) {
            return false;
        }
        session.end(HOST_LOST, answer);
        let times = std::mem::take(&mut session.lock().times);
        self.run.time.end(session.listed(), times);
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
                Ok(()) => self.over().map_or_else(|| Door::Welcome(self.run.welcome.clone()), Door::Over),
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
        self.members().over.or_else(|| self.run.steps.limit_reached().then_some(Over::Finished))
    }

    fn check(&self, from: &Arc<str>, hello: &Hello) -> Result<(), Refusal> {
        let version = env!("CARGO_PKG_VERSION");
        if hello.version != version {
            return Err(differs("version of pronk", version, &shortened(&hello.version)));
        }
        let limit = self.run.terms.max_workers;
        if !(1..=limit).contains(&hello.workers) {
            return Err(Refusal::Workers { asked: hello.workers, limit });
        }
        self.members().shut_out(from).map_or(Ok(()), |reason| Err(Refusal::ShutOut { reason }))
    }

    fn let_in(&self, from: &Arc<str>, join: Join) -> Result<Door, Refusal> {
        self.check(from, &join.hello)?;
        if let Some(over) = self.over() {
            return Ok(Door::Over(over));
        }
        if join.run != self.run.welcome.run {
            // The learner was resumed between the two questions.
            return Ok(Door::Welcome(self.run.welcome.clone()));
        }
        self.compare(&join.facts)?;
        if let Some(before) = join.before.and_then(|id| self.find(id, from)) {
            self.end(&before, &Answer::Gone);
        }
        let entry = Entry {
            attempt: join.attempt,
            from,
            workers: join.hello.workers,
            fragment: self.run.fragment,
            steps: &self.run.steps,
        };
        self.members().enter(entry)
    }

    /// Refuses the first fact that differs.
    fn compare(&self, facts: &Facts) -> Result<(), Refusal> {
        let names = self.run.facts.keys().chain(facts.keys().filter(|name| !self.run.facts.contains_key(*name)));
        for name in names {
            let (ours, theirs) = (self.run.facts.get(name), facts.get(name));
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
        if frame.len() > self.run.expected.max_bytes() {
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
                // their way; the courier then asks again. Or the run has ended since it was looked at.
                if members.parcels.as_ref().is_none_or(|inlet| inlet.try_send(parcel).is_err()) {
                    let over = members.over;
                    drop(members);
                    session.unpark(shipment.courier, over);
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
        reported::check(&beat, &session.workers, &self.run.policies)?;
        self.run.time.adopt(session.listed(), &beat.times, &mut state.times)?;
        state.beats = expected;
        state.figures.gave_up += beat.gave_up.len() as u64;
        drop(state);
        for worker in &beat.gave_up {
            tracing::warn!(host = session.name, "a worker gave up: {}", shortened(worker));
        }
        let mut report = beat.report;
        let texts = report.failures.iter_mut().chain(&mut report.abandoned.newest);
        texts.for_each(|text| *text = format!("{}: {}", session.name, shortened(text)));
        self.failures.note(&report);
        // The trainer is gone at the end of a run only.
        let _ = self.run.reports.post(report);
        Ok(())
    }

    fn weights(&self, request: Request) {
        let Some((asked, _)) = self.read::<WeightsRequest>(&request) else { return };
        let WeightsRequest { session, run, version, piece, .. } = asked;
        // By its number alone: relays ask for hosts.
        let session = self.members().sessions.get(&session).cloned();
        let Some(session) = session.filter(|_| run == self.run.welcome.run) else {
            return request.reply.send(seal(&WeightsReply::Gone, &[]));
        };
        if session.from == request.from {
            // The first weights may take longer than a lease, and no beat comes before them.
            session.lock().seen = Instant::now();
        }
        if let Some(over) = self.members().over {
            return request.reply.send(seal(&WeightsReply::Over(over), &[]));
        }
        // A full channel drops the reply, so that the host asks again later.
        let _ = self.run.weights.try_send(WeightsAsked { session, version, piece, reply: request.reply });
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
