//! [`Members`]: the hosts of a run, who is let in, and under which name and numbers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use pronk_metrics::{StepLedger, Steps};

use super::account::{Account, Causes};
use super::session::{Parcel, Session};
use super::times;
use crate::sync::Arc;
use crate::sync::channel::Sender;
use crate::terms::Terms;
use crate::wire::{Door, Joined, LEAST_CREDITS, Over, Refusal};

/// Sessions of one name that may break the rules before the name is shut out.
const MAX_STRIKES: u32 = 3;

/// The worker numbers that hosts of one name may take, a sixteenth of all: no number is given twice, so a
/// host that joins again and again takes them from the others.
const MAX_NUMBERS_OF_NAME: u32 = u32::MAX / 16;

/// Ended sessions whose attempts to join are remembered.
const MAX_ENDED: usize = 1024;

/// Hosts that results show one by one.
const MAX_LISTED: usize = 64;

/// The part of all spare credits that one host may take.
const SHARE: u32 = 8;

/// The hosts of a run.
pub(super) struct Members {
    terms: Terms,
    pub(super) sessions: BTreeMap<u64, Arc<Session>>,
    next_worker: u32,
    /// Credits beyond the least of every host that may come.
    spare_credits: u32,
    /// Attempts that began sessions which have ended.
    ended: VecDeque<u64>,
    pub(super) names: BTreeMap<Arc<str>, Known>,
    causes: Causes,
    /// To the inlet; `None` once no more fragments are taken.
    pub(super) parcels: Option<Sender<Parcel>>,
    pub(super) over: Option<Over>,
    /// Sessions that have begun, and those that ended because their hosts fell silent.
    pub(super) joined: u64,
    pub(super) lost: u64,
}

/// What is known of the hosts of one name.
#[derive(Default)]
pub(super) struct Known {
    /// Worker numbers that they have taken.
    numbers: u32,
    /// Their sessions that broke the rules, and what the last of them did.
    strikes: u32,
    reason: String,
}

/// A host that may be let in.
pub(super) struct Entry<'a> {
    pub(super) attempt: u64,
    pub(super) from: &'a Arc<str>,
    pub(super) workers: u32,
    /// The most steps of a fragment.
    pub(super) fragment: Steps,
    pub(super) steps: &'a StepLedger,
}

impl Members {
    pub(super) fn new(terms: Terms, next_worker: u32, parcels: Sender<Parcel>) -> Self {
        Self {
            terms,
            sessions: BTreeMap::new(),
            next_worker,
            spare_credits: terms.max_parked() - terms.max_hosts.saturating_mul(LEAST_CREDITS),
            ended: VecDeque::new(),
            names: BTreeMap::new(),
            causes: Causes::default(),
            parcels: Some(parcels),
            over: None,
            joined: 0,
            lost: 0,
        }
    }

    /// Lets a host in, if there is room for it.
    pub(super) fn enter(&mut self, entry: Entry<'_>) -> Result<Door, Refusal> {
        // The run may have ended since it was looked at.
        let full_of_steps = self.parcels.is_none().then_some(Over::Finished);
        if let Some(over) = self.over.or(full_of_steps) {
            return Ok(Door::Over(over));
        }
        // The reply to this attempt was lost, or comes late.
        let again = |session: &&Arc<Session>| session.attempt == entry.attempt && session.from == *entry.from;
        if let Some(session) = self.sessions.values().find(again) {
            return Ok(Door::Joined(session.joined.clone()));
        }
        let full = |what: &str, limit: u32| Refusal::Full { what: what.to_owned(), limit: limit.into() };
        if self.ended.contains(&entry.attempt) {
            // A copy that was under way for long. The host has joined by it, and left.
            return Err(Refusal::Outdated);
        }
        let Terms { max_hosts, max_of_name, .. } = self.terms;
        if self.sessions.len() >= max_hosts as usize {
            return Err(full("hosts", max_hosts));
        }
        if self.sessions.values().filter(|session| session.from == *entry.from).count() >= max_of_name as usize {
            return Err(full("hosts of one name", max_of_name));
        }
        let exhausted = |what: &str, limit: u32| Refusal::Exhausted { what: what.to_owned(), limit: limit.into() };
        let (next, most_names) = (self.next_worker, self.terms.max_names());
        let Some(known) = self.known(entry.from) else { return Err(exhausted("names of hosts", most_names)) };
        let of_name = known.numbers.saturating_add(entry.workers);
        if of_name > MAX_NUMBERS_OF_NAME {
            return Err(exhausted("numbers of workers for hosts of one name", MAX_NUMBERS_OF_NAME));
        }
        let end = next.checked_add(entry.workers).ok_or_else(|| exhausted("numbers of workers", u32::MAX))?;
        known.numbers = of_name;
        let numbers = next..end;
        self.next_worker = end;
        let credits = self.credits(entry.workers);
        let joined = Joined { session: self.new_id(), first_worker: numbers.start, credits, terms: self.terms };
        let name = self.name(entry.from);
        let is_listed = self.sessions.values().filter(|session| session.is_listed).count() < MAX_LISTED;
        let bound = 2 * u64::from(entry.workers) + u64::from(credits) + 2;
        let of = |steps: u64| bound.saturating_mul(steps);
        let bound = Steps { env: of(entry.fragment.env), agent: of(entry.fragment.agent) };
        let account = Account::new(entry.steps.clone(), bound, self.causes.clone());
        tracing::info!(host = name, "joined with workers {} to {}", numbers.start, end - 1);
        let new =
            Session::new((entry.attempt, Arc::clone(entry.from), name, is_listed), numbers, joined.clone(), account);
        self.sessions.insert(joined.session, Arc::new(new));
        self.joined += 1;
        Ok(Door::Joined(joined))
    }

    /// Removes a session; false if it had been removed before.
    pub(super) fn remove(&mut self, session: &Session) -> bool {
        if self.sessions.remove(&session.id).is_none() {
            return false;
        }
        self.spare_credits += session.joined.credits - LEAST_CREDITS;
        if self.ended.len() == MAX_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(session.attempt);
        true
    }

    /// Notes that a host broke the rules.
    pub(super) fn strike(&mut self, from: &Arc<str>, reason: String) {
        // It is known as long as it has a session, and this one has only just ended.
        if let Some(known) = self.known(from) {
            (known.strikes, known.reason) = (known.strikes + 1, reason);
        }
    }

    /// What is known of a name; `None` if there is no room for it beside names of sessions and of hosts that
    /// broke the rules. Others are forgotten to make room.
    fn known(&mut self, from: &Arc<str>) -> Option<&mut Known> {
        let most = self.terms.max_names() as usize;
        if self.names.len() >= most && !self.names.contains_key(from) {
            let here: BTreeSet<_> = self.sessions.values().map(|session| &session.from).collect();
            self.names.retain(|name, known| known.strikes > 0 || here.contains(name));
            if self.names.len() >= most {
                return None;
            }
        }
        Some(self.names.entry(Arc::clone(from)).or_default())
    }

    /// Why a name is shut out, if it is.
    pub(super) fn shut_out(&self, from: &str) -> Option<String> {
        let known = self.names.get(from).filter(|known| known.strikes >= MAX_STRIKES)?;
        Some(known.reason.clone())
    }

    /// Takes credits for a host: as many as it can use, or where many hosts share, a part of what is left.
    fn credits(&mut self, workers: u32) -> u32 {
        let granted = Joined::most_credits(workers).min(LEAST_CREDITS + self.spare_credits / SHARE);
        self.spare_credits -= granted - LEAST_CREDITS;
        granted
    }

    /// A number that no session has and that cannot be guessed easily.
    fn new_id(&self) -> u64 {
        let draw = || RandomState::new().hash_one(self.joined);
        std::iter::repeat_with(draw).find(|id| !self.sessions.contains_key(id)).unwrap_or_default()
    }

    /// The name of a new session in results, whose paths have dots.
    fn name(&self, from: &str) -> String {
        let from = from.replace('.', "-");
        let is_taken =
            |name: &str| times::TOGETHER.contains(&name) || self.sessions.values().any(|session| session.name == name);
        let numbered = (2..).map(|number| format!("{from}#{number}"));
        let mut names = std::iter::once(from.clone()).chain(numbered);
        names.find(|name| !is_taken(name)).unwrap_or_default()
    }
}
