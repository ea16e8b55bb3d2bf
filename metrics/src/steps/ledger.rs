use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{StepTotals, Steps};

/// Accounts for a run's steps: `sampled = trained once + dropped + in flight + lost` in every snapshot.
///
/// Sampled steps get a [`StepTicket`], which travels with the data and is resolved at its end. Clones share
/// one ledger. A lock is held for a few additions, once per fragment or batch. A pass and its batch's ticket
/// are two bookings: book the pass first, so that no snapshot has more steps trained once than in passes.
///
/// ```
/// use pronk_metrics::{StepLedger, Steps};
///
/// let ledger = StepLedger::new();
/// let mut batch = ledger.sampled(Steps { env: 50, agent: 50 });
/// batch.join(ledger.sampled(Steps { env: 30, agent: 30 }));
/// assert_eq!(ledger.snapshot().in_flight.env, 80);
/// ledger.trained_pass(batch.steps());
/// batch.trained();
/// ledger.sampled(Steps { env: 7, agent: 7 }).lost("env_panic");
///
/// let totals = ledger.snapshot();
/// assert_eq!((totals.trained_once.env, totals.lost["env_panic"].env), (80, 7));
/// assert!(totals.is_closed());
/// ```
#[derive(Clone, Debug, Default)]
pub struct StepLedger(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    totals: StepTotals,
    /// The limit of env-steps, if there is one.
    limit: Option<u64>,
    shut_down: bool,
}

impl Books {
    /// The reason for dropped unresolved tickets.
    fn forgotten(&self) -> &'static str {
        if self.shut_down { "shutdown" } else { "discarded" }
    }
}

impl StepLedger {
    /// An empty ledger.
    pub fn new() -> StepLedger {
        StepLedger::default()
    }

    /// A ledger that continues from the totals of a checkpoint. Of the steps that were in flight, `kept` are
    /// still there, and the ticket is theirs; the others are lost to `cause`.
    ///
    /// ```
    /// use pronk_metrics::{StepLedger, Steps};
    ///
    /// let steps = |env| Steps { env, agent: env };
    /// let before = StepLedger::new();
    /// let in_flight = before.sampled(steps(8));
    /// let (ledger, mut kept) = StepLedger::resume(before.snapshot(), steps(5), "resume");
    /// assert_eq!(ledger.snapshot().lost["resume"], steps(3));
    /// kept.split_off(steps(2)).trained();
    /// assert_eq!((ledger.snapshot().in_flight, kept.steps()), (steps(3), steps(3)));
    /// assert!(ledger.snapshot().is_closed());
    /// # drop((in_flight, kept));
    /// ```
    pub fn resume(mut totals: StepTotals, kept: Steps, cause: &str) -> (StepLedger, StepTicket) {
        let Steps { env, agent } = totals.in_flight;
        let kept = Steps { env: kept.env.min(env), agent: kept.agent.min(agent) };
        let lost = totals.in_flight - kept;
        if lost != Steps::default() {
            *totals.lost.entry(cause.into()).or_default() += lost;
        }
        totals.in_flight = kept;
        let ledger = StepLedger(Arc::new(Mutex::new(Books { totals, ..Books::default() })));
        let ticket = StepTicket { ledger: ledger.clone(), steps: kept, foreign: Vec::new() };
        (ledger, ticket)
    }

    /// Books `steps` as sampled and in flight; the ticket travels with the data.
    pub fn sampled(&self, steps: Steps) -> StepTicket {
        let mut books = self.books();
        books.totals.sampled += steps;
        books.totals.in_flight += steps;
        drop(books);
        StepTicket { ledger: self.clone(), steps, foreign: Vec::new() }
    }

    /// Limits the env-steps to sample. The ledger books steps beyond it too; workers check
    /// [`limit_reached`](Self::limit_reached) before each fragment.
    ///
    /// ```
    /// use pronk_metrics::{StepLedger, Steps};
    ///
    /// let ledger = StepLedger::new();
    /// ledger.limit_env_steps(10);
    /// ledger.sampled(Steps { env: 8, agent: 8 }).trained();
    /// assert!(!ledger.limit_reached());
    /// ledger.sampled(Steps { env: 8, agent: 8 }).trained();
    /// assert!(ledger.limit_reached());
    /// ```
    pub fn limit_env_steps(&self, limit: u64) {
        self.books().limit = Some(limit);
    }

    /// The limit of env-steps, if there is one.
    pub fn limit(&self) -> Option<u64> {
        self.books().limit
    }

    /// Whether the limit of env-steps is reached; false without a limit.
    pub fn limit_reached(&self) -> bool {
        let books = self.books();
        books.limit.is_some_and(|limit| books.totals.sampled.env >= limit)
    }

    /// Books one pass over `steps`: RLlib's trained counter, which counts every pass.
    pub fn trained_pass(&self, steps: Steps) {
        self.books().totals.trained_passes += steps;
    }

    /// A snapshot.
    pub fn snapshot(&self) -> StepTotals {
        self.books().totals.clone()
    }

    /// Marks the end of learning: from now on, tickets dropped unresolved count under `"shutdown"`.
    pub fn shut_down(&self) {
        self.books().shut_down = true;
    }

    fn settle(&self, steps: Steps, book: impl FnOnce(&mut Books)) {
        let mut books = self.books();
        books.totals.in_flight -= steps;
        book(&mut books);
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Even a poisoned lock guards valid sums: nothing here can panic short of 2^64 steps.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Steps in flight, owned by their batch, to be resolved once: as trained, dropped or lost.
///
/// A ticket dropped unresolved counts its steps as dropped under `"discarded"`, or `"shutdown"` after
/// [`StepLedger::shut_down`].
///
/// ```
/// use pronk_metrics::{StepLedger, Steps};
///
/// let ledger = StepLedger::new();
/// let steps = Steps { env: 5, agent: 5 };
/// ledger.sampled(steps).dropped("too_old");
/// drop(ledger.sampled(steps));
/// assert_eq!(ledger.snapshot().dropped["too_old"], steps);
/// assert_eq!(ledger.snapshot().dropped["discarded"], steps);
/// ```
#[derive(Debug)]
#[must_use = "a ticket that is thrown away books its steps as dropped"]
pub struct StepTicket {
    ledger: StepLedger,
    /// The steps in flight; zero once resolved.
    steps: Steps,
    /// Joined tickets of other ledgers.
    foreign: Vec<StepTicket>,
}

impl StepTicket {
    /// The steps of this ticket.
    pub fn steps(&self) -> Steps {
        self.steps + self.foreign.iter().map(StepTicket::steps).sum()
    }

    /// Takes over the steps of `other`, for joined data. A ticket of another ledger is resolved there in the
    /// same way.
    pub fn join(&mut self, mut other: StepTicket) {
        self.foreign.append(&mut other.foreign);
        if Arc::ptr_eq(&self.ledger.0, &other.ledger.0) {
            self.steps += std::mem::take(&mut other.steps);
        } else {
            self.foreign.push(other);
        }
    }

    /// Takes part of the steps, which are settled on their own; at most those that the ticket has.
    pub fn split_off(&mut self, steps: Steps) -> StepTicket {
        let part = Steps { env: steps.env.min(self.steps.env), agent: steps.agent.min(self.steps.agent) };
        self.steps -= part;
        StepTicket { ledger: self.ledger.clone(), steps: part, foreign: Vec::new() }
    }

    /// Trained on for the first time; later passes do not matter here.
    pub fn trained(self) {
        self.resolve(|books, steps| books.totals.trained_once += steps);
    }

    /// Dropped on purpose, for example as `"too_old"`.
    pub fn dropped(self, reason: impl Into<Arc<str>>) {
        let reason = reason.into();
        self.resolve(|books, steps| *books.totals.dropped.entry(Arc::clone(&reason)).or_default() += steps);
    }

    /// Lost by a failure, for example `"env_panic"`.
    pub fn lost(self, cause: impl Into<Arc<str>>) {
        let cause = cause.into();
        self.resolve(|books, steps| *books.totals.lost.entry(Arc::clone(&cause)).or_default() += steps);
    }

    fn resolve(mut self, book: impl Fn(&mut Books, Steps)) {
        self.settle(&book);
    }

    fn settle(&mut self, book: &impl Fn(&mut Books, Steps)) {
        for ticket in &mut self.foreign {
            ticket.settle(book);
        }
        let steps = std::mem::take(&mut self.steps);
        if steps != Steps::default() {
            self.ledger.settle(steps, |books| book(books, steps));
        }
    }
}

impl Drop for StepTicket {
    fn drop(&mut self) {
        self.settle(&|books, steps| {
            let reason = books.forgotten().into();
            *books.totals.dropped.entry(reason).or_default() += steps;
        });
    }
}
