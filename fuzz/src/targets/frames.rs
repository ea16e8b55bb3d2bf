//! What hosts send to a learner: questions to join, fragments, reports, and requests for weights.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pronk::buffer::{
    ActionKind, ActionView, BatchShape, Gate, InqueueReceiver, MultiAgentBatch, Notifier, ObsKind, Pool, inqueue,
    mailbox, shutdown, weight_cell,
};
use pronk::hosts::{
    Bytes, Desk, Expected, ExpectedPolicy, HostEdges, Hosts, HostsConfig, Limits, LinkError, Listen, Listening, Op,
    Over, Reply, Request, Terms, Welcome,
};
use pronk::metrics::{StepLedger, TimeLedger};
use pronk::policy::ParamLayout;
use pronk::rollout::NormalizerConfig;
use pronk::{ByPolicy, Params, Space};

use super::wire::{RUN, Records, facts, framed, header_of, varint};
use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "frames",
    promise: "Messages of two hosts, each with the right checksum or without. A fragment that the learner takes has \
              the shape of the run, finite numbers and possible actions, and every step is counted once.",
    run,
};

/// No answer that must come takes as long.
const PATIENCE: Duration = Duration::from_secs(5);

/// `T`, `B`, `obs_len` and the number of actions.
const SHAPE: BatchShape = BatchShape {
    steps: 2,
    columns: 3,
    obs_len: 4,
    obs_kind: ObsKind::U8,
    act_len: 1,
    act_kind: ActionKind::U32,
    dist_len: 2,
    state_len: 1,
};

fn run(bytes: &[u8]) -> bool {
    let (guard, token) = shutdown();
    let (sender, fragments) = inqueue(64, Gate::Bounded, &token).unwrap_or_else(|error| panic!("{error}"));
    let layout = Arc::new(ParamLayout::new([("weight", vec![3])]));
    let (_publisher, weights) = weight_cell(ByPolicy::from([("default_policy".into(), Params::zeros(layout))]));
    let (reports, reported) = mailbox(NonZeroUsize::MIN, &Notifier::new());
    let (steps, time) = (StepLedger::new(), TimeLedger::new());
    let edges =
        HostEdges { fragments: sender, weights, reports, steps: steps.clone(), time: time.clone(), pool: Pool::new(2) };
    let desk = Arc::new(Mutex::new(None));
    let opened = Hosts::open(Box::new(Ear(Arc::clone(&desk))), config(), edges);
    let hosts = opened.unwrap_or_else(|error| panic!("no desk: {error}"));
    let desk = desk.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut learner =
        Learner { desk: desk.unwrap_or_else(|| panic!("it does not listen")), sessions: [0; 2], fragments };
    let trained: u64 = Records(bytes).map(|(kind, payload)| learner.takes(kind, payload)).sum();
    drop(learner.desk);
    drop(guard);
    hosts.end(Over::Finished, Duration::ZERO);

    let totals = steps.snapshot();
    assert!(totals.is_closed() && totals.in_flight.env == 0, "{totals:?}");
    assert_eq!(totals.trained_once.env, trained, "{totals:?}");
    assert!(time.is_closed(), "{:?}", time.read());
    for report in reported.drain() {
        assert!(report.return_sum.is_finite() && report.n_episodes < 1 << 60, "{report:?}");
    }
    trained > 0
}

fn config() -> HostsConfig {
    let (obs, action) = (Space::bytes(vec![4]), Space::discrete(2));
    let policy = obs.and_then(|obs| action.map(|action| (obs, action)));
    let policy = policy.map(|(obs, action)| ExpectedPolicy::new(SHAPE, &obs, action));
    let policy = policy.unwrap_or_else(|error| panic!("{error}")).unwrap_or_else(|error| panic!("{error}"));
    let normalizer = NormalizerConfig { observations: false, return_gamma: Some(0.5) };
    let expected = Expected::single(0, policy, normalizer).unwrap_or_else(|error| panic!("{error}"));
    HostsConfig {
        terms: Terms { max_hosts: 3, max_workers: 4, weights_piece: 1 << 10, ..Terms::default() },
        welcome: Welcome { run: RUN, life: 0, config: "settings".to_owned() },
        facts: facts(),
        expected,
        policies: ["default_policy".into()].into(),
        first_worker: 10,
    }
}

/// A listening end that hands its desk over.
struct Ear(Arc<Mutex<Option<Arc<dyn Desk>>>>);

impl Listen for Ear {
    fn listen(self: Box<Self>, desk: Arc<dyn Desk>, _: Limits) -> Result<Box<dyn Listening>, LinkError> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(desk);
        Ok(self)
    }
}

impl Listening for Ear {
    fn address(&self) -> String {
        "here".to_owned()
    }
}

/// The learner, as two hosts see it.
struct Learner {
    desk: Arc<dyn Desk>,
    /// Of each host.
    sessions: [u64; 2],
    fragments: InqueueReceiver<MultiAgentBatch>,
}

impl Learner {
    /// Sends a message; how many env-steps the learner gets to train on.
    fn takes(&mut self, kind: u8, payload: &[u8]) -> u64 {
        let host = usize::from(kind / 8 % 2);
        let session = varint(self.sessions[host]);
        match kind % 8 {
            0 => self.joins(host, payload),
            1 => drop(answer(self.asks(host, Op::Weights, &[&session[..], &varint(RUN), payload].concat(), &[]))),
            // It waits for news, of which there are none.
            2 => drop(self.asks(host, Op::Beat, &[&session[..], payload].concat(), &[])),
            3 => {
                let op = Op::ALL[usize::from(kind / 16 % 4)];
                let replied = self.sends(host, op, payload.to_owned());
                if op != Op::Beat {
                    drop(answer(replied));
                }
            }
            // The rest is a fragment: the first byte is the length of the header before it.
            _ => {
                let Some((&len, rest)) = payload.split_first() else { return 0 };
                let (header, frame) = rest.split_at(rest.len().min(len.into()));
                let checksum = varint(crc32c::crc32c(frame).into());
                drop(answer(self.asks(host, Op::Ship, &[&session[..], header, &checksum].concat(), frame)));
            }
        }
        self.trains()
    }

    fn joins(&mut self, host: usize, header: &[u8]) {
        let Some(reply) = answer(self.asks(host, Op::Join, header, &[])) else { return };
        let header = header_of(&reply).unwrap_or_else(|| panic!("a reply that is no message: {reply:?}"));
        // A door is open if it is the second of its kind; then comes the session.
        if let Ok(((1, session), _)) = postcard::take_from_bytes::<(u32, u64)>(header) {
            self.sessions[host] = session;
        }
    }

    fn asks(&self, host: usize, op: Op, header: &[u8], body: &[u8]) -> Receiver<Bytes> {
        self.sends(host, op, framed(header, body))
    }

    fn sends(&self, host: usize, op: Op, message: Vec<u8>) -> Receiver<Bytes> {
        let (reply, replied) = sync_channel(1);
        let reply = Reply::new(move |bytes| drop(reply.try_send(bytes)));
        let from = ["a", "b"][host].into();
        self.desk.accept(Request { op, from, bytes: message.into(), reply });
        replied
    }

    /// Trains on what has arrived.
    fn trains(&self) -> u64 {
        let trained = |mut batch: MultiAgentBatch| {
            check(&batch);
            let ticket = batch.take_ticket().unwrap_or_else(|| panic!("steps without a ticket"));
            assert_eq!(ticket.steps(), batch.steps());
            ticket.trained();
            batch.env_steps()
        };
        self.fragments.drain().map(trained).sum()
    }
}

/// The reply to a message that waits for nothing but the learner's threads; `None` if there is none.
fn answer(replied: Receiver<Bytes>) -> Option<Bytes> {
    match replied.recv_timeout(PATIENCE) {
        Ok(reply) => Some(reply),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("a message is neither answered nor refused"),
    }
}

/// Panics if a fragment is not one of the run.
fn check(batch: &MultiAgentBatch) {
    let mut n_tags = 0;
    for (policy, samples) in batch.policies() {
        assert_eq!(&**policy, "default_policy");
        let shape = samples.shape();
        assert_eq!(BatchShape { columns: SHAPE.columns, ..*shape }, SHAPE);
        assert!((1..=SHAPE.columns).contains(&shape.columns));
        assert!(samples.check_ends().is_ok() && samples.check_finite().is_ok(), "{samples:?}");
        assert!(matches!(samples.actions(), ActionView::U32(actions) if actions.iter().all(|&action| action < 2)));
        assert!(samples.versions().iter().all(|&version| version == 0), "{samples:?}");
        assert!(samples.tags().iter().all(|tag| tag.life == 0 && tag.worker >= 10 && tag.version == 0), "{samples:?}");
        n_tags += samples.tags().len();
    }
    assert_eq!(batch.env_steps(), batch.agent_steps());
    assert!(batch.moments().len() <= n_tags);
    for moments in batch.moments() {
        assert!(moments.observations.is_none() && moments.returns.as_ref().is_some_and(|returns| returns.is_of(1)));
    }
}
