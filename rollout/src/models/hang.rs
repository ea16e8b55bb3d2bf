use std::time::Duration;

use pronk_buffer::{Gate, InqueueReceiver, MultiAgentBatch, Notifier, ShutdownGuard, WorkerEnds, inqueue, weight_cell};
use pronk_metrics::{StepLedger, TimeLedger};
use pronk_model::channel::{Receiver, bounded};
use pronk_model::time::FOREVER;
use pronk_model::{check, thread};

use super::SCHEDULES;
use crate::env::EnvContext;
use crate::run::{ResumedSeats, WorkerEdges, WorkerSet, WorkerSetConfig};
use crate::testing::{Hooked, Moment, NO_PAUSE, links, make_workers, of_default, params};

struct Run {
    shutdown: ShutdownGuard,
    fragments: InqueueReceiver<MultiAgentBatch>,
    steps: StepLedger,
}

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
    let (sender, fragments) = inqueue(1, Gate::Bounded, &links.token).unwrap();
    let (_, weights) = weight_cell(of_default(params(0.0)));
    let edges = WorkerEdges {
        ends: vec![WorkerEnds::free(weights, sender)],
        notifier: Notifier::new(),
        time: TimeLedger::new(),
        steps: steps.clone(),
        helper: None,
        resumed: ResumedSeats::default(),
    };
    let config =
        WorkerSetConfig { restart: NO_PAUSE, env_hang_timeout: Some(Duration::from_millis(8)), first_worker: 1 };
    let set = WorkerSet::start(config, make_workers(factory, 0, &links), links.token, edges).unwrap();
    (set, Run { shutdown, fragments, steps })
}

/// Ends the run: every thread ends but one that was abandoned, and every step is trained, dropped or lost.
fn end(set: WorkerSet, run: Run) {
    let Run { shutdown, fragments, steps } = run;
    drop(shutdown);
    let not_joined = set.join(FOREVER).not_joined;
    assert!(not_joined.iter().all(|thread| thread == "rollout-1"), "{not_joined:?}");
    drop(fragments);
    let totals = steps.snapshot();
    assert!(totals.is_closed() && totals.in_flight.env == 0, "{totals:?}");
}

fn incarnation(fragment: &MultiAgentBatch) -> u32 {
    fragment.policies().next().unwrap().1.tags()[0].incarnation
}

/// A hung worker may come back while it is replaced: its steps are booked once, and nothing of it comes after
/// something of its replacement.
#[test]
fn a_worker_that_comes_back_while_it_is_replaced_books_once() {
    check("a hung worker comes back", SCHEDULES, || {
        let (release, hang) = bounded(0);
        let (set, run) = start(hang);
        let releasing = thread::spawn(move || drop(release));
        let mut newest = 0;
        for _ in 0..2 {
            let mut fragment = run.fragments.pop(FOREVER).unwrap();
            fragment.take_ticket().unwrap().trained();
            assert!(incarnation(&fragment) >= newest);
            newest = incarnation(&fragment);
        }
        releasing.join().unwrap();
        end(set, run);
    });
}

/// A worker that hangs until the end is replaced, and its replacement goes on.
#[test]
fn a_worker_that_hangs_for_good_is_replaced() {
    check("a hung worker", SCHEDULES, || {
        let (release, hang) = bounded(0);
        let (set, run) = start(hang);
        let mut fragment = run.fragments.pop(FOREVER).unwrap();
        fragment.take_ticket().unwrap().trained();
        assert_eq!(incarnation(&fragment), 1);
        drop(release);
        end(set, run);
    });
}

/// The run may end at any time meanwhile.
#[test]
fn the_run_may_end_while_a_worker_is_replaced() {
    check("a hung worker, the end of the run", SCHEDULES, || {
        let (release, hang) = bounded(0);
        let (set, run) = start(hang);
        let releasing = thread::spawn(move || drop(release));
        thread::sleep(Duration::from_millis(1));
        end(set, run);
        releasing.join().unwrap();
    });
}
