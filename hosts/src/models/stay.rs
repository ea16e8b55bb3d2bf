use std::num::NonZeroUsize;
use std::time::Duration;

use pronk_buffer::{
    ActionKind, BatchShape, Gate, InqueueReceiver, InqueueSender, MultiAgentBatch, Notifier, ObsKind, Pool, PopError,
    SampleBatch, ShutdownGuard, Tag, WeightPublisher, inqueue, mailbox, shutdown, weight_cell, weight_cell_from,
};
use pronk_metrics::{ByPolicy, StepLedger, StepTotals, Steps, TimeLedger};
use pronk_model::rand::{Rng, thread_rng};
use pronk_model::thread::JoinHandle;
use pronk_model::time::FOREVER;
use pronk_model::{check, sometimes, thread};
use pronk_policy::{Params, Space};
use pronk_rollout::{NormalizerConfig, WorkerReport};

use super::{SCHEDULES, layout, params};
use crate::{
    Actor, ActorEdges, Entered, Expected, ExpectedPolicy, Facts, HostEdges, Hosts, HostsConfig, Layouts, Left, Member,
    MemoryNetwork, Over, Pixels, Terms, Toll, Welcome,
};

/// A lease in which messages can be late.
const SHORT: Duration = Duration::from_secs(8);
/// How long a host looks for a learner that may be gone.
const PATIENCE: Duration = Duration::from_secs(20);
pub(super) const HOST: &str = "host";

pub(super) fn shape() -> BatchShape {
    let (obs_kind, act_kind) = (ObsKind::F32, ActionKind::U32);
    BatchShape { steps: 1, columns: 1, obs_len: 1, obs_kind, act_len: 1, act_kind, dist_len: 2, state_len: 0 }
}

pub(super) const STEP: Steps = Steps { env: 1, agent: 1 };

/// A learner that hosts can join.
pub(super) struct Learner {
    pub(super) hosts: Hosts,
    pub(super) guard: ShutdownGuard,
    pub(super) fragments: InqueueReceiver<MultiAgentBatch>,
    pub(super) steps: StepLedger,
    /// The fragments that it has trained on, by their number at their host.
    trained: Vec<u64>,
    _publisher: WeightPublisher<ByPolicy<Params>>,
}

impl Learner {
    /// Its inqueue has room for so many fragments.
    pub(super) fn listen(network: &MemoryNetwork, lease: Duration, room: usize) -> Self {
        let obs = Space::boxed(vec![-1.0], vec![1.0], vec![1]).unwrap();
        let policy = ExpectedPolicy::new(shape(), &obs, Space::discrete(2).unwrap()).unwrap();
        let (guard, token) = shutdown();
        let (sender, fragments) = inqueue(room, Gate::Bounded, &token).unwrap();
        let (publisher, weights) = weight_cell(params(0.0));
        let (reports, _) = mailbox(NonZeroUsize::MIN, &Notifier::new());
        let (steps, time) = (StepLedger::new(), TimeLedger::new());
        let config = HostsConfig {
            terms: Terms { max_hosts: 1, lease, ..Terms::default() },
            welcome: Welcome::new(0, String::new()),
            facts: Facts::new(),
            expected: Expected::single(0, policy, NormalizerConfig::default()).unwrap(),
            policies: ["default_policy".into()].into(),
            first_worker: 0,
        };
        let edges = HostEdges { fragments: sender, weights, reports, steps: steps.clone(), time, pool: Pool::new(2) };
        let hosts = Hosts::open(Box::new(network.listen()), config, edges).unwrap();
        Self { hosts, guard, fragments, steps, trained: Vec::new(), _publisher: publisher }
    }

    /// Trains on the next fragment, if there is one in time.
    pub(super) fn train(&mut self, within: Duration) -> bool {
        match self.fragments.pop(within) {
            Ok(mut fragment) => {
                fragment.take_ticket().unwrap().trained();
                self.trained.push(fragment.policies().next().unwrap().1.tags()[0].slot);
                true
            }
            Err(PopError::TimedOut) => false,
            Err(PopError::Closed) => panic!("the inqueue is closed"),
        }
    }

    /// Ends the run. Every step that the host has stated is trained, dropped or lost, and no fragment was
    /// trained on twice.
    pub(super) fn end(self) -> (Vec<u64>, StepTotals) {
        self.end_within(Duration::from_millis(20))
    }

    /// As [`end`](Self::end), but waits for the last report of each host for so long.
    fn end_within(self, within: Duration) -> (Vec<u64>, StepTotals) {
        let Self { hosts, guard, fragments, steps, mut trained, .. } = self;
        drop(guard);
        hosts.end(Over::Finished, within);
        drop(fragments);
        trained.sort_unstable();
        assert!(trained.windows(2).all(|two| two[0] < two[1]), "{trained:?}");
        let totals = steps.snapshot();
        assert!(totals.is_closed() && totals.in_flight == Steps::default(), "{totals:?}");
        assert_eq!(totals.trained_once.env, trained.len() as u64);
        (trained, totals)
    }
}

/// A host that makes so many fragments with one worker, and ships them by two couriers; how it left, and its
/// steps, if it was let in.
fn act(network: &MemoryNetwork, n_fragments: u64, patience: Duration) -> JoinHandle<Option<(Left, StepTotals)>> {
    let dial = Box::new(network.dial(HOST));
    thread::spawn(move || {
        let (_kept, token) = shutdown();
        let mut actor = Actor::new(dial, 1, patience, token);
        let welcome = actor.hello().ok()?;
        let Entered::In(member) = actor.join(&welcome, Facts::new()).ok()? else { panic!("it changed") };
        stay(*member, n_fragments)
    })
}

fn stay(member: Member, n_fragments: u64) -> Option<(Left, StepTotals)> {
    let layouts = Layouts::from([("default_policy".into(), layout())]);
    let (weights, _cell) = weight_cell_from(member.first_weights(&layouts).ok()?);
    let (guard, token) = shutdown();
    let (sender, fragments) = inqueue(1, Gate::Bounded, &token).unwrap();
    let (_posting, reports) = mailbox(NonZeroUsize::MIN, &Notifier::new());
    let (steps, time, worker) = (StepLedger::new(), TimeLedger::new(), member.first_worker());
    let edges = ActorEdges { fragments, weights, layouts, steps: steps.clone(), time, pixels: Pixels::Raw, token };
    let mut stay = member.start(edges).unwrap();
    let working = thread::spawn({
        let steps = steps.clone();
        move || work(worker, n_fragments, &sender, &steps)
    });
    let left = stay.wait(&reports);
    drop(guard);
    working.join().unwrap();
    stay.leave(WorkerReport::default(), &left);
    Some((left, steps.snapshot()))
}

fn work(worker: u32, n_fragments: u64, sender: &InqueueSender<MultiAgentBatch>, steps: &StepLedger) {
    for slot in 0..n_fragments {
        let fragment = MultiAgentBatch::single(SampleBatch::blank(shape(), Tag { worker, slot, ..Tag::default() }));
        if sender.push(fragment.with_ticket(steps.sampled(STEP))).is_err() {
            break;
        }
    }
}

/// Over a network that carries everything, a host learns from the learner that the run is over, and leaves
/// with all of its steps in the books.
#[test]
fn a_host_learns_that_the_run_is_over() {
    check("a host, told of the end", SCHEDULES, || {
        let network = MemoryNetwork::new();
        let mut learner = Learner::listen(&network, FOREVER, 1);
        let acting = act(&network, u64::MAX, FOREVER);
        assert!(learner.train(FOREVER));
        let (_, run) = learner.end_within(FOREVER);
        let (left, host) = acting.join().unwrap().unwrap();
        assert_eq!((left, host.in_flight), (Left::Over(Over::Finished), Steps::default()));
        assert!(host.sampled.env >= run.sampled.env, "{host:?} {run:?}");
    });
}

/// Over a network that carries everything, every fragment of a host is trained on once, in the books of both
/// ends, and the host leaves when its workers have ended.
#[test]
fn every_fragment_is_trained_on_once() {
    check("a host", SCHEDULES, || {
        let network = MemoryNetwork::new();
        let mut learner = Learner::listen(&network, FOREVER, 1);
        let acting = act(&network, 3, FOREVER);
        while learner.trained.len() < 3 {
            learner.train(FOREVER);
        }
        let (left, host) = acting.join().unwrap().unwrap();
        assert_eq!((left, host.trained_once.env, host.sampled.env), (Left::NoWorkers, 3, 3));
        let (trained, run) = learner.end();
        assert_eq!((trained, run.sampled.env), (vec![0, 1, 2], 3));
    });
}

/// The run may end at any time: all threads of both ends end, and so do all steps.
#[test]
fn the_run_may_end_while_fragments_are_under_way() {
    check("a host, the end of the run", SCHEDULES, || {
        let network = MemoryNetwork::new();
        let mut learner = Learner::listen(&network, FOREVER, 1);
        let acting = act(&network, u64::MAX, PATIENCE);
        learner.train(SHORT);
        let (trained, run) = learner.end();
        let acted = acting.join().unwrap();
        sometimes("a host comes too late", acted.is_none());
        sometimes("a fragment is trained on", !trained.is_empty());
        sometimes("fragments are under way", run.sampled.env > trained.len() as u64);
        let is_told = acted.as_ref().is_some_and(|(left, _)| *left == Left::Over(Over::Finished));
        sometimes("a host is told of the end", is_told);
        if let Some((left, host)) = acted {
            // The learner may be gone before it has told the host.
            assert!(matches!(left, Left::Over(Over::Finished) | Left::Gone | Left::Silent), "{left:?}");
            assert!(host.sampled.env >= run.sampled.env, "{host:?} {run:?}");
            assert!(host.in_flight == Steps::default() || !matches!(left, Left::Over(_)), "{host:?}");
        }
    });
}

/// Requests and replies may be lost, late, damaged or doubled: no fragment is trained on twice, and what the
/// host counts as taken was.
#[test]
fn what_is_lost_or_doubled_on_the_way_is_taken_once() {
    let toll = Toll { seed: 0, lose_requests: 0.1, lose_replies: 0.2, repeat: 0.2, damage: 0.05, ..Toll::default() };
    check("a host, an unreliable network", SCHEDULES, move || {
        let seed = thread_rng().gen_range(0..u64::MAX);
        let network = MemoryNetwork::with_toll(Toll { seed, ..toll });
        let mut learner = Learner::listen(&network, SHORT, 1);
        let acting = act(&network, 3, PATIENCE);
        while !acting.is_finished() {
            learner.train(Duration::from_millis(100));
        }
        while learner.train(Duration::from_millis(100)) {}
        let acted = acting.join().unwrap();
        let (trained, run) = learner.end();
        sometimes("all fragments arrive", trained.len() == 3);
        sometimes("fragments are lost", !run.lost.is_empty());
        if let Some((_, host)) = acted {
            // The run may have ended with some in its inqueue.
            let arrived = trained.len() as u64 + run.dropped.values().map(|steps| steps.env).sum::<u64>();
            assert!(host.trained_once.env <= arrived, "{host:?} {run:?}");
        }
    });
}

/// A host that is cut off at any time ends by itself, and its session ends with all that had not arrived.
#[test]
fn a_host_that_is_cut_off_is_lost_with_what_it_had_under_way() {
    check("a host, cut off", SCHEDULES, || {
        let network = MemoryNetwork::new();
        let mut learner = Learner::listen(&network, SHORT, 1);
        let acting = act(&network, u64::MAX, PATIENCE);
        learner.train(SHORT);
        network.cut(HOST, true);
        while !acting.is_finished() || learner.hosts.n_hosts() > 0 {
            learner.train(Duration::from_millis(100));
        }
        let acted = acting.join().unwrap();
        sometimes("a host is cut off before it is let in", acted.is_none());
        sometimes("a host is cut off while it acts", acted.is_some());
        if let Some((left, _)) = acted {
            // Before it was cut off, a message may have been late.
            assert!(matches!(left, Left::Silent | Left::Gone), "{left:?}");
        }
        let (trained, run) = learner.end();
        sometimes("a fragment arrives before", !trained.is_empty());
        sometimes("fragments are lost", !run.lost.is_empty());
    });
}
