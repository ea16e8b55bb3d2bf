#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use pronk_buffer::{
    End, Gate, InqueueReceiver, MultiAgentBatch, Notifier, PopError, ShutdownGuard, Tag, WeightPublisher, WorkerEnds,
    inqueue, weight_cell,
};
use pronk_metrics::{ByPolicy, StepLedger, TimeLedger};
use pronk_policy::{CpuNetwork, Helper, Helpers, Input, Network, NetworkSpec, ObsRef, Outputs, Params, Space};

use super::*;
use crate::env::{EnvContext, EnvError};
use crate::pool::EnvFactory;
use crate::testing::{
    Counter, Fault, Hooked, LONG, Moment, NO_PAUSE, OneWeight, links, make_workers, of_default, params, until,
};
use crate::worker::WorkerLinks;

/// The rest of a run, without the workers.
struct Run {
    shutdown: Option<ShutdownGuard>,
    publisher: WeightPublisher<ByPolicy<Params>>,
    fragments: InqueueReceiver<MultiAgentBatch>,
    steps: StepLedger,
    time: TimeLedger,
    notifier: Notifier,
}

fn set_config(restart: RestartPolicy) -> WorkerSetConfig {
    WorkerSetConfig { restart, env_hang_timeout: None, first_worker: 1 }
}

fn start_with(
    workers: usize,
    config: WorkerSetConfig,
    make: impl FnOnce(&WorkerLinks) -> Arc<MakeWorker>,
) -> (Result<WorkerSet, StartError>, Run) {
    start_helping(workers, config, None, make)
}

fn start_helping(
    workers: usize,
    config: WorkerSetConfig,
    helper: Option<Helper>,
    make: impl FnOnce(&WorkerLinks) -> Arc<MakeWorker>,
) -> (Result<WorkerSet, StartError>, Run) {
    let (links, steps, shutdown) = links();
    let (sender, fragments) = inqueue(2, Gate::Bounded, &links.token).unwrap();
    let (publisher, weights) = weight_cell(of_default(params(0.0)));
    let (notifier, time) = (Notifier::new(), TimeLedger::new());
    let ends = vec![WorkerEnds::free(weights, sender); workers];
    let edges = WorkerEdges {
        ends,
        notifier: notifier.clone(),
        time: time.clone(),
        steps: steps.clone(),
        helper,
        resumed: ResumedSeats::default(),
    };
    let run = Run { shutdown: Some(shutdown), publisher, fragments, steps, time, notifier };
    (WorkerSet::start(config, make(&links), links.token, edges), run)
}

fn start(workers: usize, config: WorkerSetConfig, factory: impl EnvFactory + 'static) -> (WorkerSet, Run) {
    let (set, run) = start_with(workers, config, |links| make_workers(factory, 0, links));
    (set.unwrap(), run)
}

impl Run {
    fn in_state(&self, thread: &str, state: &str) -> bool {
        self.time.read().iter().any(|time| time.thread == thread && time.current == Some(state))
    }

    /// Ends the run and checks that every thread ends and both ledgers close.
    fn end(mut self, set: WorkerSet) -> JoinOutcome {
        self.shutdown = None;
        let outcome = set.join(LONG / 2);
        assert_eq!(outcome.not_joined, Vec::<String>::new());
        for mut fragment in self.fragments.drain() {
            fragment.take_ticket().unwrap().dropped("unread");
        }
        self.check_ledgers();
        assert_eq!(self.steps.snapshot().in_flight.env, 0);
        assert!(self.time.read().iter().all(|time| time.current.is_none()), "no thread's clock still runs");
        outcome
    }

    /// The next fragment, counted as trained.
    fn train(&self) -> MultiAgentBatch {
        let mut fragment = self.fragments.pop(LONG).unwrap();
        fragment.take_ticket().unwrap().trained();
        fragment
    }

    fn check_ledgers(&self) {
        assert!(self.steps.snapshot().is_closed(), "{:?}", self.steps.snapshot());
        assert!(self.time.is_closed(), "{:?}", self.time.read());
    }
}

fn tag(fragment: &MultiAgentBatch) -> Tag {
    fragment.get("default_policy").unwrap().tags()[0]
}

#[test]
fn prepared_workers_sample_nothing_before_they_begin_and_end_without_beginning() {
    let (links, steps, shutdown) = links();
    let (sender, fragments) = inqueue(2, Gate::Bounded, &links.token).unwrap();
    let (_, weights) = weight_cell(of_default(params(0.0)));
    let prepare = || {
        let (notifier, time, steps) = (Notifier::new(), TimeLedger::new(), steps.clone());
        let ends = vec![WorkerEnds::free(weights.clone(), sender.clone()); 2];
        let edges = WorkerEdges { ends, notifier, time, steps, helper: None, resumed: ResumedSeats::default() };
        let make = make_workers(|_: &EnvContext| Counter::of_three(), 0, &links);
        WorkerSet::prepare(set_config(NO_PAUSE), make, links.token.clone(), edges).unwrap()
    };
    let mut set = prepare();
    assert_eq!(fragments.pop(Duration::from_millis(20)).map(drop), Err(PopError::TimedOut));
    assert_eq!((set.n_running(), steps.snapshot().sampled.env), (2, 0));
    set.begin();
    fragments.pop(LONG).unwrap().take_ticket().unwrap().trained();
    let unbegun = prepare();
    drop(shutdown);
    for set in [set, unbegun] {
        assert_eq!(set.join(LONG).not_joined, Vec::<String>::new());
    }
}

#[test]
fn workers_end_at_the_limit_of_the_ledger_with_the_fragment_they_were_making() {
    let (set, run) = start(2, set_config(NO_PAUSE), |_: &EnvContext| Counter::of_three());
    run.steps.limit_env_steps(20);
    while let Ok(mut fragment) = run.fragments.pop(LONG) {
        fragment.take_ticket().unwrap().trained();
    }
    until("the end of the workers", || set.n_running() == 0);
    let totals = run.steps.snapshot();
    assert!(totals.sampled.env >= 20 && totals.sampled == totals.trained_once, "{totals:?}");
    run.end(set);
}

#[test]
fn fragments_of_all_workers_arrive_and_the_threads_are_in_the_ledger() {
    let (set, run) = start(3, set_config(NO_PAUSE), |_: &EnvContext| Counter::of_three());
    let mut seen = [0; 3];
    while seen.contains(&0) {
        let mut fragment = run.fragments.pop(LONG).unwrap();
        seen[tag(&fragment).worker as usize - 1] += 1;
        fragment.take_ticket().unwrap().trained();
        run.check_ledgers();
    }
    assert_eq!(set.n_running(), 3);
    assert!(run.notifier.wait(LONG), "reports notify");
    let mut names: Vec<_> = run.time.read().into_iter().map(|time| time.thread).collect();
    names.sort();
    assert_eq!(names, ["rollout-1", "rollout-2", "rollout-3", "supervisor"]);
    let outcome = run.end(set);
    assert!(outcome.failure.is_none());
    assert!(outcome.unread.iter().map(|report| report.fragments).sum::<u64>() > 0, "no report is lost");
}

#[test]
fn fragments_of_a_worker_do_not_depend_on_other_workers() {
    let first_fragments = |num_rollout_workers| {
        let (set, run) = start(num_rollout_workers, set_config(NO_PAUSE), |_: &EnvContext| Counter::of_three());
        let mut rows = Vec::new();
        while rows.len() < 3 {
            let fragment = run.fragments.pop(LONG).unwrap();
            let batch = fragment.get("default_policy").unwrap();
            if batch.tags()[0].worker == 1 {
                rows.push((batch.tags()[0], batch.obs().as_f32().unwrap().to_vec(), batch.behaviour_logp().to_vec()));
            }
        }
        run.end(set);
        rows
    };
    assert_eq!(first_fragments(1), first_fragments(3));
}

#[test]
fn either_all_workers_start_or_none() {
    let resets = Arc::new(AtomicU32::new(0));
    let failing = |how: &'static str| {
        let resets = Arc::clone(&resets);
        move |context: &EnvContext| match (context.worker, context.index, how) {
            (3, 1, "error") => Err(EnvError::new("no licence")),
            (3, 1, "panic") => panic!("no display"),
            _ => {
                let resets = Arc::clone(&resets);
                Ok(Hooked::before(move |moment| {
                    resets.fetch_add(u32::from(moment == Moment::Reset), Ordering::SeqCst);
                }))
            }
        }
    };
    for (how, words) in [
        ("error", "environment 1 of rollout-3 (Counter, incarnation 0) failed while it was made: no licence"),
        (
            "panic",
            "environment 1 of rollout-3 (Counter, incarnation 0) failed while it was made: it panicked: no display",
        ),
    ] {
        let (set, run) = start_with(4, set_config(NO_PAUSE), |links| make_workers(failing(how), 0, links));
        let Err(error) = set else { panic!("{how}: the set started") };
        assert_eq!(error.to_string(), format!("rollout-3 could not be made, so no worker was started: {words}"));
        assert!(run.time.read().is_empty(), "no thread ran");
        assert_eq!(run.fragments.pop(LONG).unwrap_err(), PopError::Closed, "the inqueue is dropped");
    }
    assert_eq!(resets.load(Ordering::SeqCst), 0, "no environment was reset");
}

#[test]
fn workers_are_made_side_by_side_and_come_in_order() {
    let (links, steps, _shutdown) = links();
    let (make, begun) = (make_workers(|_: &EnvContext| Counter::of_three(), 0, &links), AtomicU32::new(0));
    let make: Arc<MakeWorker> = Arc::new(move |seat: &WorkerSeat| {
        begun.fetch_add(1, Ordering::SeqCst);
        until("the others", || begun.load(Ordering::SeqCst) == 3);
        make(seat)
    });
    let (reports, _unread) = mailbox(MAILBOX_CAPACITY, &Notifier::new());
    let budget = RestartBudget::resumed(NO_PAUSE, &ResumedSeats::default().restarts);
    let shared =
        Shared { make, budget, steps, token: links.token, reports, failures: FailureLog::default(), helper: None };
    let seats = (1..4).map(|worker| WorkerSeat::first(worker, CallMonitor::new()));
    let threads: Vec<_> =
        start_together(&shared, seats).unwrap().into_iter().map(|worker| worker.thread.clone()).collect();
    assert_eq!(threads, ["rollout-1", "rollout-2", "rollout-3"]);
}

#[test]
fn a_worker_whose_making_panics_is_named() {
    let (set, _run) = start_with(2, set_config(NO_PAUSE), |links| {
        let make = make_workers(|_: &EnvContext| Counter::of_three(), 0, links);
        Arc::new(move |seat: &WorkerSeat| match seat.worker {
            2 => panic!("no device"),
            _ => make(seat),
        })
    });
    let Err(error) = set else { panic!("the set started") };
    assert_eq!(
        error.to_string(),
        "rollout-2 could not be made, so no worker was started: the making of the worker panicked: no device"
    );
}

#[test]
fn workers_with_other_spaces_do_not_start() {
    let factory = |context: &EnvContext| {
        let highest = if context.worker == 5 { 7.0 } else { 5.0 };
        let observation = Space::boxed(vec![0.0; 3], vec![highest; 3], vec![3]).unwrap();
        Hooked::with_spec(|spec| spec.observation = observation)
    };
    // As on a host whose first worker is the fourth of the run.
    let config = WorkerSetConfig { first_worker: 4, ..set_config(NO_PAUSE) };
    let (set, _run) = start_with(2, config, |links| make_workers(factory, 0, links));
    let Err(error) = set else { panic!("the set started") };
    let text = error.to_string();
    assert!(
        text.contains("rollout-4 has Counter (observations Box(0..=5") && text.contains("rollout-5 has Counter"),
        "{text}"
    );
}

#[test]
fn a_worker_blocked_on_a_full_inqueue_ends_with_the_run() {
    for _ in 0..20 {
        let (set, run) = start(2, set_config(NO_PAUSE), |_: &EnvContext| Counter::of_three());
        // Four fragments made and two of them queued: the other two are in hand and stay there.
        until("the block", || {
            let made = run.steps.snapshot().in_flight.env == 4 * 8;
            let blocked = |thread| run.in_state(thread, "blocked");
            made && run.fragments.len() == 2 && blocked("rollout-1") && blocked("rollout-2")
        });
        let totals = run.steps.clone();
        let outcome = run.end(set);
        assert!(outcome.failure.is_none());
        assert_eq!(totals.snapshot().dropped["shutdown"].env, 16, "the two fragments in hand");
    }
}

#[test]
fn a_blocked_worker_helps_the_learner_and_still_ends_with_the_run() {
    let helpers = Helpers::new(1, 0).unwrap();
    let observation = Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4]).unwrap();
    let spec = NetworkSpec::for_spaces(&observation, &Space::discrete(2).unwrap()).unwrap();
    let (mut network, params) =
        (CpuNetwork::with_helpers(&spec, helpers.clone()).unwrap(), spec.init_params(0).unwrap());
    let make = |links: &WorkerLinks| make_workers(|_: &EnvContext| Counter::of_three(), 0, links);
    let (set, run) = start_helping(1, set_config(NO_PAUSE), helpers.helper(), make);
    let set = set.unwrap();
    until("the block", || run.in_state("rollout-1", "blocked"));

    let (obs, rows) = (vec![0.1; 4 * 4096], 4096);
    let (mut alone, mut together) = (Outputs::default(), Outputs::default());
    let input = Input::new(ObsRef::F32(&obs), rows);
    CpuNetwork::new(&spec).unwrap().forward_for_learning(&params, &input, &mut alone).unwrap();
    let helped = || {
        let times = run.time.read();
        let worker = times.iter().find(|time| time.thread == "rollout-1").unwrap();
        worker.states.iter().any(|(state, time)| *state == "helping" && *time > 0.0)
    };
    until("its help", || {
        network.forward_for_learning(&params, &input, &mut together).unwrap();
        helped()
    });
    assert_eq!((alone.logits, alone.values), (together.logits, together.values), "whoever computes");
    let outcome = run.end(set);
    assert!(outcome.failure.is_none());
}

#[test]
fn a_worker_ends_when_the_receiver_of_the_inqueue_is_dropped() {
    let (set, run) = start(2, set_config(NO_PAUSE), |_: &EnvContext| Counter::of_three());
    let Run { shutdown, fragments, steps, time, .. } = run;
    drop(fragments);
    let outcome = set.join(LONG);
    assert!(outcome.failure.is_none() && outcome.not_joined.is_empty());
    assert!(steps.snapshot().is_closed() && time.is_closed());
    drop(shutdown);
}

#[test]
fn a_worker_that_backs_off_ends_with_the_run() {
    let slow = RestartPolicy { first_backoff: LONG, max_backoff: LONG, ..NO_PAUSE };
    for _ in 0..20 {
        let (set, run) = start(2, set_config(slow), |_: &EnvContext| Counter::of_three().with_fault(Fault::StepErr(1)));
        until("the pause", || run.in_state("rollout-1", "restarting") && run.in_state("rollout-2", "restarting"));
        let outcome = run.end(set);
        assert!(outcome.failure.is_none(), "pausing is not giving up");
        assert_eq!(outcome.unread.iter().map(|report| report.n_failures).sum::<u64>(), 2);
    }
}

#[test]
fn a_worker_that_gives_up_reports_it_notifies_and_closes_the_inqueue() {
    let (set, run) =
        start(1, set_config(NO_PAUSE), |_: &EnvContext| Counter::of_three().with_fault(Fault::StepPanic(2)));
    assert_eq!(run.fragments.pop(LONG).unwrap_err(), PopError::Closed);
    assert!(run.notifier.wait(LONG));
    let reports = set.reports().drain();
    let ended: Vec<_> = reports.iter().flat_map(|report| &report.ended).collect();
    assert_eq!(ended.len(), 1);
    assert!(ended[0].to_string().contains("rollout-1 gave up after 4 failures"), "{}", ended[0]);
    until("the end of the thread", || set.n_running() == 0);
    // The supervisor can report until it ends, shortly after the last worker.
    until("the end of the reports", || set.reports().is_closed());

    let outcome = run.end(set);
    let failure = outcome.failure.expect("the failure is a value");
    assert_eq!((failure.thread.as_str(), failure.consecutive_failures), ("rollout-1", 4));
}

#[test]
fn the_other_workers_continue_when_one_gives_up() {
    let factory = |context: &EnvContext| {
        Counter::of_three().with_fault(if context.worker == 2 { Fault::StepErr(1) } else { Fault::Nothing })
    };
    let (set, run) = start(3, set_config(NO_PAUSE), factory);
    while set.n_running() == 3 {
        run.train();
    }
    for _ in 0..20 {
        run.train();
    }
    let outcome = run.end(set);
    assert_eq!(outcome.failure.expect("one gave up").thread, "rollout-2");
}

#[test]
fn a_panic_outside_the_environments_is_a_failure_with_the_threads_name() {
    let (set, mut run) = start(1, set_config(NO_PAUSE), |_: &EnvContext| Counter::of_three());
    run.publisher.publish(of_default(params(OneWeight::PANIC)));
    while run.fragments.pop(LONG).is_ok() {}
    let failure = set.join(LONG).failure.expect("the panic is a value");
    assert!(failure.to_string().starts_with("rollout-1 panicked outside its environments: "), "{failure}");
}

#[test]
fn a_thread_that_hangs_is_named_and_does_not_hold_up_the_join() {
    let (release, hang) = bounded::<()>(0);
    let (entering, entered) = bounded(1);
    let factory = move |context: &EnvContext| {
        let hang = (context.worker == 2).then(|| (entering.clone(), hang.clone()));
        Hooked::before(move |moment| {
            if let (Moment::Step, Some((entering, hang))) = (moment, &hang) {
                let _ = entering.try_send(());
                let _ = hang.recv();
            }
        })
    };
    let (set, mut run) = start(3, set_config(NO_PAUSE), factory);
    entered.recv_timeout(LONG).unwrap();
    run.shutdown = None;
    until("the end of the others", || set.n_running() == 1);
    assert_eq!(set.join(Duration::from_millis(1)).not_joined, ["rollout-2"]);
    drop(release);
    until("the end of the thread that hung", || run.time.read().iter().all(|time| time.current.is_none()));
}

#[test]
fn the_ledgers_close_at_every_instant_while_environments_fail_at_random() {
    // Which step fails is drawn from the environment's seed, how it fails from its number.
    let factory = |context: &EnvContext| {
        let step = 1 + (context.seed % 40) as u32;
        Counter::new(&[(3, End::Terminated), (4, End::Truncated)]).with_fault(match context.seed % 7 {
            0 => Fault::StepErr(step),
            1 => Fault::StepPanic(step),
            2 => Fault::StepNanObs(step),
            3 => Fault::StepInfReward(step),
            4 => Fault::ResetErr(1 + step / 4),
            5 => Fault::ResetPanic(1 + step / 4),
            _ => Fault::ResetNanObs(1 + step / 4),
        })
    };
    let tolerant = RestartPolicy { num_consecutive_worker_failures_tolerance: 1000, ..NO_PAUSE };
    let (set, run) = start(4, set_config(tolerant), factory);
    let (mut trained, mut restarts, mut reported) = (0, 0, 0);
    let began = Instant::now();
    while restarts < 200 {
        assert!(began.elapsed() < LONG, "{restarts} restarts");
        run.check_ledgers();
        if let Ok(mut fragment) = run.fragments.pop(Duration::from_millis(10)) {
            trained += fragment.env_steps();
            fragment.take_ticket().unwrap().trained();
        }
        for report in set.reports().drain() {
            restarts += report.restarts;
            reported += report.steps.env;
            assert!(report.ended.is_empty());
        }
    }
    let steps = run.steps.clone();
    let outcome = run.end(set);
    assert!(outcome.failure.is_none());
    reported += outcome.unread.iter().map(|report| report.steps.env).sum::<u64>();
    let totals = steps.snapshot();
    assert_eq!(totals.trained_once.env, trained);
    for cause in ["env_error", "env_panic", "non_finite_observation", "non_finite_reward"] {
        assert!(totals.lost[cause].env > 0, "{cause}: {totals:?}");
    }
    let lost: u64 = totals.lost.values().map(|steps| steps.env).sum();
    let unfinished = totals.sampled.env - lost - reported;
    assert!(unfinished < 4 * 8, "all but the fragments in the making are reported: {totals:?}");
}

/// Of a worker's two environments the first panics when it is dropped.
fn panics_when_dropped() -> impl EnvFactory {
    // Only one of the two panics: a second panic while the first unwinds aborts the process.
    move |context: &EnvContext| {
        let is_first = context.index == 0;
        Hooked::before(move |moment| assert!(!is_first || moment != Moment::Drop, "planted drop panic"))
    }
}

#[test]
fn an_environment_that_panics_while_it_is_dropped_is_reported_and_the_end_stays_clean() {
    let (set, run) = start(1, set_config(NO_PAUSE), panics_when_dropped());
    let outcome = run.end(set);
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let last = outcome.unread.last().expect("the panic is reported");
    assert_eq!(last.n_failures, 1);
    assert_eq!(last.failures, ["rollout-1 panicked while its environments were dropped: planted drop panic"]);
    assert!(last.ended.is_empty());
}

#[test]
fn a_panic_while_environments_are_dropped_does_not_hide_why_a_worker_gave_up() {
    let (set, mut run) = start(1, set_config(NO_PAUSE), panics_when_dropped());
    run.publisher.publish(of_default(params(f32::NAN)));
    while run.fragments.pop(LONG).is_ok() {}
    let outcome = set.join(LONG);
    let failure = outcome.failure.expect("the worker gave up").to_string();
    assert!(failure.starts_with("rollout-1 cannot act"), "{failure}");
    let failures: Vec<_> = outcome.unread.iter().flat_map(|report| &report.failures).collect();
    assert!(failures.last().unwrap().contains("planted drop panic"), "{failures:?}");
    assert!(run.steps.snapshot().is_closed());
}

/// Releases the hung environments, and counts them.
struct Hangs {
    release: Option<Sender<()>>,
    n: Arc<AtomicU32>,
}

/// Environments of which the first of worker 1 hangs in its second step, in the given incarnations.
fn hanging(incarnations: u32) -> (impl EnvFactory, Hangs) {
    let (release, hang) = bounded::<()>(0);
    let n = Arc::new(AtomicU32::new(0));
    let hangs = Hangs { release: Some(release), n: Arc::clone(&n) };
    let factory = move |context: &EnvContext| {
        let hangs = (context.worker, context.index) == (1, 0) && context.incarnation < incarnations;
        let (hang, n, mut steps) = (hang.clone(), Arc::clone(&n), 0);
        Hooked::before(move |moment| {
            steps += u32::from(moment == Moment::Step);
            if hangs && steps == 2 && moment == Moment::Step {
                n.fetch_add(1, Ordering::SeqCst);
                let _ = hang.recv();
            }
        })
    };
    (factory, hangs)
}

/// Long enough that no healthy step takes as long on a busy machine, short enough for a test.
const HANG: Duration = Duration::from_millis(300);

#[test]
fn a_worker_whose_environment_hangs_is_reported_and_replaced() {
    let (factory, mut hangs) = hanging(2);
    let (set, run) = start(2, WorkerSetConfig { env_hang_timeout: Some(HANG), ..set_config(NO_PAUSE) }, factory);
    let mut incarnation = None;
    while incarnation.is_none() {
        let fragment = run.train();
        let tag = tag(&fragment);
        incarnation = (tag.worker == 1).then_some(tag.incarnation);
        run.check_ledgers();
    }
    assert_eq!((incarnation, hangs.n.load(Ordering::SeqCst)), (Some(2), 2));
    assert_eq!(set.n_running(), 2);
    let abandoned: Vec<_> = set.workers().into_iter().filter(|worker| worker.is_abandoned).collect();
    assert_eq!(abandoned.iter().map(|worker| &*worker.thread).collect::<Vec<_>>(), ["rollout-1", "rollout-1.1"]);
    for worker in abandoned {
        assert_eq!((worker.state, worker.call.map(|call| call.index)), (Some("stepping"), Some(0)));
        assert!(worker.since >= HANG, "{worker:?}");
    }

    let mut report = WorkerReport::default();
    // The replacement may be faster than the report.
    until("both reports", || {
        for one in set.reports().drain() {
            pronk_buffer::Fold::fold(&mut report, one);
        }
        report.abandoned.count == 2
    });
    assert_eq!((report.n_failures, report.restarts), (2, 2));
    let words = [
        "rollout-1: environment 0 of rollout-1 (Counter, incarnation 0) failed at step 2 of the episode with seed",
        "has not returned for",
        "last observation [1.0, 1.0, ",
        "to replay: reset with seed",
    ];
    for word in words {
        assert!(report.abandoned.newest[0].contains(word), "{word}: {:?}", report.abandoned);
    }
    assert!(report.abandoned.newest[1].starts_with("rollout-1.1: environment 0 of rollout-1 (Counter, incarnation 1)"));
    // Both environments had made one step when the first hung in its second.
    assert_eq!(run.steps.snapshot().lost["env_hang"].env, 2 * 2);

    // A call that returns late finds that its worker was replaced: the thread books nothing and ends.
    hangs.release = None;
    until("the end of the abandoned threads", || set.workers().iter().all(|worker| !worker.is_abandoned));
    assert_eq!(run.steps.snapshot().lost["env_hang"].env, 2 * 2);
    let outcome = run.end(set);
    assert!(outcome.failure.is_none());
}

#[test]
fn a_worker_is_swapped_for_its_replacement_atomically() {
    let incarnations = 20;
    let (factory, mut hangs) = hanging(incarnations);
    let timeout = Some(Duration::from_millis(20));
    let tolerant = RestartPolicy { num_consecutive_worker_failures_tolerance: incarnations, ..NO_PAUSE };
    let (set, run) = start(1, WorkerSetConfig { env_hang_timeout: timeout, ..set_config(tolerant) }, factory);
    until("a fragment of the incarnation after them", || {
        assert_eq!(set.n_running(), 1, "in incarnation {} of {incarnations} that hang", hangs.n.load(Ordering::SeqCst));
        !run.fragments.is_empty()
    });
    hangs.release = None;
    until("the end of the abandoned threads", || set.workers().iter().all(|worker| !worker.is_abandoned));
    run.end(set);
}

#[test]
fn abandoned_threads_are_named_by_the_join_which_does_not_wait_for_them() {
    let (factory, hangs) = hanging(1);
    let (set, mut run) = start(1, WorkerSetConfig { env_hang_timeout: Some(HANG), ..set_config(NO_PAUSE) }, factory);
    run.train();
    run.shutdown = None;
    let began = Instant::now();
    let outcome = set.join(LONG);
    assert!(began.elapsed() < LONG / 2, "an abandoned thread is not waited for");
    assert_eq!(outcome.not_joined, ["rollout-1"]);
    drop(hangs);
    until("the end of the thread that hung", || run.time.read().iter().all(|time| time.current.is_none()));
}

#[test]
fn an_environment_that_hangs_while_it_is_rebuilt_is_detected_too() {
    let (release, hang) = bounded::<()>(0);
    let made = Arc::new(AtomicU32::new(0));
    let replacements = Arc::clone(&made);
    let factory = move |context: &EnvContext| {
        if context.incarnation == 1 {
            let _ = hang.recv();
            return Err(EnvError::new("planted, too late"));
        }
        replacements.fetch_add(u32::from(context.incarnation > 1), Ordering::SeqCst);
        Ok(Counter::of_three().with_fault(if context.incarnation == 0 { Fault::StepErr(2) } else { Fault::Nothing }))
    };
    let (set, run) = start(1, WorkerSetConfig { env_hang_timeout: Some(HANG), ..set_config(NO_PAUSE) }, factory);
    let fragment = run.train();
    assert_eq!(tag(&fragment).incarnation, 2);
    // The supervisor reports after it has started the other thread, which may have made the fragment by then.
    let mut abandoned = Vec::new();
    until("the report of the abandoned thread", || {
        abandoned.extend(set.reports().drain().into_iter().flat_map(|report| report.abandoned.newest));
        !abandoned.is_empty()
    });
    assert!(abandoned[0].contains("incarnation 1) failed while it was made: it has not returned"), "{abandoned:?}");
    drop(release);
    until("the end of the thread that hung", || set.workers().len() == 1);
    assert_eq!(made.load(Ordering::SeqCst), 2, "it makes no environments any more");
    run.end(set);
}

#[test]
fn the_inqueue_closes_with_a_worker_that_gives_up_after_a_hang() {
    let (release, hang) = bounded::<()>(0);
    let factory = move |context: &EnvContext| {
        if context.incarnation > 0 {
            return Err(EnvError::new("planted"));
        }
        let hang = hang.clone();
        Ok(Hooked::before(move |moment| {
            if moment == Moment::Step {
                let _ = hang.recv();
            }
        }))
    };
    let (set, run) = start(1, WorkerSetConfig { env_hang_timeout: Some(HANG), ..set_config(NO_PAUSE) }, factory);
    assert!(matches!(run.fragments.pop(LONG), Err(PopError::Closed)), "the thread that hangs holds no end of it");
    let outcome = set.join(LONG);
    assert_eq!(outcome.not_joined, ["rollout-1"], "it hangs still");
    assert_eq!(outcome.failure.unwrap().consecutive_failures, 4, "one of them the hang");
    drop(release);
}

#[test]
fn a_worker_that_always_hangs_gives_up() {
    let (factory, hangs) = hanging(u32::MAX);
    let (set, run) = start(1, WorkerSetConfig { env_hang_timeout: Some(HANG), ..set_config(NO_PAUSE) }, factory);
    assert!(matches!(run.fragments.pop(LONG), Err(PopError::Closed)));
    assert_eq!(hangs.n.load(Ordering::SeqCst), 4, "three in a row are tolerated");
    let failure = set.join(LONG).failure.unwrap();
    drop(hangs);
    assert_eq!(failure.consecutive_failures, 4);
    assert!(failure.to_string().contains("has not returned for"), "{failure}");
}

#[test]
fn a_crawling_environment_slows_only_its_own_worker() {
    let (step, may_step) = bounded::<()>(0);
    let factory = move |context: &EnvContext| {
        let gate = (context.worker == 1).then(|| may_step.clone());
        Hooked::before(move |moment| {
            if let (Moment::Step, Some(gate)) = (moment, &gate) {
                let _ = gate.recv();
            }
        })
    };
    let (set, mut run) = start(2, set_config(NO_PAUSE), factory);
    for _ in 0..50 {
        let fragment = run.train();
        assert_eq!(tag(&fragment).worker, 2);
    }
    // Four steps of two environments make a fragment, as slow as they are.
    for _ in 0..8 {
        step.send(()).unwrap();
    }
    until("the slow worker's fragment", || tag(&run.train()).worker == 1);
    run.shutdown = None;
    drop(step);
    assert!(set.join(LONG).not_joined.is_empty());
}

#[test]
fn the_budget_of_restarts_is_shared_and_one_more_restart_ends_the_run() {
    let tight = RestartPolicy { max_num_worker_restarts: 5, ..NO_PAUSE };
    let tolerant = RestartPolicy { num_consecutive_worker_failures_tolerance: 100, ..tight };
    let (set, run) = start(2, set_config(tolerant), |_: &EnvContext| Counter::of_three().with_fault(Fault::StepErr(6)));
    let began = Instant::now();
    let mut over = None;
    while over.is_none() {
        assert!(began.elapsed() < LONG);
        if let Ok(mut fragment) = run.fragments.pop(Duration::from_millis(1)) {
            fragment.take_ticket().unwrap().trained();
        }
        let reports = set.reports().drain();
        over = reports.into_iter().flat_map(|report| report.ended).find(WorkerFailure::ends_the_run);
    }
    let text = over.unwrap().to_string();
    for word in ["all workers together have had 5 within 60 s", "max_num_worker_restarts", "planted step error"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    run.end(set);
}

#[test]
fn restarts_count_for_the_window_only() {
    let failure = || {
        let context = crate::env::VectorContext { worker: 1, ..crate::env::VectorContext::default() };
        context.failure_to_make(crate::env::EnvFailureCause::Panic("planted".into()))
    };
    let spend_two = |restart_window| {
        let policy = RestartPolicy { max_num_worker_restarts: 1, restart_window, ..NO_PAUSE };
        let budget = RestartBudget::resumed(policy, &[]);
        [budget.spend(Arc::new(failure())).is_ok(), budget.clone().spend(Arc::new(failure())).is_ok()]
    };
    assert_eq!(spend_two(LONG), [true, false]);
    assert_eq!(spend_two(Duration::ZERO), [true, true], "the first is out of the window when the second comes");
}
