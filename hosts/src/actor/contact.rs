//! [`Contact`]: questions to the learner, and what the threads of an actor have learned of the session.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use pronk_metrics::StepLedger;
use serde::de::DeserializeOwned;

use crate::ask::{AskError, ask};
use crate::link::{Link, Op};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::channel::{Receiver, Sender, bounded};
use crate::sync::{Arc, Instant, Mutex, PoisonError};
use crate::wire::{News, Over};

/// Why a stay in a run has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// The run is over.
    Over(Over),
    /// The learner has another life, or has ended the session: join anew.
    Gone,
    /// Nothing was heard of the learner for a lease: join anew.
    Silent,
    /// The learner says that the host broke the rules of the run.
    Foreign(String),
    /// The run has enough steps, and all fragments of the host have arrived.
    Drained,
    /// All workers have given up.
    NoWorkers,
    /// The host itself was told to end.
    Stopped,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Over(_) => "the run is over",
            Self::Drained => "it has shipped all of its fragments",
            Self::NoWorkers => "all of its workers have given up",
            Self::Stopped => "it was told to end",
            Self::Gone => "the learner has ended its session",
            Self::Silent => "nothing was heard of the learner for a lease",
            Self::Foreign(reason) => return write!(f, "the learner has ended its session: {reason}"),
        })
    }
}

/// What all threads of an actor share.
pub(super) struct Contact {
    link: Arc<dyn Link>,
    /// When the learner last answered.
    heard: Mutex<Instant>,
    left: Mutex<Option<Left>>,
    /// The newest version that the learner has named, and the wake-up of the thread that fetches it.
    newest: AtomicU64,
    newer: (Sender<()>, Receiver<()>),
    drains: AtomicBool,
    /// How long the learner held fragments before its inqueue took them, in nanoseconds.
    held: AtomicU64,
}

impl Contact {
    pub(super) fn new(link: Arc<dyn Link>) -> Self {
        Self {
            link,
            heard: Mutex::new(Instant::now()),
            left: Mutex::default(),
            newest: AtomicU64::new(0),
            newer: bounded(1),
            drains: AtomicBool::new(false),
            held: AtomicU64::new(0),
        }
    }

    /// Asks once.
    pub(super) fn ask<A: DeserializeOwned>(
        &self,
        op: Op,
        question: &Bytes,
        deadline: Duration,
    ) -> Result<(A, Bytes), AskError> {
        let answer = ask(&*self.link, op, question.clone(), deadline)?;
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Ok(answer)
    }

    /// How long ago the learner last answered.
    pub(super) fn silent(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Notes news of the learner; `steps` are those of the host.
    pub(super) fn hears(&self, news: &News, steps: &StepLedger) {
        if self.newest.fetch_max(news.version, Ordering::AcqRel) < news.version {
            // A full channel wakes the thread as well.
            let _ = self.newer.0.try_send(());
        }
        if news.drains {
            self.drains.store(true, Ordering::Release);
            // Workers begin no further fragment, whatever they have made so far.
            steps.limit_env_steps(0);
        }
        self.held.fetch_add((news.held_secs.clamp(0.0, 1e6) * 1e9) as u64, Ordering::Relaxed);
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    pub(super) fn newer(&self) -> &Receiver<()> {
        &self.newer.1
    }

    pub(super) fn drains(&self) -> bool {
        self.drains.load(Ordering::Acquire)
    }

    pub(super) fn held_secs(&self) -> f64 {
        self.held.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// Ends the stay; the first reason counts.
    pub(super) fn leave(&self, why: Left) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    pub(super) fn left(&self) -> Option<Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
