use std::time::Duration;

use pronk_buffer::{Gate, InqueueReceiver, MultiAgentBatch, Notifier, ShutdownGuard, WorkerEnds, inqueue, weight_cell};
use pronk_metrics::{StepLedger, TimeLedger};
use pronk_model::channel::{Receiver, Sender, bounded};
use pronk_model::thread::JoinHandle;
use pronk_model::time::{FOREVER, Instant};
use pronk_model::{check, sometimes, thread};

use super::SCHEDULES;
use crate::env::EnvContext;
use crate::run::{ResumedSeats, WorkerEdges, WorkerSet, WorkerSetConfig};
use crate::testing::{Hooked, Moment, NO_PAUSE, links, make_workers, of_default, params};
use crate::worker::RestartPolicy;

struct Run {
    shutdown: ShutdownGuard,
    fragments: InqueueReceiver<MultiAgentBatch>,
    steps: StepLedger,
    time: TimeLedger,
}

/// Two looks of the supervisor at the same call are this far apart. Time moves with every wait that times
/// out, so any worker may seem to hang, a replacement too.
const HANG_TIMEOUT: Duration = Duration::from_millis(1);

/// When a worker that hangs comes back, if it is not replaced before.
const COMES_BACK: Duration = Duration::from_millis(2);

/// One worker, of which the first environment waits in its second step until `hang` closes.
fn start(hang: Receiver<()>) -> (WorkerSet, Run) {
    let factory = move |context: &EnvContext| {
        let hangs = (context.index, context.incarnation) == (0, 0);
        let (hang, mut steps) = (hang.clone(), 0);
        Hooked::before(move |moment| {
            steps += u32::from(moment == Moment::Step);
            if hangs && steps == 2 && moment == Moment::Step {
                let _ = hang.recv();
            }
        })
    };
    let (links, steps, shutdown) = links();
    let time = TimeLedger::new();
    let (sender, fragments) = inqueue(1, Gate::Bounded, &links.token).unwrap();
    let (_, weights) = weight_cell(of_default(params(0.0)));
    let edges = WorkerEdges {
        ends: vec![WorkerEnds::free(weights, sender)],
        notifier: Notifier::new(),
        time: time.clone(),
        steps: steps.clone(),
        helper: None,
        resumed: ResumedSeats::default(),
    };
    let restart = RestartPolicy { num_consecutive_worker_failures_tolerance: u32::MAX, ..NO_PAUSE };
    let config = WorkerSetConfig { restart, env_hang_timeout: Some(HANG_TIMEOUT), first_worker: 1 };
    let set = WorkerSet::start(config, make_workers(factory, 0, &links), links.token, edges).unwrap();
    (set, Run { shutdown, fragments, steps, time })
}

/// Whether the supervisor replaces a worker at this moment.
fn is_replacing(time: &TimeLedger) -> bool {
    time.read().iter().any(|thread| thread.current == Some("replacing"))
}

/// Has the worker come back while it is replaced, or else after a while; whether it was the former.
fn release(hang: Sender<()>, run: &Run) -> JoinHandle<bool> {
    let (time, began) = (run.time.clone(), Instant::now());
    thread::spawn(move || {
        while !is_replacing(&time) && began.elapsed() < COMES_BACK {
            thread::yield_now();
        }
        drop(hang);
        is_replacing(&time)
    })
}

/// Ends the run: every thread ends but those that were abandoned, and every step is trained, dropped or lost.
fn end(set: WorkerSet, run: Run) {
    let Run { shutdown, fragments, steps, .. } = run;
    drop(shutdown);
    let not_joined = set.join(FOREVER).not_joined;
    assert!(not_joined.iter().all(|thread| thread.starts_with("rollout-1")), "{not_joined:?}");
    drop(fragments);
    let totals = steps.snapshot();
    assert!(totals.is_closed() && totals.in_flight.env == 0, "{totals:?}");
}

fn incarnation(fragment: &MultiAgentBatch) -> u32 {
    fragment.policies().next().unwrap().1.tags()[0].incarnation
}

/// A hung worker may come back while it is replaced: its steps are booked once, nothing of it comes after
/// something of its replacement, and one of the two goes on.
#[test]
fn a_worker_that_comes_back_while_it_is_replaced_books_once() {
    check("a hung worker comes back", SCHEDULES, || {
        let (hanging, hang) = bounded(0);
        let (set, run) = start(hang);
        let releasing = release(hanging, &run);
        let mut newest = 0;
        for _ in 0..2 {
            let mut fragment = run.fragments.pop(FOREVER).unwrap();
            fragment.take_ticket().unwrap().trained();
            assert!(incarnation(&fragment) >= newest);
            newest = incarnation(&fragment);
        }
        sometimes("the worker goes on", newest == 0);
        sometimes("the worker is replaced", newest > 0);
        sometimes("the worker comes back while it is replaced", releasing.join().unwrap());
        end(set, run);
    });
}

/// A worker that hangs until the end is replaced, and its replacement goes on.
#[test]
fn a_worker_that_hangs_for_good_is_replaced() {
    check("a hung worker", SCHEDULES, || {
        let (hanging, hang) = bounded(0);
        let (set, run) = start(hang);
        let mut fragment = run.fragments.pop(FOREVER).unwrap();
        fragment.take_ticket().unwrap().trained();
        assert!(incarnation(&fragment) > 0);
        drop(hanging);
        end(set, run);
    });
}

/// The run may end at any time meanwhile.
#[test]
fn the_run_may_end_while_a_worker_is_replaced() {
    check("a hung worker, the end of the run", SCHEDULES, || {
        let (hanging, hang) = bounded(0);
        let (set, run) = start(hang);
        let releasing = release(hanging, &run);
        thread::sleep(HANG_TIMEOUT);
        sometimes("the run ends while the worker is replaced", is_replacing(&run.time));
        end(set, run);
        releasing.join().unwrap();
    });
}
