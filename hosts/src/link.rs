//! What carries bytes between hosts: requests of an actor, and replies of the learner.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

/// What a request is for. An engine may carry [`Ship`](Op::Ship) apart from the others, so that nothing waits
/// behind large fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Getting into a run.
    Join,
    /// A fragment.
    Ship,
    /// A piece of the newest weights.
    Weights,
    /// A sign of life, with what the host reports.
    Beat,
}

impl Op {
    /// All of them.
    pub const ALL: [Op; 4] = [Op::Join, Op::Ship, Op::Weights, Op::Beat];

    /// Its name in addresses and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Ship => "ship",
            Self::Weights => "weights",
            Self::Beat => "beat",
        }
    }
}

/// An actor's way to a learner, which has not been taken yet.
pub trait Dial: Send + Sync {
    /// Prepares a link. A success proves nothing: the learner may not be there.
    ///
    /// # Errors
    /// Settings that cannot work, or an address that cannot be reached.
    fn dial(&self) -> Result<Arc<dyn Link>, LinkError>;

    /// The address, for errors and logs.
    fn address(&self) -> String;

    /// The name by which the learner knows the host; with certificates, that of the certificate.
    fn name(&self) -> String;
}

/// An actor's end of a link.
pub trait Link: Send + Sync {
    /// Sends a request and returns its reply.
    ///
    /// The request may arrive although there is an error, and more than once.
    ///
    /// *Blocks* for at most `deadline`; in several threads at once.
    ///
    /// # Errors
    /// No reply within the deadline, or none that can still come.
    fn call(&self, op: Op, request: Bytes, deadline: Duration) -> Result<Bytes, CallError>;
}

/// A learner's end, which is not open yet.
pub trait Listen: Send {
    /// Opens it. Requests go to `desk` until the returned value is dropped.
    ///
    /// # Errors
    /// Settings that cannot work, or an address that cannot be listened on.
    fn listen(self: Box<Self>, desk: Arc<dyn Desk>, limits: Limits) -> Result<Box<dyn Listening>, LinkError>;
}

/// What an open end has to take, and need not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many hosts are connected at a time.
    pub hosts: usize,
    /// The longest request, in bytes. An engine refuses longer ones before it holds them in memory.
    pub request_bytes: usize,
}

/// An open end of a learner. Dropping it closes the end, after the replies given so far have been sent.
pub trait Listening: Send {
    /// Where it can be reached, with the port that the system chose.
    fn address(&self) -> String;
}

/// What answers requests.
pub trait Desk: Send + Sync {
    /// Takes a request in. Never blocks for longer than a lock is held; the reply may come later, from any
    /// thread.
    fn accept(&self, request: Request);
}

/// A request as it arrives.
#[derive(Debug)]
pub struct Request {
    /// What it is for.
    pub op: Op,
    /// Which host sent it. An engine with certificates vouches for it.
    pub from: Arc<str>,
    /// The request.
    pub bytes: Bytes,
    /// Takes the reply.
    pub reply: Reply,
}

/// Takes the reply of one request. If it is dropped, the link says at once that there is none.
pub struct Reply(Box<dyn FnOnce(Bytes) + Send>);

impl Reply {
    /// A reply that `send` takes; it must not block.
    pub fn new(send: impl FnOnce(Bytes) + Send + 'static) -> Self {
        Self(Box::new(send))
    }

    /// Sends it. Never blocks; a host that is gone does not get it.
    pub fn send(self, reply: Bytes) {
        (self.0)(reply);
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// None within the deadline.
    #[error("no reply within {:.1} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The learner does not take requests of this host.
    #[error("{0}")]
    NotAllowed(String),
    /// None can still come: the connection broke, or the learner has nothing to say.
    #[error("no reply: {0}")]
    Lost(String),
}

/// Why a link or a listening end cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {reason}")]
pub struct LinkError {
    /// The address.
    pub address: String,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// Ends that are closures.
#[cfg(test)]
pub(crate) mod closures {
    use super::*;

    /// A way on which each link is what the closure makes.
    pub(crate) struct Way<F>(pub(crate) F);

    impl<F: Fn() -> Arc<dyn Link> + Send + Sync> Dial for Way<F> {
        fn dial(&self) -> Result<Arc<dyn Link>, LinkError> {
            Ok((self.0)())
        }

        fn address(&self) -> String {
            "here".to_owned()
        }

        fn name(&self) -> String {
            "a".to_owned()
        }
    }

    /// A link on which the closure answers; `None` is no answer.
    pub(crate) struct Answering<F>(pub(crate) F);

    impl<F: Fn(Bytes) -> Option<Bytes> + Send + Sync> Link for Answering<F> {
        fn call(&self, _: Op, request: Bytes, _: Duration) -> Result<Bytes, CallError> {
            (self.0)(request).ok_or_else(|| CallError::Lost("no answer".to_owned()))
        }
    }
}
