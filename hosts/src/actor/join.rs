//! [`Actor`]: gets a host into a run.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::ShutdownToken;

use super::contact::Contact;
use super::member::Member;
use crate::ask::{AskError, Pauses};
use crate::link::{CallError, Dial, LinkError, Op};
use crate::sync::Instant;
use crate::wire::{Door, Facts, Hello, Join, Joined, Knock, Over, Refusal, Welcome, WireError, seal};

/// How long the learner may take for an answer to a host that wants to join.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a link may give no answer before another one is made: an engine may hold a connection on which
/// the learner cannot be asked. A short patience is for four links.
const RENEWED_AFTER: Duration = Duration::from_secs(5);

/// A host that looks for a run.
pub struct Actor {
    dial: Box<dyn Dial>,
    hello: Hello,
    patience: Duration,
    /// The way to a relay of weights, if there is one.
    relay: Option<Box<dyn Dial>>,
    contact: Option<Arc<Contact>>,
    before: Option<u64>,
    token: ShutdownToken,
}

/// The answer to a host that wants to join.
pub enum Entered {
    /// It is in.
    In(Box<Member>),
    /// The learner was resumed meanwhile: build the workers anew.
    Changed(Welcome),
}

/// Why a host is in no run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The address cannot be used.
    #[error("the learner cannot be reached: {0}")]
    Link(#[from] LinkError),
    /// The learner does not let it in.
    #[error("the learner at {address} does not let this host in: {refusal}")]
    Refused {
        /// Where it is.
        address: String,
        /// Why.
        refusal: Refusal,
    },
    /// The learner takes no requests of a host of this name.
    #[error("{reason}; allow its name on the learner's side, or use the certificate of a host that is allowed")]
    NotAllowed {
        /// What it said.
        reason: String,
    },
    /// Something else answers, or another version.
    #[error("{address} cannot be understood: {cause}")]
    Foreign {
        /// Where it is.
        address: String,
        /// What it said.
        cause: WireError,
    },
    /// No learner has answered for as long as the host was to look for one.
    #[error(
        "no learner at {address} has answered for {:.0} s; the last attempt: {last}. Is it running, and do address and \
         certificates match?",
        patience.as_secs_f64()
    )]
    Silent {
        /// Where it should be.
        address: String,
        /// For how long.
        patience: Duration,
        /// Why the last attempt failed.
        last: String,
    },
    /// The run is over.
    #[error("the run at {address} is over")]
    Over {
        /// Where it was.
        address: String,
        /// How it ended.
        over: Over,
    },
    /// The host was told to end.
    #[error("told to end while looking for a learner")]
    Stopped,
}

impl Actor {
    /// A host of so many workers, which looks for a learner for as long as `patience`, at the start and
    /// whenever it has lost one.
    pub fn new(dial: Box<dyn Dial>, workers: u32, patience: Duration, token: ShutdownToken) -> Self {
        let hello = Hello { version: env!("CARGO_PKG_VERSION").to_owned(), workers };
        Self { dial, hello, patience, relay: None, contact: None, before: None, token }
    }

    /// Gets weights from a relay where it can, and from the learner where it cannot.
    #[must_use]
    pub fn weights_from(self, relay: Box<dyn Dial>) -> Self {
        Self { relay: Some(relay), ..self }
    }

    /// Where it looks.
    pub fn address(&self) -> String {
        self.dial.address()
    }

    /// Asks the learner what to build workers by.
    ///
    /// *Blocks* for as long as its patience.
    ///
    /// # Errors
    /// As [`JoinError`] lists.
    pub fn hello(&mut self) -> Result<Welcome, JoinError> {
        match self.knock(Knock::Hello(self.hello.clone()))? {
            Door::Welcome(welcome) => Ok(welcome),
            _ => Err(self.foreign()),
        }
    }

    /// Joins with workers that were built by `welcome`.
    ///
    /// *Blocks* for as long as its patience.
    ///
    /// # Errors
    /// As [`JoinError`] lists.
    pub fn join(&mut self, welcome: &Welcome, facts: Facts) -> Result<Entered, JoinError> {
        let (run, attempt) = (welcome.run, attempt());
        let join = Join { hello: self.hello.clone(), run, facts, attempt, before: self.before };
        match self.knock(Knock::Join(join))? {
            Door::Welcome(welcome) => Ok(Entered::Changed(welcome)),
            Door::Joined(joined) => Ok(Entered::In(Box::new(self.member(welcome.run, joined)?))),
            _ => Err(self.foreign()),
        }
    }

    fn member(&mut self, run: u64, joined: Joined) -> Result<Member, JoinError> {
        if !joined.is_possible(self.hello.workers) {
            let cause = WireError::Damaged("a place in the run that no learner gives");
            return Err(JoinError::Foreign { address: self.dial.address(), cause });
        }
        let contact = Arc::clone(self.contact()?);
        self.before = Some(joined.session);
        let relay = self.relay.as_ref().and_then(|dial| {
            let failed = |error: &LinkError| tracing::warn!("no relay, so weights come from the learner: {error}");
            dial.dial().inspect_err(failed).ok()
        });
        Ok(Member { run, joined, contact, relay, token: self.token.clone() })
    }

    fn contact(&mut self) -> Result<&Arc<Contact>, LinkError> {
        // A link is made for each stay: what its threads have learned is over with it.
        match &mut self.contact {
            Some(contact) => Ok(contact),
            none => Ok(none.insert(Arc::new(Contact::new(self.dial.dial()?)))),
        }
    }

    /// Asks until there is an answer.
    fn knock(&mut self, mut knock: Knock) -> Result<Door, JoinError> {
        let (mut question, address) = (seal(&knock, &[]), self.dial.address());
        let (began, mut pauses) = (Instant::now(), Pauses::new());
        let renewed_after = RENEWED_AFTER.min(self.patience / 4);
        let is_first = matches!(knock, Knock::Hello(_));
        if is_first {
            self.contact = None;
        }
        let mut may_fail = is_first && self.before.is_none();
        loop {
            let last = match self.contact() {
                Err(error) if may_fail => return Err(error.into()),
                Err(error) => error.to_string(),
                Ok(contact) => match contact.ask::<Door>(Op::Join, &question, ANSWER) {
                    Ok((Door::Refused(Refusal::Outdated), _)) => {
                        // Its answers were lost for as long as the session lasted that it began.
                        if let Knock::Join(join) = &mut knock {
                            join.attempt = attempt();
                            question = seal(&knock, &[]);
                        }
                        Refusal::Outdated.to_string()
                    }
                    Ok((Door::Refused(refusal), _)) => return Err(JoinError::Refused { address, refusal }),
                    Ok((Door::Over(Over::Finished), _)) => {
                        return Err(JoinError::Over { address, over: Over::Finished });
                    }
                    // It may be resumed.
                    Ok((Door::Over(Over::Stopped), _)) => "the run was stopped".to_owned(),
                    Ok((door, _)) => return Ok(door),
                    Err(AskError::Wire(cause @ (WireError::Protocol { .. } | WireError::NotPronk(_)))) => {
                        return Err(JoinError::Foreign { address, cause });
                    }
                    Err(AskError::Call(CallError::NotAllowed(reason))) => return Err(JoinError::NotAllowed { reason }),
                    Err(error) => error.to_string(),
                },
            };
            may_fail = false;
            self.contact.take_if(|contact| contact.silent() >= renewed_after);
            tracing::debug!(address, "no learner yet: {last}");
            if began.elapsed() >= self.patience {
                return Err(JoinError::Silent { address, patience: self.patience, last });
            }
            if self.token.sleep(pauses.next().min(self.patience)).is_err() {
                return Err(JoinError::Stopped);
            }
        }
    }

    fn foreign(&self) -> JoinError {
        let cause = WireError::Damaged("an answer to another question");
        JoinError::Foreign { address: self.dial.address(), cause }
    }
}

/// The number of an attempt to join.
fn attempt() -> u64 {
    RandomState::new().hash_one(ANSWER)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
