//! [`Member`]: a host's stay in a run, from joining to leaving.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use pronk_buffer::{Fold, InqueueReceiver, Mailbox, MultiAgentBatch, ShutdownToken, Versioned, WeightPublisher};
use pronk_metrics::{ByPolicy, StateClock, StepLedger, StepTicket, ThreadState, TimeLedger};
use pronk_policy::Params;
use pronk_rollout::WorkerReport;

use super::contact::{Contact, Left};
use super::courier::Courier;
use super::fetch::{Fetch, Layouts};
use super::sources::Sources;
use super::window::Window;
use crate::actor_states::{BeatState, CourierState, FetchState};
use crate::ask::Pauses;
use crate::frame::Pixels;
use crate::link::{Link, Op};
use crate::pull::PullError;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Instant, Mutex};
use crate::terms::Terms;
use crate::wire::{Answer, Beat, Joined, KindTime, Statement, seal};

/// How long a host that leaves waits for the learner to take what is under way, and its last report.
const FAREWELL: Duration = Duration::from_secs(1);

/// Bytes of one text in a beat.
const MAX_TEXT: usize = 4096;

/// A host that has joined a run.
pub struct Member {
    /// The process of the learner.
    pub(super) run: u64,
    pub(super) joined: Joined,
    pub(super) contact: Arc<Contact>,
    pub(super) relay: Option<Arc<dyn Link>>,
    pub(super) token: ShutdownToken,
}

/// The edges between a host's workers and the threads that carry things to and from the learner.
pub struct ActorEdges {
    /// Forward: the workers' fragments.
    pub fragments: InqueueReceiver<MultiAgentBatch>,
    /// Backward: the workers' weights, which begin with [`Member::first_weights`].
    pub weights: WeightPublisher<ByPolicy<Params>>,
    /// The parameters of each policy.
    pub layouts: Layouts,
    /// Where the host counts its steps.
    pub steps: StepLedger,
    /// Where the host's threads book their time.
    pub time: TimeLedger,
    /// Whether pixels are compressed.
    pub pixels: Pixels,
    /// Ends the stay.
    pub token: ShutdownToken,
}

/// A stay in progress: its threads run.
pub struct Stay {
    session: u64,
    terms: Terms,
    contact: Arc<Contact>,
    steps: StepLedger,
    time: TimeLedger,
    couriers: Vec<JoinHandle<Option<StepTicket>>>,
    fetch: JoinHandle<()>,
    /// Ends the host, not only the stay.
    token: ShutdownToken,
    clock: StateClock<BeatState>,
    beats: u64,
    /// When one of them was last answered.
    answered: Instant,
    /// What the last beat reports, until the learner has taken it.
    untaken: Option<WorkerReport>,
}

impl Member {
    /// The number of the host's first worker.
    pub fn first_worker(&self) -> u32 {
        self.joined.first_worker
    }

    /// The newest weights.
    ///
    /// *Blocks* for at most the lease.
    ///
    /// # Errors
    /// Why the stay is over already.
    pub fn first_weights(&self, layouts: &Layouts) -> Result<Versioned<ByPolicy<Params>>, Left> {
        self.fetch(layouts.clone(), self.token.clone()).first().map_err(|error| {
            tracing::warn!("no weights: {error}");
            match error {
                PullError::Over(over) => Left::Over(over),
                PullError::Gone => Left::Gone,
                _ if self.token.is_shut_down() => Left::Stopped,
                _ => Left::Silent,
            }
        })
    }

    /// Starts the threads that carry fragments and fetch weights.
    ///
    /// # Errors
    /// A thread that cannot be started; those before it end with the edges' token.
    pub fn start(self, edges: ActorEdges) -> std::io::Result<Stay> {
        let ActorEdges { fragments, weights, layouts, steps, time, pixels, token } = edges;
        let fetch = self.fetch(layouts, token.clone());
        let Joined { session, credits, terms, .. } = self.joined;
        let contact = self.contact;
        let (fragments, window) = (Arc::new(Mutex::new(fragments)), Arc::new(Window::new(credits)));
        let mut couriers = Vec::new();
        for number in 0..credits {
            let name = format!("courier-{}", number + 1);
            let courier = Courier {
                number,
                session,
                contact: Arc::clone(&contact),
                fragments: Arc::clone(&fragments),
                window: Arc::clone(&window),
                steps: steps.clone(),
                lease: terms.lease,
                pixels,
                token: token.clone(),
                clock: clock(&time, &name, CourierState::Waiting),
            };
            couriers.push(spawn(name, move || courier.run())?);
        }
        let fetch_clock = clock(&time, "weights", FetchState::Waiting);
        let fetch = spawn("weights".to_owned(), move || fetch.run(weights, fetch_clock))?;
        let clock = clock(&time, "beat", BeatState::Listening);
        Ok(Stay {
            session,
            terms,
            contact,
            steps,
            time,
            couriers,
            fetch,
            token: self.token,
            clock,
            beats: 0,
            answered: Instant::now(),
            untaken: None,
        })
    }

    fn fetch(&self, layouts: Layouts, token: ShutdownToken) -> Fetch {
        let (contact, lease) = (Arc::clone(&self.contact), self.joined.terms.lease);
        let sources = Sources::new(Arc::clone(&contact), self.relay.clone(), lease);
        Fetch { session: self.joined.session, run: self.run, contact, sources, layouts, lease, token }
    }
}

impl Stay {
    /// Reports to the learner until the stay is over.
    ///
    /// *Blocks* until then.
    pub fn wait(&mut self, reports: &Mailbox<WorkerReport>) -> Left {
        loop {
            let beat = self.beat(reports.drain(), None);
            if let Some(left) = self.tell(&beat) {
                return left;
            }
            if self.couriers.iter().all(JoinHandle::is_finished) {
                // They also end because the learner has told them why the stay is over.
                let why = if self.contact.drains() { Left::Drained } else { Left::NoWorkers };
                return self.contact.left().unwrap_or(why);
            }
        }
    }

    /// Sends a beat until the learner has taken it; why the stay is over, if it is.
    fn tell(&mut self, beat: &Bytes) -> Option<Left> {
        let mut pauses = Pauses::new();
        loop {
            if let Some(left) = self.contact.left() {
                return Some(left);
            }
            self.clock.enter(BeatState::Listening);
            let answer = self.contact.ask::<Answer>(Op::Beat, beat, self.terms.lease / 2);
            if answer.is_ok() {
                self.answered = Instant::now();
            }
            match answer {
                Ok((Answer::Taken(news), _)) => {
                    self.untaken = None;
                    self.contact.hears(&news, &self.steps);
                    return self.token.is_shut_down().then_some(Left::Stopped);
                }
                Ok((Answer::Over(over), _)) => {
                    self.untaken = None;
                    return Some(Left::Over(over));
                }
                Ok((Answer::Gone | Answer::Waits(_) | Answer::Missing | Answer::Corrupt, _)) => {
                    return Some(Left::Gone);
                }
                Ok((Answer::Foreign(reason), _)) => return Some(Left::Foreign(reason)),
                Err(error) => tracing::debug!("a report is sent again: {error}"),
            }
            // Whatever else is answered: a link may carry fragments and no reports any more.
            if self.answered.elapsed() > self.terms.lease {
                return Some(Left::Silent);
            }
            self.clock.enter(BeatState::BackingOff);
            if self.token.sleep(pauses.next()).is_err() {
                return Some(Left::Stopped);
            }
        }
    }

    /// The next beat.
    fn beat(&mut self, reports: Vec<WorkerReport>, leaves: Option<String>) -> Bytes {
        self.clock.enter(BeatState::Reporting);
        // One that was perhaps not taken keeps its number, so that what it reports is counted once.
        let untaken = self.untaken.take();
        self.beats += u64::from(untaken.is_none());
        let mut report = untaken.unwrap_or_default();
        reports.into_iter().for_each(|later| report.fold(later));
        let gave_up = report.ended.iter().map(|failure| shortened(failure.to_string())).collect();
        for text in report.failures.iter_mut().chain(&mut report.abandoned.newest) {
            *text = shortened(std::mem::take(text));
        }
        self.untaken = Some(report.clone());
        let beat = Beat {
            session: self.session,
            number: self.beats,
            // After the reports: a fragment is counted before it is reported.
            statement: Statement::from(&self.steps.snapshot()),
            report,
            gave_up,
            times: by_kind(&self.time, self.contact.held_secs()),
            drains: self.contact.drains(),
            leaves,
        };
        seal(&beat, &[])
    }

    /// Reports for the last time, and waits for the threads. The workers must have ended, so that the report
    /// is complete.
    pub fn leave(mut self, report: WorkerReport, why: &Left) {
        let is_known = !matches!(why, Left::Gone | Left::Silent | Left::Foreign(_));
        if is_known {
            // The learner is there, and answers what is under way. What becomes of it belongs into the last
            // statement, or the learner counts it as lost with this host.
            wait_until(|| self.couriers.iter().all(JoinHandle::is_finished));
            let last = self.beat(vec![report], Some(why.to_string()));
            if let Err(error) = self.contact.ask::<Answer>(Op::Beat, &last, FAREWELL) {
                tracing::debug!("the last report was not taken: {error}");
            }
        }
        self.contact.leave(why.clone());
        // Calls of couriers end now: the learner answers all that it holds of a session that has ended.
        for courier in self.couriers {
            if (is_known || courier.is_finished())
                && let Ok(Some(unknown)) = courier.join()
            {
                // After the last statement: the learner books it as arrived, or as lost with this host.
                unknown.dropped("shutdown");
            }
        }
        // A relay may be slow: what does not answer in time is left alone, and ends with its deadline.
        wait_until(|| !is_known || self.fetch.is_finished());
        if self.fetch.is_finished() {
            let _ = self.fetch.join();
        }
    }
}

/// Waits for a condition, for at most [`FAREWELL`].
fn wait_until(is_met: impl Fn() -> bool) {
    let began = Instant::now();
    while began.elapsed() < FAREWELL && !is_met() {
        thread::park_timeout(Duration::from_millis(2));
    }
}

/// A text of a worker, which may be as long as a panic's, cut so that a beat stays short.
fn shortened(mut text: String) -> String {
    let end = text.floor_char_boundary(MAX_TEXT);
    text.truncate(end);
    text
}

/// The time of each kind of thread: `rollout` for all of `rollout-1`, `rollout-2`, …
fn by_kind(ledger: &TimeLedger, held_secs: f64) -> Vec<KindTime> {
    let mut kinds: BTreeMap<String, KindTime> = BTreeMap::new();
    for time in ledger.read() {
        let kind = kind_of(&time.thread);
        let sum = kinds.entry(kind.clone()).or_insert_with(|| KindTime {
            kind,
            wall_secs: 0.0,
            states: Vec::new(),
            threads: 0,
        });
        sum.wall_secs += time.wall_secs;
        sum.threads += time.n_threads;
        for (state, secs) in time.states {
            match sum.states.iter_mut().find(|(known, _)| known == state) {
                Some((_, all)) => *all += secs,
                None => sum.states.push((state.to_owned(), secs)),
            }
        }
    }
    // Between sending and reply the couriers cannot tell the network from the learner; the reply says it.
    if let Some(couriers) = kinds.get_mut("courier") {
        let find = |state: CourierState| {
            let name = CourierState::NAMES[state.index()];
            couriers.states.iter().position(|(known, _)| known == name)
        };
        if let Some((network, held)) = find(CourierState::Network).zip(find(CourierState::Held)) {
            let secs = held_secs.min(couriers.states[network].1);
            couriers.states[network].1 -= secs;
            couriers.states[held].1 += secs;
        }
    }
    kinds.into_values().collect()
}

/// The name of a thread without its numbers: `rollout (abandoned)` for `rollout-7 (abandoned)`.
fn kind_of(thread: &str) -> String {
    let (name, rest) = thread.split_once(' ').unwrap_or((thread, ""));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let parts: Vec<&str> = name.split(['-', '/']).filter(|part| !is_number(part)).collect();
    let kind = [&parts.join("-"), rest].join(" ").replace('.', "-");
    kind.trim().to_owned()
}

fn clock<S: ThreadState>(time: &TimeLedger, name: &str, first: S) -> StateClock<S> {
    let clock = StateClock::new(name, first);
    time.add(clock.reader());
    clock
}

fn spawn<T: Send + 'static>(name: String, body: impl FnOnce() -> T + Send + 'static) -> std::io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name).spawn(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_kind_share_a_name() {
        let kinds = ["rollout-3", "rollout-12.1", "rollout-7 (abandoned)", "rollout-3-envs-0", "courier-1", "beat"];
        let expected = ["rollout", "rollout", "rollout (abandoned)", "rollout-envs", "courier", "beat"];
        assert_eq!(kinds.map(kind_of), expected);
    }
}
