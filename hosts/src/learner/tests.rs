//! A desk that tests drive by hand: messages of hosts go in, replies come out, and the inlet runs when told.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pronk_buffer::{
    ActionKind, BatchShape, Gate, InqueueReceiver, InqueueSender, Mailbox, MultiAgentBatch, Notifier, ObsKind, Pool,
    SampleBatch, ShutdownGuard, Tag, WeightPublisher, inqueue, mailbox, shutdown, weight_cell,
};
use pronk_metrics::{ByPolicy, StateClock, StepLedger, Steps, TimeLedger};
use pronk_policy::{ParamLayout, Params, Space};
use pronk_rollout::{NormalizerConfig, WorkerReport};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::desk::{DeskRun, HostsDesk, WeightsAsked};
use super::inlet::{Inlet, InletState};
use super::session::Parcel;
use super::times::Times;
use crate::frame::{Encoder, Expected, ExpectedPolicy, Pixels};
use crate::link::{Desk, Op, Reply, Request};
use crate::sync::Instant;
use crate::sync::channel::{Receiver, TryRecvError, bounded};
use crate::terms::Terms;
use crate::wire::{Answer, Beat, Door, Facts, Hello, Join, Joined, Knock, Shipment, Statement, Welcome, open, seal};

mod beats;
mod doors;
mod hostile;
mod pulls;
mod shipments;

const T: usize = 2;
const B: usize = 3;
/// The steps of a fragment.
const FRAGMENT: u64 = (T * B) as u64;

fn steps(env: u64) -> Steps {
    Steps { env, agent: env }
}

fn terms() -> Terms {
    Terms { max_hosts: 3, max_workers: 4, weights_piece: 1 << 10, ..Terms::default() }
}

fn shape() -> BatchShape {
    BatchShape {
        steps: T,
        columns: B,
        obs_len: 4,
        obs_kind: ObsKind::F32,
        act_len: 1,
        act_kind: ActionKind::U32,
        dist_len: 2,
        state_len: 0,
    }
}

fn params(fill: f32) -> ByPolicy<Params> {
    let layout = Arc::new(ParamLayout::new([("weight", vec![20, 50])]));
    ByPolicy::from([("default_policy".into(), Params::new(layout, vec![fill; 1000]).unwrap())])
}

/// The learner's side without a thread.
struct Bench {
    desk: Arc<HostsDesk>,
    steps: StepLedger,
    time: TimeLedger,
    parcels: Receiver<Parcel>,
    asked: Receiver<WeightsAsked>,
    reports: Mailbox<WorkerReport>,
    publisher: WeightPublisher<ByPolicy<Params>>,
    sender: InqueueSender<MultiAgentBatch>,
    fragments: InqueueReceiver<MultiAgentBatch>,
    guard: Option<ShutdownGuard>,
}

impl Bench {
    fn new() -> Self {
        Self::with(terms(), 64)
    }

    fn with(terms: Terms, parked: usize) -> Self {
        let obs = Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4]).unwrap();
        let policy = ExpectedPolicy::new(shape(), &obs, Space::discrete(2).unwrap()).unwrap();
        let expected = Expected::single(0, policy, NormalizerConfig::default()).unwrap();
        let (steps, time) = (StepLedger::new(), TimeLedger::new());
        let (guard, token) = shutdown();
        let (sender, fragments) = inqueue(64, Gate::Bounded, &token).unwrap();
        let (publisher, cell) = weight_cell(params(0.0));
        let (posting, reports) = mailbox(NonZeroUsize::MIN, &Notifier::new());
        let ((to_inlet, parcels), (weights, asked)) = (bounded(parked), bounded(16));
        let run = DeskRun {
            terms,
            fragment: expected.most_steps(),
            expected: Arc::new(expected),
            policies: ["p".into()].into(),
            welcome: Welcome { run: 7, life: 0, config: "settings".into() },
            facts: Facts::from([("spaces".into(), "4 to 2".into())]),
            steps: steps.clone(),
            time: Times::new(time.clone()),
            version: cell.version_reader(),
            reports: posting,
            weights,
        };
        let desk = HostsDesk::new(run, 10, to_inlet);
        let guard = Some(guard);
        Self { desk: Arc::new(desk), steps, time, parcels, asked, reports, publisher, sender, fragments, guard }
    }

    fn send(&self, from: &str, op: Op, bytes: Bytes) -> Replied {
        let (reply, replied) = bounded(1);
        // A test may have thrown its end away.
        let reply = Reply::new(move |bytes| drop(reply.try_send(bytes)));
        self.desk.accept(Request { op, from: from.into(), bytes, reply });
        Replied(replied)
    }

    fn ask(&self, from: &str, op: Op, header: &impl Serialize) -> Replied {
        self.send(from, op, seal(header, &[]))
    }

    fn knock(&self, from: &str, knock: &Knock) -> Door {
        self.ask(from, Op::Join, knock).now().unwrap()
    }

    /// A host that has joined with two workers.
    fn host(&self, from: &str) -> Host<'_> {
        match self.knock(from, &Knock::Join(join())) {
            Door::Joined(joined) => Host { bench: self, from: from.to_owned(), joined, beats: 0 },
            door => panic!("{door:?}"),
        }
    }

    /// Has the inlet take all that is parked.
    fn inlet(&self) {
        let (to_inlet, parcels) = bounded(self.parcels.len() + 1);
        self.parcels.try_iter().for_each(|parcel| to_inlet.send(parcel).unwrap());
        drop(to_inlet);
        let clock = StateClock::new(Inlet::NAME, InletState::Waiting);
        let (desk, fragments) = (Arc::clone(&self.desk), self.sender.clone());
        let weights = self.publisher.cell();
        Inlet { desk, fragments, pool: Pool::new(2), weights, clock }.run(&parcels);
    }

    /// Trains on all fragments that have arrived; how many there were.
    fn train(&self) -> usize {
        let fragments = self.fragments.drain();
        fragments.map(|mut fragment| fragment.take_ticket().unwrap().trained()).count()
    }

    /// All steps have a place, and none is on its way.
    #[track_caller]
    fn assert_closed(&self) {
        self.train();
        self.desk.end_all();
        let totals = self.steps.snapshot();
        assert!(totals.is_closed() && totals.in_flight == steps(0), "{totals:?}");
        assert!(self.time.is_closed(), "{:?}", self.time.read());
    }

    fn lost(&self) -> u64 {
        self.steps.snapshot().lost.get("host_lost").map_or(0, |steps| steps.env)
    }

    fn sessions(&self) -> usize {
        self.desk.members().sessions.len()
    }
}

/// A reply that may come.
struct Replied(Receiver<Bytes>);

impl Replied {
    /// The reply, if there is one; a message that cannot be read is a defect.
    fn now<A: DeserializeOwned>(&self) -> Option<A> {
        self.0.try_recv().ok().map(|bytes| open(&bytes).unwrap().0)
    }

    fn waits(&self) -> bool {
        self.0.try_recv() == Err(TryRecvError::Empty)
    }

    /// There will be none: the link says so at once.
    fn is_dropped(&self) -> bool {
        self.0.try_recv() == Err(TryRecvError::Disconnected)
    }
}

fn hello() -> Hello {
    Hello { version: env!("CARGO_PKG_VERSION").into(), workers: 2 }
}

/// A way in; each call is another attempt.
fn join() -> Join {
    use std::hash::{BuildHasher, RandomState};
    let facts = Facts::from([("spaces".into(), "4 to 2".into())]);
    Join { hello: hello(), run: 7, facts, attempt: RandomState::new().hash_one(1), before: None }
}

fn frame(tag: Tag) -> Vec<u8> {
    let mut frame = Vec::new();
    let batch = MultiAgentBatch::single(SampleBatch::blank(shape(), tag));
    Encoder::default().encode(&batch, Pixels::Raw, &mut frame);
    frame
}

fn made(env: u64) -> Statement {
    Statement { sampled: steps(env), ..Statement::default() }
}

/// A host that has joined.
struct Host<'a> {
    bench: &'a Bench,
    from: String,
    joined: Joined,
    beats: u64,
}

impl Host<'_> {
    fn shipment(&self, courier: u32, number: u64, statement: Statement) -> (Shipment, Vec<u8>) {
        let frame = frame(Tag { worker: self.joined.first_worker, ..Tag::default() });
        let checksum = crc32c::crc32c(&frame);
        (Shipment { session: self.joined.session, courier, number, statement, checksum }, frame)
    }

    fn ship(&self, courier: u32, number: u64, made_so_far: u64) -> Replied {
        let (shipment, frame) = self.shipment(courier, number, made(made_so_far));
        self.bench.send(&self.from, Op::Ship, seal(&shipment, &frame))
    }

    fn next_beat(&mut self) -> Beat {
        self.beats += 1;
        Beat {
            session: self.joined.session,
            number: self.beats,
            statement: Statement::default(),
            report: WorkerReport::default(),
            gave_up: Vec::new(),
            times: Vec::new(),
            drains: false,
            leaves: None,
        }
    }

    fn beat(&self, beat: &Beat) -> Replied {
        self.bench.ask(&self.from, Op::Beat, beat)
    }

    fn leave(mut self, statement: Statement) -> Replied {
        let beat = Beat { statement, leaves: Some("it was told to end".into()), ..self.next_beat() };
        self.beat(&beat)
    }
}

#[track_caller]
fn assert_foreign(reply: &Replied, with: &str) {
    match reply.now() {
        Some(Answer::Foreign(reason)) if reason.contains(with) => {}
        other => panic!("{other:?}"),
    }
}
