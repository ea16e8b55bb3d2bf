#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Instant;

use pronk_buffer::{
    Gate, Mailbox, Notifier, ShutdownGuard, TurnConfig, WeightPublisher, WorkerEnds, inqueue, mailbox, shutdown, turns,
    weight_cell,
};
use pronk_metrics::ByPolicy;
use pronk_policy::{CpuNetwork, Helpers, Input, Network, NetworkSpec, ObsRef, Outputs, Params, Space};

use super::*;
use crate::env::{CallMonitor, EnvContext, EnvError};
use crate::pool::EnvFactory;
use crate::run::edges::CurrentEnds;
use crate::run::worker_loop::run_worker;
use crate::testing::{
    Counter, Fault, Hooked, LONG, Moment, NO_PAUSE, OneWeight, links, make_workers, of_default, params,
};
use crate::worker::RestartPolicy;

struct Run {
    worker: SupervisedWorker,
    publisher: WeightPublisher<ByPolicy<Params>>,
    weights: WeightSource<ByPolicy<Params>>,
    reports: Mailbox<WorkerReport>,
    steps: StepLedger,
    shutdown: Option<ShutdownGuard>,
}

fn run(factory: impl EnvFactory + 'static, restart: RestartPolicy) -> Run {
    let (links, steps, shutdown) = links();
    let (publisher, weights) = weight_cell(of_default(params(0.0)));
    let (sender, reports) = mailbox(NonZeroUsize::MIN, &Notifier::new());
    let shared = Shared {
        make: make_workers(factory, 0, &links),
        budget: RestartBudget::resumed(restart, &[]),
        steps: steps.clone(),
        token: links.token.clone(),
        reports: sender,
        failures: FailureLog::default(),
        helper: None,
    };
    let seat = WorkerSeat::first(1, CallMonitor::new());
    let worker = SupervisedWorker::start(shared, seat).unwrap();
    let weights = WeightSource::Newest(weights);
    Run { worker, publisher, weights, reports, steps, shutdown: Some(shutdown) }
}

impl Run {
    fn next(&mut self, timeout: Duration) -> Result<MultiAgentBatch, NoFragment> {
        self.worker.next_fragment(&self.weights, timeout, &|| false)
    }

    fn fragment(&mut self) -> MultiAgentBatch {
        match self.next(LONG) {
            Ok(fragment) => fragment,
            Err(NoFragment::Failed(failure)) => panic!("{failure}"),
            Err(_) => panic!("the worker gives no fragment"),
        }
    }

    fn failure(&mut self) -> WorkerFailure {
        match self.next(LONG) {
            Err(NoFragment::Failed(failure)) => failure,
            _ => panic!("the worker did not give up"),
        }
    }

    fn report(&self) -> WorkerReport {
        self.reports.try_take().expect("a report was posted")
    }
}

#[test]
fn a_worker_that_comes_back_while_it_is_replaced_leaves_its_ends_to_the_supervisor() {
    let monitor = Arc::new(OnceLock::<CallMonitor>::new());
    let watched = Arc::clone(&monitor);
    let factory = move |_: &EnvContext| {
        let watched = Arc::clone(&watched);
        Hooked::before(move |moment| {
            if let (Moment::Step, Some(monitor)) = (moment, watched.get()) {
                // As the supervisor does that has found a hang, and takes the ends next.
                drop(monitor.call().and_then(|call| monitor.take_over(&call)));
            }
        })
    };
    let Run { worker, publisher, shutdown: _kept, .. } = run(factory, NO_PAUSE);
    monitor.set(worker.seat.monitor.clone()).unwrap();
    let (sender, _fragments) = inqueue(1, Gate::Bounded, &worker.shared.token).unwrap();
    let ends = CurrentEnds::new(WorkerEnds::free(publisher.cell(), sender));
    run_worker(worker, &ends).unwrap();
    assert!(!ends.are_taken());
}

#[test]
fn a_worker_helps_between_its_steps_only_while_the_learner_is_behind() {
    let helpers = Helpers::new(1, 0).unwrap();
    let observation = Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4]).unwrap();
    let spec = NetworkSpec::for_spaces(&observation, &Space::discrete(2).unwrap()).unwrap();
    let mut network = CpuNetwork::with_helpers(&spec, helpers.clone()).unwrap();
    let mut run = run(|_: &EnvContext| Counter::of_three(), NO_PAUSE);
    run.worker.shared.helper = helpers.helper();
    let has_helped = |run: &Run| {
        let time = run.worker.clock.reader().read();
        time.states.iter().any(|(state, time)| *state == "helping" && *time > 0.0)
    };

    let learns = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (params, obs, mut out) = (spec.init_params(0).unwrap(), vec![0.1; 4 * 4096], Outputs::default());
            while learns.load(Ordering::Relaxed) {
                network.forward_for_learning(&params, &Input::new(ObsRef::F32(&obs), 4096), &mut out).unwrap();
            }
        });
        for _ in 0..100 {
            run.fragment();
        }
        let before = has_helped(&run);
        let deadline = Instant::now() + LONG;
        while !has_helped(&run) && Instant::now() < deadline {
            run.worker.next_fragment(&run.weights, LONG, &|| true).ok().unwrap();
        }
        learns.store(false, Ordering::Relaxed);
        assert!(!before && has_helped(&run), "before: {before}");
    });
}

/// Environments that fail in the given step in their first `n` incarnations.
fn failing_until(incarnation: u32, fault: Fault) -> impl EnvFactory {
    move |context: &EnvContext| {
        Counter::of_three().with_fault(if context.incarnation < incarnation { fault } else { Fault::Nothing })
    }
}

#[test]
fn a_worker_takes_the_newest_weights_for_every_fragment_and_reports_it() {
    let mut run = run(|_: &EnvContext| Counter::of_three(), NO_PAUSE);
    let version = |fragment: MultiAgentBatch| fragment.get("default_policy").unwrap().versions()[0];
    assert_eq!(version(run.fragment()), 0);
    run.publisher.publish(of_default(params(1.0)));
    run.publisher.publish(of_default(params(2.0)));
    assert_eq!(version(run.fragment()), 2);

    let report = run.report();
    assert_eq!((report.fragments, report.steps.env, report.restarts), (2, 16, 0));
    assert_eq!((report.n_episodes, report.return_sum, report.len_sum), (4, 24.0, 12));
    assert_eq!(report.episodes.len(), 4);
}

#[test]
fn as_many_failures_in_a_row_as_tolerated_cost_their_fragments_only() {
    let mut run = run(failing_until(3, Fault::StepErr(2)), NO_PAUSE);
    let fragment = run.fragment();
    assert_eq!(fragment.get("default_policy").unwrap().tags()[0].incarnation, 3);
    let report = run.report();
    assert_eq!((report.fragments, report.restarts, report.n_failures), (1, 3, 3));
    assert!(report.failures.iter().all(|failure| failure.contains("planted step error")), "{:?}", report.failures);
    assert!(report.ended.is_empty());
    // Every time both environments made one step, then the first failed in its second.
    assert_eq!(run.steps.snapshot().lost["env_error"].env, 3 * 2);
    assert!(run.steps.snapshot().is_closed());
}

#[test]
fn one_more_failure_ends_the_worker_with_its_last_failure() {
    let mut run = run(failing_until(u32::MAX, Fault::StepPanic(2)), NO_PAUSE);
    let failure = run.failure();
    assert_eq!((failure.thread.as_str(), failure.consecutive_failures), ("rollout-1", 4));
    let text = failure.to_string();
    assert!(text.starts_with("rollout-1 gave up after 4 failures in a row"), "{text}");
    assert!(text.contains("environment 0 of rollout-1 (Counter, incarnation 3) failed at step 2"), "{text}");
    assert!(text.contains("planted step panic"), "{text}");

    let report = run.report();
    assert_eq!((report.n_failures, report.restarts, report.ended.len()), (4, 3, 1));
    assert_eq!(report.ended[0].to_string(), text);
    assert!(matches!(run.next(LONG), Err(NoFragment::Closed)), "it gives up once");
    assert!(run.steps.snapshot().is_closed());
}

#[test]
fn a_complete_fragment_resets_the_count_of_failures() {
    // Every incarnation makes one fragment of four steps and fails in the second: many failures, never two in
    // a row.
    let once = RestartPolicy { num_consecutive_worker_failures_tolerance: 1, ..NO_PAUSE };
    let mut run = run(failing_until(u32::MAX, Fault::StepErr(6)), once);
    for _ in 0..20 {
        run.fragment();
    }
    assert_eq!(run.report().n_failures, 19);
}

#[test]
fn a_failing_make_counts_as_a_failure() {
    let factory = |context: &EnvContext| match context.incarnation {
        0 => Ok(Counter::of_three().with_fault(Fault::StepErr(1))),
        _ => Err(EnvError::new("no licence left")),
    };
    let mut run = run(factory, NO_PAUSE);
    let failure = run.failure();
    assert_eq!(failure.consecutive_failures, 4);
    assert!(failure.to_string().contains("failed while it was made: no licence left"), "{failure}");
}

#[test]
fn without_tolerance_the_first_failure_is_the_last() {
    let never = RestartPolicy { num_consecutive_worker_failures_tolerance: 0, ..NO_PAUSE };
    let mut run = run(failing_until(1, Fault::ResetErr(1)), never);
    assert_eq!(run.failure().consecutive_failures, 1);
    assert_eq!(run.report().restarts, 0);
}

#[test]
fn the_pause_before_a_restart_outlasts_timeouts_and_ends_with_the_run() {
    let slow = RestartPolicy { first_backoff: LONG, max_backoff: LONG, ..NO_PAUSE };
    let mut run = run(failing_until(u32::MAX, Fault::StepErr(1)), slow);
    let began = Instant::now();
    assert!(matches!(run.next(Duration::ZERO), Err(NoFragment::TimedOut)));
    assert!(matches!(run.next(Duration::from_millis(1)), Err(NoFragment::TimedOut)));
    assert_eq!(run.report().n_failures, 1, "while it pauses nothing is tried");
    assert_eq!(run.worker.clock.reader().read().current, Some("restarting"));
    run.shutdown = None;
    assert!(matches!(run.next(LONG), Err(NoFragment::Closed)));
    assert!(began.elapsed() < LONG);
}

#[test]
fn a_panic_outside_the_environments_ends_the_worker_and_loses_its_fragment() {
    let mut run = run(|_: &EnvContext| Counter::of_three(), NO_PAUSE);
    run.fragment();
    run.publisher.publish(of_default(params(OneWeight::PANIC)));
    let failure = run.failure();
    let text = failure.to_string();
    assert!(
        text.starts_with("rollout-1 panicked outside its environments: ") && text.contains("planted network panic"),
        "{text}"
    );
    let report = run.report();
    assert_eq!(report.ended.len(), 1);
    assert!(run.steps.snapshot().is_closed());
}

#[test]
fn weights_that_are_not_finite_end_the_worker_without_a_restart() {
    let mut run = run(|_: &EnvContext| Counter::of_three(), NO_PAUSE);
    run.publisher.publish(of_default(params(f32::NAN)));
    let failure = run.failure();
    assert_eq!(
        failure.to_string(),
        "rollout-1 cannot act: version 1 of the weights gives NaN values for environment 0"
    );
    assert_eq!(run.report().restarts, 0);
}

#[test]
fn a_vector_that_keeps_no_final_observation_ends_the_worker() {
    use crate::env::EpisodeStat;
    use crate::env::VectorContext;
    use crate::env::{ActionRef, EnvSpec, ObsMut};
    use crate::vector::{SerialVectorEnv, VectorEnv, VectorStep};
    use pronk_buffer::End;

    /// Says `Truncated` where the environments said nothing.
    struct Forgetful(SerialVectorEnv<Counter>);
    impl VectorEnv for Forgetful {
        fn spec(&self) -> &EnvSpec {
            self.0.spec()
        }
        fn n_envs(&self) -> usize {
            self.0.n_envs()
        }
        fn reset_all(&mut self, obs: ObsMut<'_>) -> Result<(), EnvFailure> {
            self.0.reset_all(obs)
        }
        fn step(&mut self, actions: ActionRef<'_>, out: VectorStep<'_>) -> Result<(), EnvFailure> {
            let VectorStep { t, obs, rewards, ends, final_obs } = out;
            self.0.step(actions, VectorStep { t, obs, rewards, ends: &mut *ends, final_obs })?;
            ends.fill(End::Truncated);
            Ok(())
        }
        fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>) {
            self.0.drain_episodes(into);
        }
    }
    struct Factory;
    impl EnvFactory for Factory {
        fn make_vector(
            &self,
            context: &VectorContext,
            n_envs: usize,
            monitor: &CallMonitor,
        ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
            Ok(Box::new(Forgetful(SerialVectorEnv::new(context, n_envs, monitor, |_| Ok(Counter::of_three()))?)))
        }
    }
    let mut run = run(Factory, NO_PAUSE);
    let failure = run.failure();
    assert!(failure.to_string().contains("the vector environment of rollout-1 broke its rules"), "{failure}");
    assert_eq!(run.steps.snapshot().lost["broken_batch"].env, 8);
}

#[test]
fn a_worker_that_was_replaced_between_two_fragments_waits_for_no_turn() {
    let mut run = run(|_: &EnvContext| Counter::of_three(), NO_PAUSE);
    let (guard, token) = shutdown();
    let (_publisher, cell) = weight_cell(of_default(params(0.0)));
    let one = NonZeroUsize::MIN;
    let config = TurnConfig { workers: one, fragments_of_a_batch: one, lag: 0, env_steps_of_a_fragment: 1 };
    let (_turns, ends, _fragments) = turns(config, &cell, &token);
    let monitor = run.worker.seat.monitor.clone();
    let saving = monitor.enter(0);
    monitor.take_over(&monitor.call().unwrap()).unwrap();
    drop(saving);
    let (done, is_done) = mpsc::channel::<()>();
    let ending = std::thread::spawn(move || {
        let is_late = is_done.recv_timeout(LONG) == Err(mpsc::RecvTimeoutError::Timeout);
        drop(guard);
        is_late
    });
    let next = run.worker.next_fragment(&ends[0].weights, LONG, &|| false);
    assert!(matches!(next, Err(NoFragment::Closed)));
    drop(done);
    assert!(!ending.join().unwrap(), "it waited for a turn of its replacement");
}

#[test]
fn an_environment_that_panics_while_it_is_dropped_does_not_hide_the_failure() {
    let sticky = |context: &EnvContext| {
        let at_fault = context.incarnation == 0 && context.index == 1;
        let fault = if at_fault { Fault::StepErr(1) } else { Fault::Nothing };
        let hook = move |moment| assert!(!at_fault || moment != Moment::Drop, "planted drop panic");
        Hooked::before(hook).with_fault(fault)
    };
    let mut run = run(sticky, NO_PAUSE);
    run.fragment();
    let report = run.report();
    assert_eq!((report.fragments, report.n_failures), (1, 1));
    assert!(report.failures[0].contains("planted step error"), "{:?}", report.failures);
}
