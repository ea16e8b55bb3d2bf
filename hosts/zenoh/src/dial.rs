//! An actor's end.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pronk_hosts::{Bytes, CallError, Dial, Link, LinkError, Op};
use tokio::runtime::Handle;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::query::{ConsolidationMode, QueryTarget};
use zenoh::{Session, Wait as _};

use crate::address::{Address, Protocol};
use crate::certificates::{Certificates, check_name};
use crate::listen::protection;
use crate::make::LEARNER;
use crate::sessions::{self, Threads};
use crate::settings::{self, Opening, ROOT, STRANGERS};

/// Calls whose requests are being sent; those of more threads wait.
const MAX_THREADS: usize = 256;
/// How long a host without an answer waits for the learner to say that it is not allowed.
const DOUBT: Duration = Duration::from_secs(1);
/// One for all but fragments, and one for these.
const SESSIONS: usize = 2;

/// An actor's way to a learner over zenoh, or to a relay.
///
/// # Example
/// ```
/// use pronk_hosts::Dial;
/// use pronk_hosts_zenoh::{Certificates, ZenohDial};
///
/// let dial = ZenohDial::to("quic/learner.example:7447")
///     .certificates(Certificates::in_folder("/etc/pronk", "host-a"))
///     .name("host-a");
/// assert_eq!(Dial::name(&dial), "host-a");
/// assert!(dial.dial().is_err_and(|e| e.to_string().contains("/etc/pronk/host-a.key")));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ZenohDial {
    /// `quic/HOST:PORT` or `tcp/HOST:PORT`. Without the protocol it is quic if there are certificates, else
    /// tcp.
    pub address: String,
    /// The certificate of this host.
    pub certificates: Option<Certificates>,
    /// The name of this host. If there is none, it is the common name of the certificate, or else made of the
    /// name of the machine and the number of the process. A learner's allow-list binds it to the certificate.
    pub name: Option<String>,
    /// The common name of the learner's certificate, or of the relay's.
    pub learner: String,
    /// Whether the user wants plain tcp beyond this machine.
    pub insecure: bool,
}

impl ZenohDial {
    /// The way to a learner at `tcp/HOST:PORT` or `quic/HOST:PORT`.
    pub fn to(address: impl Into<String>) -> Self {
        Self { address: address.into(), certificates: None, name: None, learner: LEARNER.into(), insecure: false }
    }

    /// Encrypts, and shows this certificate to the learner.
    pub fn certificates(mut self, certificates: Certificates) -> Self {
        self.certificates = Some(certificates);
        self
    }

    /// The name of this host.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The common name of the learner's certificate, if it is not [`LEARNER`]: on the way to a relay, that of
    /// the relay.
    pub fn learner(mut self, name: impl Into<String>) -> Self {
        self.learner = name.into();
        self
    }

    /// Allows plain tcp beyond this machine. All on the way can then read and forge experience and weights.
    pub fn insecure(mut self) -> Self {
        self.insecure = true;
        self
    }

    fn checked(&self) -> Result<(Address, String), LinkError> {
        let address = Address::parse(&self.address, protection(self.certificates.is_some(), self.insecure))?;
        let refuse = |reason| LinkError { address: address.to_string(), reason };
        if address.port == 0 {
            return Err(refuse("0 is not a port that can be reached: give the one the learner listens on".into()));
        }
        let name = match &self.certificates {
            None => self.host_name(),
            Some(certificates) => {
                let common_name = certificates.common_name().map_err(refuse)?;
                if self.name.as_ref().is_some_and(|name| *name != common_name) {
                    return Err(refuse(format!(
                        "the certificate is that of `{common_name}`, but the host is to be named `{}`: leave \
                         `name(..)` out, or give the certificate of that name",
                        self.host_name()
                    )));
                }
                common_name
            }
        };
        check_name(&name).map_err(refuse)?;
        Ok((address, name))
    }

    fn host_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{}-{}", machine(), std::process::id()))
    }
}

impl Dial for ZenohDial {
    fn dial(&self) -> Result<Arc<dyn Link>, LinkError> {
        let (address, name) = self.checked()?;
        let open = |opening| {
            let certificates = self.certificates.as_ref();
            let settings = settings::of_an_actor(&address, certificates, &name, &self.learner, opening);
            sessions::open(&address, &settings)
        };
        let threads = Threads::new("hosts-call", MAX_THREADS);
        let threads = threads.map_err(|reason| LinkError { address: address.to_string(), reason })?;
        let mut link = ZenohLink {
            address: address.clone(),
            name: name.clone(),
            learner: self.learner.clone(),
            sessions: Vec::new(),
            trouble: Mutex::default(),
            threads,
        };
        let mut opening = Opening::Once;
        for _ in 0..SESSIONS {
            // The first try waits for the learner, or tells why it is in vain; a patient session does
            // neither.
            let session = open(opening).or_else(|e| match opening {
                Opening::Patient => Err(e),
                Opening::Once => {
                    opening = Opening::Patient;
                    link.trouble = Mutex::new(Some(e.reason));
                    open(opening)
                }
            })?;
            link.sessions.push(session);
        }
        Ok(Arc::new(link))
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn name(&self) -> String {
        self.checked().map_or_else(|_| self.host_name(), |(_, name)| name)
    }
}

/// The name of this machine, with what cannot stand in a name replaced.
fn machine() -> String {
    #[cfg(unix)]
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let node = std::env::var("COMPUTERNAME").unwrap_or_default();
    let name: String = node.chars().take(40).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if name.is_empty() { "host".into() } else { name }
}

/// Two sessions: a fragment that is on its way holds up nothing but fragments.
struct ZenohLink {
    address: Address,
    name: String,
    /// The common name that the learner's certificate must have.
    learner: String,
    /// The second one is for fragments.
    sessions: Vec<Session>,
    /// Why the learner could not be reached when the link was made, until a call gets through.
    trouble: Mutex<Option<String>>,
    threads: Threads,
}

impl Link for ZenohLink {
    fn call(&self, op: Op, request: Bytes, deadline: Duration) -> Result<Bytes, CallError> {
        let session = self.sessions.get(usize::from(op == Op::Ship));
        let (Some(threads), Some(session)) = (self.threads.handle(), session) else {
            return Err(CallError::Lost("the link is closed".into()));
        };
        let key = format!("{ROOT}/{}/{}", self.name, op.name());
        let reply = match ask(&threads, session.clone(), key, op, request, deadline) {
            Ok(reply) => reply,
            Err(RecvTimeoutError::Timeout) => return Err(CallError::TimedOut(deadline)),
            Err(RecvTimeoutError::Disconnected) if self.is_stranger(&threads, session) => {
                let reason = format!("the learner at {} does not allow a host named `{}`", self.address, self.name);
                return Err(CallError::NotAllowed(reason));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(CallError::Lost(self.why(session))),
        };
        match reply {
            Ok(bytes) => {
                *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(bytes)
            }
            Err(e) if e == TIMEOUT => Err(CallError::TimedOut(deadline)),
            Err(e) => Err(CallError::Lost(e)),
        }
    }
}

/// What zenoh replies itself when the time of a query is over.
const TIMEOUT: &str = "Timeout";

/// Waits for the first reply. No reply that can still come is `Disconnected`.
fn ask(
    threads: &Handle,
    session: Session,
    key: String,
    op: Op,
    request: Bytes,
    deadline: Duration,
) -> Result<Result<Bytes, String>, RecvTimeoutError> {
    // The first reply is the only one that is looked at, so a full channel loses nothing.
    let (answer, answered) = sync_channel(1);
    // Small questions overtake the weights that are under way in the same session.
    let priority = if matches!(op, Op::Join | Op::Beat) { Priority::DataHigh } else { Priority::Data };
    // Sending blocks while the learner reads slowly, and nothing bounds that but the size of the request.
    threads.spawn_blocking(move || {
        let failed = answer.clone();
        let sent = session
            .get(key)
            .payload(request)
            .target(QueryTarget::BestMatching)
            .consolidation(ConsolidationMode::None)
            .congestion_control(CongestionControl::Block)
            .priority(priority)
            .timeout(deadline)
            .callback(move |reply| drop(answer.try_send(reply.into_result().map_err(|e| e.payload().clone()))))
            .wait();
        if let Err(e) = sent {
            drop(failed.try_send(Err(e.to_string().into())));
        }
    });
    let reply = answered.recv_timeout(deadline)?;
    Ok(match reply {
        Ok(sample) => Ok(sessions::in_one_piece(sample.payload())),
        Err(payload) => Err(payload.try_to_string().map_or_else(|_| "an error".into(), |text| text.into_owned())),
    })
}

impl ZenohLink {
    /// Whether the learner says that it does not allow this host. It takes no other question of such a host.
    fn is_stranger(&self, threads: &Handle, session: &Session) -> bool {
        let key = format!("{STRANGERS}/{}", self.name);
        let is_secured = self.address.protocol == Protocol::Quic;
        is_secured && matches!(ask(threads, session.clone(), key, Op::Join, Bytes::new(), DOUBT), Ok(Ok(_)))
    }

    /// Why a call ended without a reply.
    fn why(&self, session: &Session) -> String {
        let secured = self.address.protocol == Protocol::Quic;
        if session.info().peers_zid().wait().next().is_some() {
            let mut why = format!(
                "the learner at {} is connected, but has no answer for `{}`: it is closing",
                self.address, self.name
            );
            if secured {
                why += &format!(", or its certificate is not that of `{}`", self.learner);
            }
            return why;
        }
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match &*trouble {
            Some(cause) if secured => format!(
                "not connected to {} so far; the first try ended with: {cause} (if the connection was closed, the \
                 learner may not trust the certificate of `{}`)",
                self.address, self.name
            ),
            Some(cause) => format!("not connected to {} so far; the first try ended with: {cause}", self.address),
            None => format!("the connection to {} is lost, and is being made anew", self.address),
        }
    }
}

impl Drop for ZenohLink {
    fn drop(&mut self) {
        sessions::close(std::mem::take(&mut self.sessions), || {});
    }
}
