//! The learner's end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pronk_hosts::{Bytes, Desk, Limits, LinkError, Listen, Listening, Op, Request};
use zenoh::query::Query;
use zenoh::{Session, Wait as _};

use crate::address::{Address, Protection};
use crate::certificates::{Certificates, check_name};
use crate::lanes::Lanes;
use crate::sessions::{self, Threads};
use crate::settings::{self, ROOT, STRANGERS};

/// How long closing waits for replies that were given and are not sent yet.
const FLUSH: Duration = Duration::from_secs(1);
/// How long closing waits for the port to be free.
const FREE: Duration = Duration::from_secs(1);
/// With a free port of its own choice, another program may be faster.
const TRIES: usize = 3;
/// Threads that send replies; a host needs one only while it reads slowly.
const MAX_THREADS: usize = 1024;

/// The learner's end of links over zenoh, or that of a relay.
///
/// A request that is longer than any of the run is dropped on arrival, piece by piece, and its caller times
/// out.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use pronk_hosts::{Desk, Limits, Listen, Request};
/// use pronk_hosts_zenoh::ZenohListen;
///
/// struct Echo;
///
/// impl Desk for Echo {
///     fn accept(&self, request: Request) {
///         request.reply.send(request.bytes);
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = Limits { hosts: 100, request_bytes: 1 << 20 };
/// let listening = Box::new(ZenohListen::at("tcp/127.0.0.1:0")).listen(Arc::new(Echo), limits)?;
/// assert!(listening.address().starts_with("tcp/127.0.0.1:"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct ZenohListen {
    /// `quic/HOST:PORT` or `tcp/HOST:PORT`. Without the protocol it is quic if there are certificates, else
    /// tcp. The port 0 stands for one that is free.
    pub address: String,
    /// The learner's certificate. Hosts then need one of the same authority.
    pub certificates: Option<Certificates>,
    /// The hosts that may ask, by the common names of their certificates; each may only use its own name.
    /// If it is empty, all with a certificate of the authority may ask, and *under any name*.
    pub allowed: Vec<String>,
    /// Whether the user wants plain tcp beyond this machine.
    pub insecure: bool,
}

impl ZenohListen {
    /// An end at `tcp/HOST:PORT` or `quic/HOST:PORT`.
    pub fn at(address: impl Into<String>) -> Self {
        Self { address: address.into(), certificates: None, allowed: Vec::new(), insecure: false }
    }

    /// Encrypts, and lets only hosts in whose certificate is of the same authority.
    pub fn certificates(mut self, certificates: Certificates) -> Self {
        self.certificates = Some(certificates);
        self
    }

    /// Lets only these hosts in, each under its own name.
    pub fn allow<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.allowed.extend(names.into_iter().map(Into::into));
        self
    }

    /// Allows plain tcp beyond this machine. All on the way can then read, forge and inject experience.
    pub fn insecure(mut self) -> Self {
        self.insecure = true;
        self
    }

    fn checked_address(&self) -> Result<Address, LinkError> {
        let address = Address::parse(&self.address, protection(self.certificates.is_some(), self.insecure))?;
        let refuse = |reason| LinkError { address: address.to_string(), reason };
        if let Some(certificates) = &self.certificates {
            certificates.common_name().map_err(refuse)?;
        } else if !self.allowed.is_empty() {
            return Err(refuse("only certificates prove names: without them, leave `allow(..)` out".into()));
        }
        for (i, name) in self.allowed.iter().enumerate() {
            check_name(name).map_err(refuse)?;
            if self.allowed[..i].contains(name) {
                return Err(refuse(format!("`{name}` is allowed twice: name each host once")));
            }
        }
        Ok(address)
    }

    fn open(&self, wanted: &Address, limits: Limits) -> Result<(Session, Address), LinkError> {
        let mut tries = if wanted.port == 0 { TRIES } else { 1 };
        loop {
            let address = wanted.with_free_port()?;
            let settings = settings::of_the_learner(&address, self.certificates.as_ref(), &self.allowed, limits);
            tries -= 1;
            match sessions::open(&address, &settings) {
                Ok(session) => return Ok((session, address)),
                Err(e) if tries == 0 => return Err(e),
                Err(e) => tracing::debug!("{e}; trying another port"),
            }
        }
    }
}

/// How the bytes of an end are protected.
pub(crate) fn protection(has_certificates: bool, insecure: bool) -> Protection {
    match (has_certificates, insecure) {
        (true, _) => Protection::Certificates,
        (false, true) => Protection::Insecure,
        (false, false) => Protection::Loopback,
    }
}

impl Listen for ZenohListen {
    fn listen(self: Box<Self>, desk: Arc<dyn Desk>, limits: Limits) -> Result<Box<dyn Listening>, LinkError> {
        let wanted = self.checked_address()?;
        let refuse = |reason: String| LinkError { address: wanted.to_string(), reason };
        let threads = Threads::new("hosts-reply", limits.hosts.saturating_mul(2).min(MAX_THREADS)).map_err(refuse)?;
        let lanes = Arc::new(Lanes::new(threads.handle().ok_or_else(|| refuse("no threads".into()))?));
        let (session, address) = self.open(&wanted, limits)?;
        let callback = {
            let lanes = Arc::clone(&lanes);
            move |query: Query| accept(query, &lanes, &*desk)
        };
        let declared =
            session.declare_queryable(format!("{ROOT}/*/*")).complete(true).callback(callback).background().wait();
        let declared = declared.and_then(|()| match self.allowed.is_empty() {
            true => Ok(()),
            false => refuse_strangers(&session, &lanes, self.allowed.clone()),
        });
        let listening = Open { address, session: Some(session), lanes, _threads: threads };
        declared.map_err(|e| LinkError { address: listening.address(), reason: e.to_string() })?;
        Ok(Box::new(listening))
    }
}

/// Tells hosts that have a certificate but are not on the list that they need not ask again.
fn refuse_strangers(session: &Session, lanes: &Arc<Lanes>, allowed: Vec<String>) -> zenoh::Result<()> {
    let lanes = Arc::clone(lanes);
    let callback = move |query: Query| {
        let name = query.key_expr().as_str().rsplit('/').next().unwrap_or_default().to_owned();
        // One that is on the list has no answer for another reason.
        if check_name(&name).is_ok() && !allowed.contains(&name) {
            tracing::warn!(host = name, "not let in: its name is not on the list of those that are allowed");
            lanes.reply(name.into(), Op::Join, query).send(Bytes::new());
        }
    };
    session.declare_queryable(format!("{STRANGERS}/*")).complete(true).callback(callback).background().wait()
}

/// Runs on a thread of zenoh that reads from links.
fn accept(query: Query, lanes: &Arc<Lanes>, desk: &dyn Desk) {
    let Some((from, op)) = name_and_op(query.key_expr().as_str()) else {
        tracing::debug!("dropped a request on `{}`, which is not `{ROOT}/<host>/<op>`", query.key_expr());
        return;
    };
    let from: Arc<str> = from.into();
    let bytes = query.payload().map_or_else(Bytes::new, sessions::in_one_piece);
    let reply = lanes.reply(Arc::clone(&from), op, query);
    desk.accept(Request { op, from, bytes, reply });
}

/// Reads `pronk/<name>/<op>`.
fn name_and_op(key: &str) -> Option<(&str, Op)> {
    let (root, rest) = key.split_once('/')?;
    let (name, op) = rest.split_once('/')?;
    let op = Op::ALL.into_iter().find(|known| known.name() == op)?;
    (root == ROOT && check_name(name).is_ok()).then_some((name, op))
}

impl fmt::Debug for ZenohListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZenohListen").field("address", &self.address).finish_non_exhaustive()
    }
}

struct Open {
    address: Address,
    session: Option<Session>,
    lanes: Arc<Lanes>,
    _threads: Threads,
}

impl Listening for Open {
    fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let lanes = Arc::clone(&self.lanes);
        sessions::close(self.session.take().into_iter().collect(), move || lanes.flush(FLUSH));
        // A QUIC socket outlives its session by a few round trips.
        self.address.wait_until_free(FREE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_hosts_are_understood() {
        assert_eq!(name_and_op("pronk/host-a/ship"), Some(("host-a", Op::Ship)));
        for key in [
            "pronk/host-a",
            "pronk/*/ship",
            "pronk/a/*",
            "pronk/a/b/ship",
            "pronk/a/stop",
            "other/a/ship",
            "pronk//ship",
        ] {
            assert_eq!(name_and_op(key), None, "{key}");
        }
    }
}
