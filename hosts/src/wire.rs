//! What hosts and the learner say to each other, and how it becomes bytes.
//!
//! A message is a header, encoded by postcard, and a body that is copied as it is: a fragment, or a piece of
//! weights. The start of a message says which protocol it speaks, so that versions that cannot talk to each
//! other can at least say so.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bytes::Bytes;
use pronk_metrics::{StepTotals, Steps};
use pronk_rollout::WorkerReport;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::terms::Terms;

/// The number of this protocol: raised whenever a message changes.
pub const PROTOCOL: u16 = 1;

/// What every message begins with.
const MAGIC: [u8; 6] = *b"pronk\n";

/// The length of what is in front of the header: magic, protocol, checksum and length of the header.
const START: usize = MAGIC.len() + 2 + 4 + 4;

/// The longest header: that of a [`Beat`] with all its lists full.
pub(crate) const MAX_HEADER: usize = 4 << 20;

/// The first question of an actor, and its second.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Knock {
    Hello(Hello),
    Join(Join),
}

/// Who asks to be let in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The version of pronk.
    pub(crate) version: String,
    /// How many workers it will have.
    pub(crate) workers: u32,
}

/// The second question: what the actor has built by the [`Welcome`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Join {
    pub(crate) hello: Hello,
    /// The run that the facts were made for.
    pub(crate) run: u64,
    pub(crate) facts: Facts,
    /// Tells this attempt from others: one that is asked again begins no second session.
    pub(crate) attempt: u64,
    /// The session that this process had before, which ends now.
    pub(crate) before: Option<u64>,
}

/// What both ends must agree on, by name.
pub type Facts = BTreeMap<String, String>;

/// The answer to a [`Knock`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Door {
    /// To [`Knock::Hello`].
    Welcome(Welcome),
    /// To [`Knock::Join`].
    Joined(Joined),
    Refused(Refusal),
    /// The run is ending or has ended.
    Over(Over),
}

/// What an actor builds its workers by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// Tells one process of a learner from another.
    pub run: u64,
    /// How often the run was resumed.
    pub life: u64,
    /// The settings of the run.
    pub config: String,
}

impl Welcome {
    /// For a new process of a learner.
    pub fn new(life: u64, config: String) -> Self {
        // Random, but for the length of the config, which only makes it different once more.
        Self { run: RandomState::new().hash_one(config.len()), life, config }
    }
}

/// A host's place in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Joined {
    pub(crate) session: u64,
    /// The number of its first worker.
    pub(crate) first_worker: u32,
    /// How many shipments may be under way.
    pub(crate) credits: u32,
    pub(crate) terms: Terms,
}

/// The credits that every host gets.
pub(crate) const LEAST_CREDITS: u32 = 2;

impl Joined {
    /// The credits that a host of so many workers can use: a shipment for each worker while it makes the
    /// next, and one that hides the way of the reply.
    pub(crate) fn most_credits(workers: u32) -> u32 {
        workers.saturating_add(1).max(LEAST_CREDITS)
    }

    /// Whether a learner can have given this place to a host of so many workers.
    pub(crate) fn is_possible(&self, workers: u32) -> bool {
        let Self { first_worker, credits, terms, .. } = self;
        (1..=Self::most_credits(workers)).contains(credits)
            && first_worker.checked_add(workers).is_some()
            && terms.check().is_ok()
    }
}

/// Why an actor is not let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The two ends differ in something that must be equal.
    #[error("{what} differs: the learner has {learner}, the actor has {actor}")]
    Differs {
        /// In what.
        what: String,
        /// The learner's value.
        learner: String,
        /// The actor's value.
        actor: String,
    },
    /// The learner has as many hosts or workers as it takes.
    #[error("the learner takes at most {limit} {what}: raise its limit, or use fewer hosts")]
    Full {
        /// Of what.
        what: String,
        /// How many.
        limit: u64,
    },
    /// The host broke the rules of the run before.
    #[error("the host is shut out for the rest of the run: {reason}")]
    ShutOut {
        /// What it did.
        reason: String,
    },
    /// It has joined by the same question before, and left.
    #[error("this question to join is outdated: the session that it began has ended")]
    Outdated,
    /// It asks for no workers, or for more than any host has.
    #[error("a host must have between 1 and {limit} workers, this one asks for {asked}")]
    Workers {
        /// How many it asked for.
        asked: u32,
        /// How many it may have.
        limit: u32,
    },
    /// What the learner has once in its life is used up.
    #[error(
        "the learner has used up its {limit} {what}: restart it, which goes on with the run if it resumes, and find \
         out which hosts join again and again; allow only names that you know"
    )]
    Exhausted {
        /// What.
        what: String,
        /// How many there were.
        limit: u64,
    },
}

/// How a run ended, for its actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Over {
    /// It has all the steps it was to have.
    Finished,
    /// It was stopped, and may be resumed.
    Stopped,
}

/// The header of a fragment on its way; the body is the frame. Without a body it asks what became of one that
/// was sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shipment {
    pub(crate) session: u64,
    pub(crate) courier: u32,
    /// Counts the shipments of a courier from 1.
    pub(crate) number: u64,
    pub(crate) statement: Statement,
    /// CRC-32C of the frame.
    pub(crate) checksum: u32,
}

/// What a host has done so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Statement {
    pub(crate) sampled: Steps,
    pub(crate) dropped: Vec<(String, Steps)>,
    pub(crate) lost: Vec<(String, Steps)>,
}

impl From<&StepTotals> for Statement {
    fn from(totals: &StepTotals) -> Self {
        let by_name =
            |steps: &BTreeMap<Arc<str>, Steps>| steps.iter().map(|(name, steps)| (name.to_string(), *steps)).collect();
        Self { sampled: totals.sampled, dropped: by_name(&totals.dropped), lost: by_name(&totals.lost) }
    }
}

/// The answer to a [`Shipment`] or a [`Beat`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It is booked.
    Taken(News),
    /// The learner has the shipment, and no room for it yet: ask for it again, without the frame.
    Waits(News),
    /// The learner does not have the shipment that was asked for: send it.
    Missing,
    /// It is not booked, and there will be no more: the run is over.
    Over(Over),
    /// The learner does not know the session, or has ended it.
    Gone,
    /// The frame arrived damaged.
    Corrupt,
    /// The message broke the rules of the run, and the session is over.
    Foreign(String),
}

/// What a host should know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct News {
    /// The newest version of the weights.
    pub(crate) version: u64,
    /// Whether to begin no further fragment: the run has enough of them.
    pub(crate) drains: bool,
    /// How long the learner has had the shipment since it was last asked about it.
    pub(crate) held_secs: f64,
    /// The part of it for which the inqueue had no room for the fragment, once it was its turn.
    pub(crate) blocked_secs: f64,
}

/// A sign of life with all that a host reports.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) session: u64,
    /// Counts the beats of a session from 1.
    pub(crate) number: u64,
    pub(crate) statement: Statement,
    /// What the workers report since the beat before.
    pub(crate) report: WorkerReport,
    /// Workers that gave up since the beat before.
    pub(crate) gave_up: Vec<String>,
    /// The time of each kind of thread.
    pub(crate) times: Vec<KindTime>,
    /// Whether the host knows that the run drains.
    pub(crate) drains: bool,
    /// Whether it is the last: why the host leaves.
    pub(crate) leaves: Option<String>,
}

/// The time of the threads of one kind on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KindTime {
    pub(crate) kind: String,
    pub(crate) wall_secs: f64,
    pub(crate) states: Vec<(String, f64)>,
    pub(crate) threads: u64,
}

/// Asks for a piece of weights.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct WeightsRequest {
    pub(crate) session: u64,
    /// The process of the learner, for relays: the session is known to that one only.
    pub(crate) run: u64,
    /// The version of an earlier piece; `None` for the newest.
    pub(crate) version: Option<u64>,
    /// The newest version that the host knows of, for relays.
    pub(crate) at_least: u64,
    pub(crate) piece: u32,
}

/// The answer to a [`WeightsRequest`]; the body is the piece.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WeightsReply {
    Piece(Piece),
    /// The learner does not know the session, or no longer has the version.
    Gone,
    Over(Over),
}

/// One piece of encoded weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub(crate) version: u64,
    pub(crate) pieces: u32,
    /// The length of all of them together.
    pub(crate) len: u64,
    /// XXH3 of all of them together.
    pub(crate) digest: u64,
}

/// Why a message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It is of no pronk.
    #[error("{0} bytes that are no message of pronk: something else uses this address")]
    NotPronk(usize),
    /// It is of another version.
    #[error("the other end speaks protocol {theirs}, this one {PROTOCOL}: build both from the same version of pronk")]
    Protocol {
        /// Which it speaks.
        theirs: u16,
    },
    /// It was changed or cut off on the way.
    #[error("a damaged message: {0}")]
    Damaged(&'static str),
}

/// A message of `header` and `body`.
pub(crate) fn seal(header: &impl Serialize, body: &[u8]) -> Bytes {
    let mut message = Vec::new();
    seal_into(header, &mut message);
    message.extend_from_slice(body);
    message.into()
}

/// Writes the start and the header of a message; the body is to follow.
pub(crate) fn seal_into(header: &impl Serialize, message: &mut Vec<u8>) {
    message.clear();
    // Messages are plain data, which postcard can always write to memory.
    let header = postcard::to_stdvec(header).unwrap_or_default();
    message.extend_from_slice(&MAGIC);
    message.extend_from_slice(&PROTOCOL.to_le_bytes());
    message.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
    message.extend_from_slice(&(header.len() as u32).to_le_bytes());
    message.extend_from_slice(&header);
}

/// The header of a message, and its body.
///
/// Allocates no more than a few times the length of the message.
pub(crate) fn open<H: DeserializeOwned>(message: &Bytes) -> Result<(H, Bytes), WireError> {
    if !message.starts_with(&MAGIC) {
        return Err(WireError::NotPronk(message.len()));
    }
    let number = |at: usize| -> Option<[u8; 4]> { message.get(at..at + 4)?.try_into().ok() };
    let protocol = message.get(MAGIC.len()..MAGIC.len() + 2).and_then(|two| two.try_into().ok());
    let theirs = u16::from_le_bytes(protocol.ok_or(WireError::Damaged("it ends before its header"))?);
    if theirs != PROTOCOL {
        return Err(WireError::Protocol { theirs });
    }
    let (checksum, len) =
        number(MAGIC.len() + 2).zip(number(MAGIC.len() + 6)).ok_or(WireError::Damaged("it ends before its header"))?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_HEADER {
        return Err(WireError::Damaged("its header is longer than any"));
    }
    let header = message.get(START..START + len).ok_or(WireError::Damaged("it ends within its header"))?;
    if crc32c::crc32c(header) != u32::from_le_bytes(checksum) {
        return Err(WireError::Damaged("the checksum of its header is wrong"));
    }
    let (header, rest) =
        postcard::take_from_bytes(header).map_err(|_| WireError::Damaged("its header cannot be read"))?;
    if !rest.is_empty() {
        return Err(WireError::Damaged("its header is longer than what it says"));
    }
    Ok((header, message.slice(START + len..)))
}
