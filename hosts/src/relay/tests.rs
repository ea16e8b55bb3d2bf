use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pronk_buffer::{WeightPublisher, weight_cell};
use pronk_metrics::ByPolicy;
use pronk_policy::{ParamLayout, Params};

use super::*;
use crate::ask::ask;
use crate::learner::Store;
use crate::link::Link;
use crate::link::closures::{Answering, Way};
use crate::memory::MemoryNetwork;
use crate::pull::{self, Encoded, PullError};
use crate::sync::Instant;
use crate::wire::{WeightsReply, seal};

/// Far more than anything takes here.
const LONG: Duration = Duration::from_secs(60);

/// A session that the learner does not know.
const UNKNOWN: u64 = 13;

fn params(fill: f32) -> ByPolicy<Params> {
    let layout = Arc::new(ParamLayout::new([("weight", vec![1000])]));
    ByPolicy::from([("default_policy".into(), Params::new(layout, vec![fill; 1000]).unwrap())])
}

/// A learner that has weights only, in pieces of 1 KiB.
struct Learner {
    run: u64,
    store: Mutex<Store>,
    /// How often it was asked for the newest version.
    asked: AtomicU64,
}

impl Learner {
    fn new(run: u64) -> (Arc<Self>, WeightPublisher<ByPolicy<Params>>) {
        let (publisher, cell) = weight_cell(params(0.0));
        let store = Mutex::new(Store::new(cell, 1 << 10));
        (Arc::new(Self { run, store, asked: AtomicU64::new(0) }), publisher)
    }
}

impl Desk for Learner {
    fn accept(&self, request: Request) {
        let (asked, _) = open::<WeightsRequest>(&request.bytes).unwrap();
        let WeightsRequest { session, run, version, piece, .. } = asked;
        self.asked.fetch_add(u64::from(version.is_none()), Ordering::Relaxed);
        request.reply.send(match run == self.run && session != UNKNOWN {
            true => self.store.lock().unwrap().reply(session, version, piece, Instant::now()),
            false => seal(&WeightsReply::Gone, &[]),
        });
    }
}

/// A learner, a relay and a host's way to it.
struct Chain {
    learners: MemoryNetwork,
    relay: Relay,
    link: Arc<dyn Link>,
}

impl Chain {
    fn new() -> Self {
        let (learners, hosts) = (MemoryNetwork::new(), MemoryNetwork::new());
        let relay = Relay::open(Box::new(hosts.listen()), Box::new(learners.dial("relay")), 8).unwrap();
        Self { learners, relay, link: hosts.dial("host").dial().unwrap() }
    }

    fn listen(&self, learner: &Arc<Learner>) -> Box<dyn Listening> {
        let limits = Limits { hosts: 1, request_bytes: REQUEST_BYTES };
        Box::new(self.learners.listen()).listen(Arc::clone(learner) as Arc<_>, limits).unwrap()
    }
}

/// What a host gets that knows of the version `at_least`.
fn pull(link: &dyn Link, run: u64, session: u64, at_least: u64) -> Result<Encoded, PullError> {
    let request = WeightsRequest { session, run, version: None, at_least, piece: 0 };
    pull::newest(&request, 1 << 20, |request| ask(link, Op::Weights, seal(request, &[]), LONG))
}

#[test]
fn each_version_is_fetched_once_for_all_hosts_and_arrives_as_it_was() {
    let chain = Chain::new();
    let (learner, mut publisher) = Learner::new(1);
    let _listening = chain.listen(&learner);
    for round in 1..=3 {
        let version = publisher.publish(params(round as f32));
        std::thread::scope(|scope| {
            for session in 100..110 {
                let link = &chain.link;
                scope.spawn(move || assert_eq!(pull(&**link, 1, session, version).unwrap().version, version));
            }
        });
        assert_eq!((learner.asked.load(Ordering::Relaxed), chain.relay.status().versions), (round, round));
    }
    let direct = chain.learners.dial("host").dial().unwrap();
    let (relayed, direct) = (pull(&*chain.link, 1, 1, 0).unwrap(), pull(&*direct, 1, 1, 0).unwrap());
    assert_eq!((relayed.bytes, relayed.piece_len), (direct.bytes, direct.piece_len));
    let RelayStatus { pieces, fetched_bytes, sent_bytes, failed, .. } = chain.relay.status();
    assert!(pieces == 31 * 4 && sent_bytes > 10 * fetched_bytes && failed == 0, "{:?}", chain.relay.status());
}

#[test]
fn a_host_that_knows_of_nothing_newer_gets_what_the_relay_has() {
    let chain = Chain::new();
    let (learner, mut publisher) = Learner::new(1);
    let listening = chain.listen(&learner);
    let first = pull(&*chain.link, 1, 1, 0).unwrap().version;
    publisher.publish(params(1.0));
    drop(listening);
    assert_eq!(pull(&*chain.link, 1, 2, first).unwrap().version, first);
}

#[test]
fn a_session_that_the_learner_does_not_know_is_gone_and_the_others_are_served() {
    let chain = Chain::new();
    let (learner, _publisher) = Learner::new(1);
    let _listening = chain.listen(&learner);
    std::thread::scope(|scope| {
        for session in [UNKNOWN, 1, UNKNOWN, 2] {
            let link = &chain.link;
            scope.spawn(move || match pull(&**link, 1, session, 0) {
                // It gets what is there already.
                Ok(encoded) => assert_eq!(encoded.version, 0),
                Err(error) => assert!(session == UNKNOWN && matches!(error, PullError::Gone), "{session}: {error}"),
            });
        }
    });
}

#[test]
fn weights_of_a_learner_that_was_resumed_take_the_place_of_those_before() {
    let chain = Chain::new();
    let (learner, mut publisher) = Learner::new(1);
    let listening = chain.listen(&learner);
    let old = publisher.publish(params(1.0));
    assert_eq!(pull(&*chain.link, 1, 1, old).unwrap().version, old);
    drop(listening);
    let (learner, _publisher) = Learner::new(2);
    let _listening = chain.listen(&learner);
    let new = pull(&*chain.link, 2, 1, 0).unwrap();
    assert_eq!(new.version, 0);
    // Those of the earlier process are there no more, and a host of it learns that from the learner.
    assert!(matches!(pull(&*chain.link, 1, 1, 0), Err(PullError::Gone)));
    assert_eq!(pull(&*chain.link, 2, 1, 0).unwrap().bytes, new.bytes);
}

#[test]
fn without_a_learner_hosts_are_told_at_once_and_served_again_when_it_is_back() {
    let chain = Chain::new();
    assert!(matches!(pull(&*chain.link, 1, 1, 0), Err(PullError::Ask(_))));
    assert_eq!(chain.relay.status().failed, 1);
    let (learner, _publisher) = Learner::new(1);
    let _listening = chain.listen(&learner);
    assert_eq!(pull(&*chain.link, 1, 1, 0).unwrap().version, 0);
}

#[test]
fn a_relay_of_a_relay_passes_weights_on() {
    let chain = Chain::new();
    let (learner, _publisher) = Learner::new(1);
    let _listening = chain.listen(&learner);
    let (between, hosts) = (MemoryNetwork::new(), MemoryNetwork::new());
    let near = Relay::open(Box::new(between.listen()), Box::new(chain.learners.dial("near")), 8).unwrap();
    let far = Relay::open(Box::new(hosts.listen()), Box::new(between.dial("far")), 8).unwrap();
    assert_eq!(pull(&*hosts.dial("host").dial().unwrap(), 1, 1, 0).unwrap().version, 0);
    assert_eq!((near.status().versions, far.status().versions), (1, 1));
}

#[test]
fn anything_but_requests_for_weights_is_dropped_at_once() {
    let chain = Chain::new();
    for (op, bytes) in [(Op::Join, Bytes::new()), (Op::Weights, Bytes::from_static(b"GET / HTTP/1.1"))] {
        assert!(matches!(chain.link.call(op, bytes, LONG), Err(crate::link::CallError::Lost(_))), "{op:?}");
    }
}

#[test]
fn a_link_on_which_nothing_is_answered_is_made_anew() {
    let (learners, hosts) = (MemoryNetwork::new(), MemoryNetwork::new());
    let (learner, _publisher) = Learner::new(1);
    let limits = Limits { hosts: 1, request_bytes: REQUEST_BYTES };
    let _listening = Box::new(learners.listen()).listen(learner, limits).unwrap();
    // The first link leads nowhere.
    let links = AtomicU64::new(0);
    let from = Way(move || match links.fetch_add(1, Ordering::Relaxed) {
        0 => Arc::new(Answering(|_| None)),
        _ => learners.dial("relay").dial().unwrap(),
    });
    let _relay = Relay::open(Box::new(hosts.listen()), Box::new(from), 8).unwrap();
    let link = hosts.dial("host").dial().unwrap();
    let pulled = [(); 3].map(|()| pull(&*link, 1, 1, 0).is_ok());
    assert_eq!(pulled, [false, false, true]);
}
