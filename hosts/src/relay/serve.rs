//! The threads of a relay: one answers hosts, and one fetches what it does not have.

use std::time::Duration;

use super::counts::Counts;
use crate::ask::ask;
use crate::link::{Dial, Link, Op, Reply};
use crate::pull::{self, Encoded, PullError};
use crate::shelf::Shelf;
use crate::sync::atomic::Ordering;
use crate::sync::channel::{Receiver, Sender, select};
use crate::sync::{Arc, Instant};
use crate::wire::{WeightsReply, WeightsRequest, seal};

/// How long a piece may take from the learner.
const PIECE: Duration = Duration::from_secs(10);

/// Requests that wait for weights which are being fetched.
const MAX_WAITING: usize = 4096;

/// A host's request.
pub(super) struct Asked {
    pub(super) request: WeightsRequest,
    pub(super) reply: Reply,
}

/// What a fetch for a request came to.
pub(super) type Fetched = (WeightsRequest, Result<Encoded, PullError>);

/// Answers hosts from the shelf.
pub(super) struct Serve {
    shelf: Shelf,
    /// The process of the learner that the weights on the shelf are of.
    run: u64,
    /// Hosts that know of newer weights than those on the shelf.
    waiting: Vec<Asked>,
    is_fetching: bool,
    fetch: Sender<WeightsRequest>,
    counts: Arc<Counts>,
}

impl Serve {
    pub(super) fn new(fetch: Sender<WeightsRequest>, counts: Arc<Counts>) -> Self {
        Self { shelf: Shelf::default(), run: 0, waiting: Vec::new(), is_fetching: false, fetch, counts }
    }

    /// Runs until `open` closes.
    pub(super) fn run(mut self, asked: &Receiver<Asked>, fetched: &Receiver<Fetched>, open: &Receiver<()>) {
        loop {
            select! {
                recv(asked) -> asked => match asked {
                    Ok(asked) => self.answer(asked),
                    Err(_) => return,
                },
                recv(fetched) -> fetched => match fetched {
                    Ok(fetched) => self.put(fetched),
                    Err(_) => return,
                },
                recv(open) -> _ => return,
            }
            self.fetch_what_is_awaited();
        }
    }

    /// Answers what the shelf has; what it does not have yet waits.
    fn answer(&mut self, asked: Asked) {
        let WeightsRequest { run, version, at_least, .. } = asked.request;
        let newest = self.shelf.newest().filter(|_| run == self.run);
        match version {
            Some(version) if run == self.run => self.send(asked, version),
            Some(_) => asked.reply.send(seal(&WeightsReply::Gone, &[])),
            None => match newest.filter(|newest| *newest >= at_least) {
                Some(newest) => self.send(asked, newest),
                // Beyond that, the dropped reply has the host ask the learner.
                None if self.waiting.len() < MAX_WAITING => self.waiting.push(asked),
                None => {}
            },
        }
    }

    fn send(&mut self, asked: Asked, version: u64) {
        let WeightsRequest { session, piece, .. } = asked.request;
        let reply = self.shelf.reply(session, version, piece, Instant::now());
        self.counts.pieces.fetch_add(1, Ordering::Relaxed);
        self.counts.sent_bytes.fetch_add(reply.len() as u64, Ordering::Relaxed);
        asked.reply.send(reply);
    }

    /// Puts what was fetched on the shelf, and answers those who waited for it.
    fn put(&mut self, (request, fetched): Fetched) {
        self.is_fetching = false;
        let encoded = match fetched {
            Ok(encoded) => encoded,
            Err(error) => return self.refuse(&request, error),
        };
        if self.run != request.run {
            // The learner knows the session, so it is the process that lives.
            (self.shelf, self.run) = (Shelf::default(), request.run);
        }
        if self.shelf.newest().is_none_or(|newest| newest < encoded.version)
            && self.shelf.has_place(request.session, Instant::now())
        {
            self.shelf.put(encoded, Instant::now());
        }
        let Some(newest) = self.shelf.newest() else { return };
        let run = self.run;
        // Of whatever version: who knows of a newer one comes again.
        for asked in self.waiting.extract_if(.., |asked| asked.request.run == run).collect::<Vec<_>>() {
            self.send(asked, newest);
        }
    }

    /// Tells those who waited in vain. Hosts then ask the learner.
    fn refuse(&mut self, request: &WeightsRequest, error: PullError) {
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        tracing::debug!("no weights: {error}");
        match error {
            // Only of this session, or of this process of the learner.
            PullError::Gone => {
                for asked in self.waiting.extract_if(.., |asked| asked.request.session == request.session) {
                    asked.reply.send(seal(&WeightsReply::Gone, &[]));
                }
            }
            // The dropped replies say that there is none.
            _ => self.waiting.clear(),
        }
    }

    fn fetch_what_is_awaited(&mut self) {
        if let Some(asked) = self.waiting.first()
            && !self.is_fetching
        {
            // There is room for the only one that is under way.
            self.is_fetching = self.fetch.try_send(asked.request).is_ok();
        }
    }
}

/// Fetches for one request after the other until there are no more. After two in a row without an answer it
/// makes another link: an engine may hold a connection on which the learner cannot be asked.
pub(super) fn fetch(
    from: &dyn Dial,
    mut link: Arc<dyn Link>,
    wanted: &Receiver<WeightsRequest>,
    done: &Sender<Fetched>,
    counts: &Counts,
) {
    let mut was_silent = false;
    for request in wanted.iter() {
        // What a run's weights measure only its hosts know; pieces arrive one by one, and memory with them.
        let newest = pull::newest(&request, u64::MAX, |request| ask(&*link, Op::Weights, seal(request, &[]), PIECE));
        if let Ok(encoded) = &newest {
            counts.versions.fetch_add(1, Ordering::Relaxed);
            counts.fetched_bytes.fetch_add(encoded.bytes.len() as u64, Ordering::Relaxed);
        }
        let is_silent = matches!(newest, Err(PullError::Ask(_)));
        if done.send((request, newest)).is_err() {
            return;
        }
        if is_silent
            && was_silent
            && let Ok(another) = from.dial()
        {
            link = another;
        }
        was_silent = is_silent && !was_silent;
    }
}
