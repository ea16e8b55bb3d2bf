//! Desks, ends and certificates that the tests share.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pronk_hosts::{Bytes, CallError, Desk, Dial, Limits, Link, Listen, Listening, Op, Request};
use pronk_hosts_zenoh::{Certificates, ZenohDial, ZenohListen, make_certificates};
use serde_json::{Value, json};
use tempfile::TempDir;
use zenoh::{Session, Wait as _};

/// Far more than anything takes here, so that a busy machine fails no test.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// For calls that are to end without a reply.
pub(crate) const SHORT: Duration = Duration::from_millis(500);

/// A desk that answers with what it was sent, and remembers who sent it.
#[derive(Default)]
pub(crate) struct Echo {
    pub(crate) seen: Mutex<Vec<(String, Op, usize)>>,
}

impl Desk for Echo {
    fn accept(&self, request: Request) {
        let seen = (request.from.to_string(), request.op, request.bytes.len());
        self.seen.lock().unwrap().push(seen);
        request.reply.send(request.bytes);
    }
}

impl Echo {
    pub(crate) fn nothing_arrived(&self) -> bool {
        self.seen.lock().unwrap().is_empty()
    }
}

/// A desk that is a function.
pub(crate) struct With<F>(pub(crate) F);

impl<F: Fn(Request) + Send + Sync> Desk for With<F> {
    fn accept(&self, request: Request) {
        (self.0)(request);
    }
}

/// Hosts and requests of a megabyte.
pub(crate) const LIMITS: Limits = Limits { hosts: 8, request_bytes: 1 << 20 };

pub(crate) fn listen(end: ZenohListen, desk: Arc<dyn Desk>) -> (Box<dyn Listening>, String) {
    listen_for(end, desk, Limits { request_bytes: 256 << 20, ..LIMITS })
}

pub(crate) fn listen_for(end: ZenohListen, desk: Arc<dyn Desk>, limits: Limits) -> (Box<dyn Listening>, String) {
    let listening = Box::new(end).listen(desk, limits).unwrap();
    let address = listening.address();
    (listening, address)
}

pub(crate) fn plain(desk: Arc<dyn Desk>) -> (Box<dyn Listening>, String) {
    listen(ZenohListen::at("tcp/127.0.0.1:0"), desk)
}

pub(crate) fn dial(address: &str, name: &str) -> Arc<dyn Link> {
    ZenohDial::to(address).name(name).dial().unwrap()
}

/// A folder with an authority, a learner and hosts.
pub(crate) fn certified(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path(), &["127.0.0.1", "localhost"], names).unwrap();
    folder
}

pub(crate) fn of(folder: &TempDir, name: &str) -> Certificates {
    Certificates::in_folder(folder.path(), name)
}

pub(crate) fn secured(folder: &TempDir, allowed: &[&str], desk: Arc<dyn Desk>) -> (Box<dyn Listening>, String) {
    let end = ZenohListen::at("quic/127.0.0.1:0").certificates(of(folder, "learner"));
    listen(end.allow(allowed.iter().copied()), desk)
}

pub(crate) fn dial_secured(address: &str, folder: &TempDir, name: &str) -> Arc<dyn Link> {
    ZenohDial::to(address).certificates(of(folder, name)).dial().unwrap()
}

/// Bytes in which no piece is like another.
pub(crate) fn payload(bytes: usize) -> Bytes {
    (0..bytes as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect::<Vec<_>>().into()
}

/// Asks until there is an answer.
pub(crate) fn ask_until_answered(link: &dyn Link, op: Op) -> Bytes {
    let start = Instant::now();
    loop {
        match link.call(op, Bytes::from_static(b"again"), Duration::from_secs(2)) {
            Ok(reply) => return reply,
            Err(e) if start.elapsed() > LONG => panic!("no answer for {LONG:?}: {e}"),
            Err(_) => thread::park_timeout(Duration::from_millis(20)),
        }
    }
}

/// What a call without a reply says; it must end in time.
pub(crate) fn lost(link: &dyn Link) -> String {
    match link.call(Op::Join, Bytes::from_static(b"let me in"), LONG) {
        Err(CallError::Lost(why)) => why,
        other => panic!("expected that the call is lost at once, but it is {other:?}"),
    }
}

/// A foreign zenoh program with settings of its own.
pub(crate) fn intruder(address: &str, tls: Option<&Certificates>) -> Result<Session, String> {
    let mut settings = json!({
        "mode": "client",
        "scouting": { "multicast": { "enabled": false }, "gossip": { "enabled": false } },
        "connect": { "endpoints": [address], "timeout_ms": 0 },
        "transport": { "unicast": { "open_timeout": 5000 } },
    });
    if let Some(tls) = tls {
        settings["transport"]["link"] = tls_settings(tls);
    }
    zenoh::open(zenoh::Config::from_json5(&settings.to_string()).unwrap()).wait().map_err(|e| e.to_string())
}

fn tls_settings(tls: &Certificates) -> Value {
    json!({ "tls": {
        "root_ca_certificate": &tls.ca,
        "enable_mtls": true,
        "connect_certificate": &tls.certificate,
        "connect_private_key": &tls.key,
    } })
}

/// Asks on a key of its own choice; `None` if there is no reply within `time`.
pub(crate) fn ask_on(session: &Session, key: &str, time: Duration) -> Option<Vec<u8>> {
    let replies = session.get(key).payload("forged").timeout(time).wait().unwrap();
    let reply = replies.recv().ok()?;
    reply.into_result().ok().map(|sample| sample.payload().to_bytes().into_owned())
}
