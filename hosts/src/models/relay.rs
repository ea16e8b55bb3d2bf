use std::collections::BTreeSet;

use pronk_buffer::{WeightPublisher, weight_cell};
use pronk_metrics::ByPolicy;
use pronk_model::time::FOREVER;
use pronk_model::{check, sometimes, thread};
use pronk_policy::Params;

use super::{SCHEDULES, params};
use crate::ask::ask;
use crate::learner::Store;
use crate::link::{Desk, Dial, Limits, Listen, Listening, Op, Request};
use crate::memory::MemoryNetwork;
use crate::pull::{self, PullError};
use crate::relay::Relay;
use crate::sync::{Arc, Instant, Mutex};
use crate::wire::{WeightsReply, WeightsRequest, open, seal};

/// A session that the learner does not know.
const UNKNOWN: u64 = 13;
const LIMITS: Limits = Limits { hosts: 3, request_bytes: 1 << 12 };

/// A learner that has weights only.
struct Learner {
    store: Mutex<Store>,
    /// The sessions that have asked.
    asked: Mutex<Vec<u64>>,
}

impl Desk for Learner {
    fn accept(&self, request: Request) {
        let (WeightsRequest { session, version, piece, .. }, _) = open(&request.bytes).unwrap();
        self.asked.lock().unwrap().push(session);
        request.reply.send(match session {
            UNKNOWN => seal(&WeightsReply::Gone, &[]),
            _ => self.store.lock().unwrap().reply(session, version, piece, Instant::now()),
        });
    }
}

/// A learner, a relay, and the network of its hosts.
struct Chain {
    learner: Arc<Learner>,
    publisher: WeightPublisher<ByPolicy<Params>>,
    listening: Box<dyn Listening>,
    relay: Relay,
    hosts: MemoryNetwork,
}

fn chain() -> Chain {
    let (learners, hosts) = (MemoryNetwork::new(), MemoryNetwork::new());
    let (publisher, cell) = weight_cell(params(0.0));
    let learner = Arc::new(Learner { store: Mutex::new(Store::new(cell, 1 << 10)), asked: Mutex::default() });
    let listening = Box::new(learners.listen()).listen(Arc::clone(&learner) as Arc<_>, LIMITS).unwrap();
    let relay = Relay::open(Box::new(hosts.listen()), Box::new(learners.dial("relay")), LIMITS.hosts).unwrap();
    Chain { learner, publisher, listening, relay, hosts }
}

/// Hosts of these sessions ask for version `at_least`; what each gets.
fn ask_all<const N: usize>(
    hosts: &MemoryNetwork,
    sessions: [u64; N],
    at_least: u64,
) -> [thread::JoinHandle<Result<u64, PullError>>; N] {
    sessions.map(|session| {
        let link = hosts.dial("host").dial().unwrap();
        thread::spawn(move || {
            let request = WeightsRequest { session, run: 1, version: None, at_least, piece: 0 };
            let ask = |request: &WeightsRequest| ask(&*link, Op::Weights, seal(request, &[]), FOREVER);
            pull::newest(&request, 1 << 20, ask).map(|encoded| encoded.version)
        })
    })
}

/// Every question of a host has an answer, as new as it asked for, or none at once if the learner gave none;
/// and the learner is asked once for each version.
#[test]
fn a_version_is_fetched_once_for_all_hosts() {
    check("relay", SCHEDULES, || {
        let mut chain = chain();
        let first = ask_all(&chain.hosts, [1], 0).map(|host| host.join().unwrap());
        assert!(matches!(first, [Ok(0) | Err(PullError::Ask(_))]), "{first:?}");
        let version = chain.publisher.publish(params(1.0));
        let asking = ask_all(&chain.hosts, [1, 2, 3], version);
        let got = asking.map(|host| host.join().unwrap());
        let failed = got.iter().filter(|got| got.is_err()).count();
        assert!(got.iter().flatten().all(|got| *got == version), "{got:?}");
        let status = chain.relay.status();
        assert!(failed == 0 || status.failed > 0, "{got:?}");
        assert!(status.versions <= 2 + status.failed);
        assert!(chain.learner.asked.lock().unwrap().len() as u64 <= 2 + 2 * status.failed);
        sometimes("one fetch is for all", failed == 0 && status.versions == 2);
    });
}

/// Without a learner every host is told at once that there are no weights.
#[test]
fn hosts_of_a_relay_without_a_learner_are_told_so() {
    check("relay, no learner", SCHEDULES, || {
        let Chain { listening, relay, hosts, .. } = chain();
        drop(listening);
        let got = ask_all(&hosts, [1, 2], 0).map(|host| host.join().unwrap());
        assert!(got.iter().all(|got| matches!(got, Err(PullError::Ask(_)))), "{got:?}");
        assert!(relay.status().failed > 0);
    });
}

/// A session that the learner does not know is told so, and takes no other with it.
#[test]
fn a_session_that_is_gone_takes_no_other_with_it() {
    check("relay, a session is gone", SCHEDULES, || {
        let chain = chain();
        let sessions = [UNKNOWN, 1, 2];
        let got = ask_all(&chain.hosts, sessions, 0).map(|host| host.join().unwrap());
        let gone: BTreeSet<_> = sessions
            .into_iter()
            .zip(&got)
            .filter_map(|(session, got)| matches!(got, Err(PullError::Gone)).then_some(session))
            .collect();
        assert!(gone.iter().all(|session| *session == UNKNOWN), "{got:?}");
        sometimes(
            "a session is gone and the others get the weights",
            gone.len() == 1 && got[1..].iter().all(Result::is_ok),
        );
    });
}

/// A relay that is dropped leaves no question without an answer or the word that there is none.
#[test]
fn a_relay_may_be_dropped_while_hosts_ask() {
    check("relay, dropped", SCHEDULES, || {
        let chain = chain();
        let asking = ask_all(&chain.hosts, [1, 2], 0);
        drop(chain.relay);
        for host in asking {
            let got = host.join().unwrap();
            sometimes("an answer before the end", got.is_ok());
            sometimes("no answer any more", got.is_err());
            assert!(matches!(got, Ok(0) | Err(PullError::Ask(_))), "{got:?}");
        }
    });
}
