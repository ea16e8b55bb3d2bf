//! [`MemoryNetwork`]: hosts in one process, for tests and simulations.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use pronk_policy::derive_seed;

use crate::link::{CallError, Desk, Dial, Limits, Link, LinkError, Listen, Listening, Op, Reply, Request};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::channel::{RecvTimeoutError, bounded, never};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a [`MemoryNetwork`] does to what passes it, drawn from a seed. The default lets everything through.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Toll {
    /// The seed of all draws.
    pub seed: u64,
    /// The share of requests that never arrive.
    pub lose_requests: f64,
    /// The share of replies that never arrive.
    pub lose_replies: f64,
    /// The share of requests that arrive a second time, some requests later.
    pub repeat: f64,
    /// The share of requests and replies in which one bit is flipped.
    pub damage: f64,
    /// The longest delay of a request, and of a reply.
    pub delay: Duration,
}

/// Hosts in one process: everything arrives without a socket, unless a [`Toll`] has it otherwise.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use pronk_hosts::{Bytes, Desk, Dial, Limits, Listen, MemoryNetwork, Op, Request};
///
/// struct Echo;
///
/// impl Desk for Echo {
///     fn accept(&self, request: Request) {
///         request.reply.send(request.bytes);
///     }
/// }
///
/// let network = MemoryNetwork::new();
/// let limits = Limits { hosts: 1, request_bytes: 1000 };
/// let listening = Box::new(network.listen()).listen(Arc::new(Echo), limits)?;
/// let link = network.dial("host-a").dial()?;
/// let reply = link.call(Op::Beat, Bytes::from_static(b"there?"), Duration::from_secs(1));
/// assert_eq!(reply.as_deref(), Ok(b"there?".as_slice()));
/// drop(listening);
/// assert!(link.call(Op::Beat, Bytes::new(), Duration::from_secs(1)).is_err());
/// # Ok::<(), pronk_hosts::LinkError>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryNetwork(Arc<Network>);

#[derive(Default)]
struct Network {
    toll: Toll,
    draws: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    desk: Option<Arc<dyn Desk>>,
    /// Hosts that are cut off.
    cut: BTreeSet<String>,
    /// Requests that are to arrive again.
    again: Vec<(Op, Arc<str>, Bytes)>,
}

/// Copies of requests that wait to arrive again.
const MAX_AGAIN: usize = 8;

impl MemoryNetwork {
    /// A network that carries everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// A network that loses, repeats, damages and delays.
    pub fn with_toll(toll: Toll) -> Self {
        Self(Arc::new(Network { toll, ..Network::default() }))
    }

    /// An actor's way to the learner of this network.
    pub fn dial(&self, name: &str) -> impl Dial + use<> {
        MemoryDial { network: Arc::clone(&self.0), name: name.into() }
    }

    /// The learner's end.
    pub fn listen(&self) -> impl Listen + use<> {
        MemoryListen(Arc::clone(&self.0))
    }

    /// Cuts a host off, or connects it again.
    pub fn cut(&self, name: &str, is_cut: bool) {
        let mut state = self.0.lock();
        match is_cut {
            true => state.cut.insert(name.to_owned()),
            false => state.cut.remove(name),
        };
    }
}

impl Network {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Only lists are changed under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next number of the seed, from 0 to 1.
    fn draw(&self) -> f64 {
        let number = derive_seed(self.toll.seed, &[self.draws.fetch_add(1, Ordering::Relaxed)]);
        number as f64 / u64::MAX as f64
    }

    fn happens(&self, share: f64) -> bool {
        share > 0.0 && self.draw() < share
    }

    fn delay(&self) {
        if !self.toll.delay.is_zero() {
            let _ = never::<()>().recv_timeout(self.toll.delay.mul_f64(self.draw()));
        }
    }

    fn damaged(&self, bytes: Bytes) -> Bytes {
        if bytes.is_empty() || !self.happens(self.toll.damage) {
            return bytes;
        }
        let mut copy = bytes.to_vec();
        let bit = (self.draw() * (8 * copy.len() - 1) as f64) as usize;
        copy[bit / 8] ^= 1 << (bit % 8);
        copy.into()
    }
}

struct MemoryDial {
    network: Arc<Network>,
    name: Arc<str>,
}

impl Dial for MemoryDial {
    fn dial(&self) -> Result<Arc<dyn Link>, LinkError> {
        Ok(Arc::new(MemoryLink { network: Arc::clone(&self.network), name: Arc::clone(&self.name) }))
    }

    fn address(&self) -> String {
        "memory".to_owned()
    }

    fn name(&self) -> String {
        self.name.to_string()
    }
}

struct MemoryLink {
    network: Arc<Network>,
    name: Arc<str>,
}

impl Link for MemoryLink {
    fn call(&self, op: Op, request: Bytes, deadline: Duration) -> Result<Bytes, CallError> {
        let network = &*self.network;
        let desk = || {
            let state = network.lock();
            match state.cut.contains(&*self.name) {
                true => Err(CallError::Lost("the host is cut off".to_owned())),
                false => state.desk.clone().ok_or_else(|| CallError::Lost("no learner listens".to_owned())),
            }
        };
        network.delay();
        let desk_now = desk()?;
        if network.happens(network.toll.lose_requests) {
            return Err(CallError::Lost("the request was lost".to_owned()));
        }
        if network.happens(network.toll.repeat) {
            let mut state = network.lock();
            if state.again.len() < MAX_AGAIN {
                state.again.push((op, Arc::clone(&self.name), request.clone()));
            }
        } else if network.toll.repeat > 0.0
            && let Some((op, from, bytes)) = network.lock().again.pop()
        {
            desk_now.accept(Request { op, from, bytes, reply: Reply::new(|_| {}) });
        }
        let (reply, replied) = bounded(1);
        let send = move |bytes| {
            // There is room for the only reply; a caller that has given up has closed the channel.
            let _ = reply.try_send(bytes);
        };
        let bytes = network.damaged(request);
        desk_now.accept(Request { op, from: Arc::clone(&self.name), bytes, reply: Reply::new(send) });
        // Not held while it waits, so that a learner that closes can end.
        drop(desk_now);
        let reply = replied.recv_timeout(deadline).map_err(|error| match error {
            RecvTimeoutError::Timeout => CallError::TimedOut(deadline),
            RecvTimeoutError::Disconnected => CallError::Lost("the learner has nothing to say".to_owned()),
        })?;
        network.delay();
        if network.happens(network.toll.lose_replies) {
            return Err(CallError::Lost("the reply was lost".to_owned()));
        }
        // What has been cut off meanwhile gets no reply.
        if network.lock().cut.contains(&*self.name) {
            return Err(CallError::Lost("the host is cut off".to_owned()));
        }
        Ok(network.damaged(reply))
    }
}

struct MemoryListen(Arc<Network>);

impl Listen for MemoryListen {
    fn listen(self: Box<Self>, desk: Arc<dyn Desk>, _: Limits) -> Result<Box<dyn Listening>, LinkError> {
        let mut state = self.0.lock();
        if state.desk.is_some() {
            let reason = "another learner listens on it; drop that one first".to_owned();
            return Err(LinkError { address: "memory".to_owned(), reason });
        }
        state.desk = Some(desk);
        drop(state);
        Ok(Box::new(MemoryListening(self.0)))
    }
}

struct MemoryListening(Arc<Network>);

impl Listening for MemoryListening {
    fn address(&self) -> String {
        "memory".to_owned()
    }
}

impl Drop for MemoryListening {
    fn drop(&mut self) {
        let desk = self.0.lock().desk.take();
        drop(desk); // outside the lock, which what it holds may want
    }
}
