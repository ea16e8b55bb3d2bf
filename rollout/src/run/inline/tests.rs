#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::{ShutdownGuard, weight_cell};
use pronk_metrics::StepLedger;

use super::*;
use crate::env::EnvContext;
use crate::run::WorkerFailure;
use crate::testing::{Counter, Fault, LONG, NO_PAUSE, links, make_workers, of_default, params};

fn source(fault: Fault, restart: RestartPolicy) -> (InlineSource, Mailbox<WorkerReport>, StepLedger, ShutdownGuard) {
    let (links, steps, shutdown) = links();
    let (_, weights) = weight_cell(of_default(params(0.0)));
    let make = make_workers(move |_: &EnvContext| Counter::of_three().with_fault(fault), 0, &links);
    let (source, reports) = InlineSource::new(
        make,
        restart,
        weights,
        (links.steps, links.token),
        &Notifier::new(),
        ResumedSeats::default(),
    )
    .unwrap();
    (source, reports, steps, shutdown)
}

#[test]
fn fragments_are_made_on_demand_and_the_clock_idles_between() {
    let (mut source, reports, steps, _shutdown) = source(Fault::Nothing, NO_PAUSE);
    assert_eq!((source.backlog(), steps.snapshot().sampled.env), (0, 0));
    let fragment = source.next(Duration::ZERO).unwrap();
    assert_eq!(fragment.get("default_policy").unwrap().tags()[0].worker, 0);
    assert!(source.drain().is_empty());
    assert_eq!(reports.try_take().unwrap().fragments, 1);
    let time = source.clock().read();
    assert_eq!((time.thread.as_str(), time.current), ("rollout-0", Some("idle")));
    assert!(time.is_closed());
}

#[test]
fn giving_up_is_reported_once_with_its_cause_and_then_the_source_is_closed() {
    let (mut source, reports, steps, _shutdown) = source(Fault::StepErr(3), NO_PAUSE);
    let Err(NextError::Failed(error)) = source.next(LONG) else { panic!("the worker gives up") };
    let failure = error.downcast_ref::<WorkerFailure>().expect("the failure itself");
    assert_eq!((failure.thread.as_str(), failure.consecutive_failures), ("rollout-0", 4));
    assert_eq!(reports.try_take().unwrap().ended.len(), 1);
    assert!(matches!(source.next(LONG), Err(NextError::Closed)));
    assert!(steps.snapshot().is_closed());
}

#[test]
fn a_pause_before_a_restart_times_out_and_ends_with_the_run() {
    let slow = RestartPolicy { first_backoff: LONG, max_backoff: LONG, ..NO_PAUSE };
    let (mut source, _reports, _steps, shutdown) = source(Fault::StepErr(3), slow);
    assert!(matches!(source.next(Duration::ZERO), Err(NextError::TimedOut)));
    drop(shutdown);
    assert!(matches!(source.next(LONG), Err(NextError::Closed)));
}
