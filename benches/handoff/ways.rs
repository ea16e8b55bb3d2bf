//! The ways from an actor's hands into the learner's.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pronk::buffer::{
    BatchShape, Gate, InqueueReceiver, InqueueSender, MultiAgentBatch, Notifier, Pool, ShutdownGuard, Tag, inqueue,
    mailbox, shutdown, weight_cell, weight_cell_from,
};
use pronk::hosts::{
    Actor, ActorEdges, Bytes, Desk, Dial, Entered, Facts, HostEdges, Hosts, HostsConfig, Layouts, Limits, Link, Listen,
    Listening, Op, Over, Pixels, Request, Terms, Welcome,
};
use pronk::metrics::{ByPolicy, StepLedger, TimeLedger};
use pronk::policy::{ParamLayout, Params};
use pronk::rollout::WorkerReport;

use super::Size;

/// Of a host of three workers.
pub(super) const CREDITS: u64 = 4;
const WORKERS: u32 = 3;
/// Places in the learner's inqueue.
const QUEUE: usize = 16;
/// Far more than anything takes here.
const LONG: Duration = Duration::from_secs(30);
/// So long all threads have nothing to do before a latency is measured.
const REST: Duration = Duration::from_micros(500);

/// One way.
pub(super) trait Way {
    /// How long fragments take, one after the other.
    fn latencies(&mut self, n: usize) -> Vec<Duration>;

    /// How many pass in a second, by so many of them.
    fn rate(&mut self, n: u64) -> f64;

    /// The time of the threads on the way, at full throughput.
    fn spent(&self) -> Option<Spent> {
        None
    }

    /// Forgets the time so far.
    fn forget(&mut self) {}
}

/// The seconds of all threads on the way of so many fragments.
#[derive(Clone, Copy, Default)]
pub(super) struct Spent {
    pub(super) fragments: u64,
    pub(super) packing: f64,
    pub(super) network: f64,
    pub(super) unpacking: f64,
}

/// A copy of the bytes.
pub(super) struct Copy {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Copy {
    pub(super) fn new(frame: &[u8]) -> Self {
        Self { from: frame.to_vec(), to: frame.to_vec() }
    }

    fn once(&mut self) {
        black_box(&mut self.to).copy_from_slice(black_box(&self.from));
    }
}

impl Way for Copy {
    fn latencies(&mut self, n: usize) -> Vec<Duration> {
        // So many at once that the clock does not count.
        let times = (1_000_000 / self.from.len()).max(1) as u32;
        let one = |_| {
            let began = Instant::now();
            (0..times).for_each(|_| self.once());
            began.elapsed() / times
        };
        (0..n).map(one).collect()
    }

    fn rate(&mut self, n: u64) -> f64 {
        let began = Instant::now();
        (0..n).for_each(|_| self.once());
        n as f64 / began.elapsed().as_secs_f64()
    }
}

/// The end of a worker, which has made its fragments long ago.
struct Worker {
    pool: Pool,
    shape: BatchShape,
    tag: Tag,
    steps: StepLedger,
    queue: InqueueSender<MultiAgentBatch>,
}

impl Worker {
    fn fragment(&self) -> MultiAgentBatch {
        let batch = MultiAgentBatch::single(self.pool.take(self.shape, self.tag));
        let ticket = self.steps.sampled(batch.steps());
        batch.with_ticket(ticket)
    }
}

/// From a worker's inqueue to the learner's, which is the same one within a process.
pub(super) struct Path {
    worker: Worker,
    learner: InqueueReceiver<MultiAgentBatch>,
    /// Ends the run.
    guard: Option<ShutdownGuard>,
    far: Option<Far>,
    spent: Spent,
}

/// Both sides of a host.
struct Far {
    hosts: Hosts,
    /// Of the learner.
    time: TimeLedger,
    host: JoinHandle<()>,
    host_time: TimeLedger,
}

impl Path {
    pub(super) fn in_process(size: &Size) -> Self {
        let (guard, token) = shutdown();
        let (queue, learner) = inqueue(QUEUE, Gate::Bounded, &token).unwrap();
        let pool = size.pool(QUEUE + 4);
        let worker = Worker { pool, shape: size.shape, tag: Tag::default(), steps: StepLedger::new(), queue };
        Self { worker, learner, guard: Some(guard), far: None, spent: Spent::default() }
    }

    pub(super) fn between<D: Dial + 'static>(
        size: &Size,
        listen: impl Listen + 'static,
        dial: impl FnOnce(&str) -> D,
    ) -> Self {
        let (guard, token) = shutdown();
        let (sender, learner) = inqueue(QUEUE, Gate::Bounded, &token).unwrap();
        let (_publisher, weights) = weight_cell(params());
        let (reports, _mail) = mailbox::<WorkerReport>(NonZeroUsize::MIN, &Notifier::new());
        let time = TimeLedger::new();
        let config = HostsConfig {
            terms: Terms::default(),
            welcome: Welcome::new(0, String::new()),
            facts: Facts::new(),
            expected: size.expected(),
            policies: ["default_policy".into()].into(),
            first_worker: 0,
        };
        let (steps, pool) = (StepLedger::new(), Pool::new(QUEUE + 4));
        let edges = HostEdges { fragments: sender, weights, reports, steps, time: time.clone(), pool };
        let hosts = Hosts::open(Box::new(listen), config, edges).unwrap();

        let host_time = TimeLedger::new();
        let (worker, host) = host(Box::new(dial(&hosts.address())), host_time.clone(), size);
        let far = Some(Far { hosts, time, host, host_time });
        Self { worker, learner, guard: Some(guard), far, spent: Spent::default() }
    }

    /// The time of all threads so far.
    fn now(&self) -> Spent {
        let Some(far) = &self.far else { return Spent::default() };
        let of = |ledger: &TimeLedger, thread: &str, state: &str| {
            let of_thread = ledger.read().into_iter().filter(|time| time.thread.starts_with(thread));
            of_thread.flat_map(|time| time.states).filter(|(name, _)| *name == state).map(|(_, secs)| secs).sum()
        };
        Spent {
            fragments: 0,
            packing: of(&far.host_time, "courier", "packing"),
            network: of(&far.host_time, "courier", "network"),
            unpacking: of(&far.time, "inlet", "unpacking"),
        }
    }
}

/// Takes a fragment as the learner, and says when it was there.
fn pop(learner: &InqueueReceiver<MultiAgentBatch>) -> Instant {
    let mut fragment = learner.pop(LONG).unwrap();
    let now = Instant::now();
    fragment.take_ticket().unwrap().trained();
    now
}

/// Joins, and stays until the run is over.
fn host(dial: Box<dyn Dial>, time: TimeLedger, size: &Size) -> (Worker, JoinHandle<()>) {
    let (guard, token) = shutdown();
    let (_host_guard, host_token) = shutdown();
    let mut actor = Actor::new(dial, WORKERS, LONG, host_token);
    let welcome = actor.hello().unwrap();
    let Entered::In(member) = actor.join(&welcome, Facts::new()).unwrap() else { panic!("the learner was resumed") };
    let layouts = Layouts::from([("default_policy".into(), layout())]);
    let (weights, _cell) = weight_cell_from(member.first_weights(&layouts).unwrap());
    let (queue, fragments) = inqueue(1, Gate::Bounded, &token).unwrap();
    let steps = StepLedger::new();
    let tag = Tag { worker: member.first_worker(), ..Tag::default() };
    let edges = ActorEdges { fragments, weights, layouts, steps: steps.clone(), time, pixels: Pixels::Raw, token };
    let mut stay = member.start(edges).unwrap();
    let worker = Worker { pool: size.pool(CREDITS as usize + 4), shape: size.shape, tag, steps: steps.clone(), queue };
    let body = move || {
        // The link of the actor and the token of the host live as long as the stay.
        let _kept = (actor, _host_guard);
        let (_posting, reports) = mailbox(NonZeroUsize::MIN, &Notifier::new());
        let left = stay.wait(&reports);
        drop(guard);
        steps.shut_down();
        stay.leave(WorkerReport::default(), &left);
    };
    (worker, thread::Builder::new().name("host".to_owned()).spawn(body).unwrap())
}

fn layout() -> Arc<ParamLayout> {
    Arc::new(ParamLayout::new([("weight", vec![100])]))
}

fn params() -> ByPolicy<Params> {
    ByPolicy::from([("default_policy".into(), Params::new(layout(), vec![0.0; 100]).unwrap())])
}

impl Way for Path {
    fn latencies(&mut self, n: usize) -> Vec<Duration> {
        let (worker, learner) = (&self.worker, &self.learner);
        let (next, wanted) = channel();
        let (pushes, pushed) = channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                while wanted.recv().is_ok() {
                    thread::park_timeout(REST);
                    let fragment = worker.fragment();
                    let began = Instant::now();
                    worker.queue.push(fragment).unwrap();
                    pushes.send(began).unwrap();
                }
            });
            // In here, so that the thread ends with the last.
            let next = next;
            let one = |_| {
                next.send(()).unwrap();
                let popped = pop(learner);
                popped - pushed.recv_timeout(LONG).unwrap()
            };
            (0..n).map(one).collect()
        })
    }

    fn rate(&mut self, n: u64) -> f64 {
        let (before, worker) = (self.now(), &self.worker);
        let began = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..n {
                    worker.queue.push(worker.fragment()).unwrap();
                }
            });
            for _ in 0..n {
                pop(&self.learner);
            }
        });
        let rate = n as f64 / began.elapsed().as_secs_f64();
        let now = self.now();
        self.spent.fragments += n;
        self.spent.packing += now.packing - before.packing;
        self.spent.network += now.network - before.network;
        self.spent.unpacking += now.unpacking - before.unpacking;
        rate
    }

    fn spent(&self) -> Option<Spent> {
        self.far.is_some().then_some(self.spent)
    }

    fn forget(&mut self) {
        self.spent = Spent::default();
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.guard = None;
        if let Some(Far { hosts, host, .. }) = self.far.take() {
            hosts.end(Over::Finished, LONG);
            host.join().unwrap();
        }
    }
}

/// Requests and replies without pronk's threads.
pub(super) struct Engine {
    link: Arc<dyn Link>,
    frame: Bytes,
    arrived: Receiver<Instant>,
    /// Keeps the learner's end open. After the link, so that it closes last.
    _listening: Box<dyn Listening>,
}

/// Replies at once, with as much as an acknowledgement has.
struct AtOnce(Sender<Instant>);

impl Desk for AtOnce {
    fn accept(&self, request: Request) {
        let _ = self.0.send(Instant::now());
        request.reply.send(Bytes::from_static(&[0; 40]));
    }
}

impl Engine {
    pub(super) fn new<D: Dial>(frame: Vec<u8>, listen: impl Listen, dial: impl FnOnce(&str) -> D) -> Self {
        let (arrives, arrived) = channel();
        let listening =
            Box::new(listen).listen(Arc::new(AtOnce(arrives)), Limits { hosts: 4, request_bytes: 64 << 20 }).unwrap();
        let link = dial(&listening.address()).dial().unwrap();
        let began = Instant::now();
        // Both ends have to hear of each other first.
        while let Err(error) = link.call(Op::Join, Bytes::new(), Duration::from_secs(2)) {
            assert!(began.elapsed() < LONG, "{error}");
            thread::park_timeout(Duration::from_millis(20));
        }
        Self { link, frame: frame.into(), arrived, _listening: listening }
    }

    fn drain(&self) {
        while self.arrived.try_recv().is_ok() {}
    }
}

impl Way for Engine {
    fn latencies(&mut self, n: usize) -> Vec<Duration> {
        self.drain();
        let one = |_| {
            thread::park_timeout(REST);
            let began = Instant::now();
            self.link.call(Op::Ship, self.frame.clone(), LONG).unwrap();
            self.arrived.recv_timeout(LONG).unwrap() - began
        };
        (0..n).map(one).collect()
    }

    fn rate(&mut self, n: u64) -> f64 {
        let (each, link, frame) = (n.div_ceil(CREDITS), &*self.link, &self.frame);
        let began = Instant::now();
        thread::scope(|scope| {
            for _ in 0..CREDITS {
                scope.spawn(move || (0..each).for_each(|_| drop(link.call(Op::Ship, frame.clone(), LONG).unwrap())));
            }
        });
        let rate = (each * CREDITS) as f64 / began.elapsed().as_secs_f64();
        self.drain();
        rate
    }
}
