use crate::env::CallMonitor;
use crate::env::EnvError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pronk_buffer::{Gate, NextError, Notifier, Source, Tag, WorkerEnds, inqueue, weight_cell};
use pronk_metrics::{Steps, TimeLedger};

use super::*;
use crate::env::EnvContext;
use crate::run::{InlineSource, ResumedSeats, WorkerEdges, WorkerFailure, WorkerSet, WorkerSetConfig};
use crate::testing::script::Mishap;
use crate::testing::{LONG, NO_PAUSE};
use crate::worker::{MakeWorker, RestartPolicy, WorkerSeat};

const MISHAPS: [(Mishap, &str); 12] = [
    (Mishap::Err, "env_error"),
    (Mishap::Panic, "env_panic"),
    (Mishap::NanObs, "non_finite_observation"),
    (Mishap::InfReward, "non_finite_reward"),
    (Mishap::NobodyAsked, "env_error"),
    (Mishap::AskedAfterItsEnd, "env_error"),
    (Mishap::ResetErr, "env_error"),
    (Mishap::ResetPanic, "env_panic"),
    (Mishap::ResetNan, "non_finite_observation"),
    (Mishap::MaskErr, "env_error"),
    (Mishap::MaskPanic, "env_panic"),
    (Mishap::NoWay, "nothing_possible"),
];

/// Masked environments with a mishap that is planted where `plant` says.
fn factory(
    diary: &Diary,
    manner: Manner,
    plant: impl Fn(&EnvContext) -> Option<(u32, Mishap)> + Send + Sync + 'static,
) -> Arc<dyn MultiAgentFactory> {
    let diary = diary.clone();
    Arc::new(move |context: &EnvContext| {
        let mut env = Script::new(context, &diary, manner);
        env.masked = true;
        env.mishap = plant(context);
        env
    })
}

/// Makes workers in the environments of `factory`, with policies `a`, `b` and `c`.
fn make_workers(factory: Arc<dyn MultiAgentFactory>, links: &WorkerLinks) -> Arc<MakeWorker> {
    let links = links.clone();
    Arc::new(move |seat: &WorkerSeat| {
        let (policies, mapping) = three_policies();
        let WorkerSeat { worker, incarnation, monitor, .. } = seat.clone();
        let config = MultiAgentWorkerConfig { worker, incarnation, ..config(policies, mapping) };
        let links = WorkerLinks { monitor, ..links.clone() };
        RolloutWorker::multi_agent(config, Arc::clone(&factory), links)
    })
}

fn seat(worker: u32) -> WorkerSeat {
    WorkerSeat::first(worker, CallMonitor::new())
}

fn first_weights() -> ByPolicy<Params> {
    weights(0, &["a", "b"], 0.0).weights
}

fn counted(diary: &Diary) -> Steps {
    Steps { env: diary.env_steps.load(Ordering::SeqCst), agent: diary.agent_steps.load(Ordering::SeqCst) }
}

#[test]
fn every_kind_of_failure_loses_what_no_fragment_holds_and_begins_anew() {
    for (mishap, key) in MISHAPS {
        let diary = Diary::default();
        let (links, steps, _guard) = links();
        let at_fault =
            move |context: &EnvContext| (context.index == 1 && context.incarnation == 0).then_some((23, mishap));
        let mut worker = make_workers(factory(&diary, Manner::AtRandom, at_fault), &links)(&seat(1)).unwrap();
        let weights = weights(0, &["a", "b"], 0.0);
        let (mut sent, mut made) = (Steps::default(), 0);
        let error = loop {
            match worker.sample(&weights, &mut clock()) {
                Ok(mut fragment) => fragment.take_ticket().unwrap().trained(),
                Err(error) => break error,
            }
            made += 1;
        };
        sent += steps.snapshot().trained_once;
        let SampleError::Environment(failure) = &error else { panic!("{mishap:?}: {error}") };
        assert_eq!((failure.index, failure.cause.key()), (1, key), "{error}");
        let totals = steps.snapshot();
        let not_trained = totals.dropped["not_trained"];
        assert_eq!(totals.sampled, counted(&diary), "{mishap:?}");
        assert_eq!(totals.lost[key], totals.sampled - sent - not_trained, "{mishap:?}");
        assert!(totals.lost[key].agent > 0 && totals.in_flight == Steps::default() && totals.is_closed());
        assert!(!worker.take_collected().episodes.is_empty(), "finished episodes are not forgotten");

        let next = worker.sample(&weights, &mut clock()).unwrap();
        assert_eq!(worker.incarnation(), 1);
        for (_, batch) in next.policies() {
            assert_eq!(batch.tags(), [Tag { worker: 1, incarnation: 1, slot: made, ..Tag::default() }]);
            assert!(batch.obs_row(0).as_f32().unwrap().chunks(3).all(|row| row[1] == 1.0), "new environments");
        }
        drop((next, worker));
        assert_eq!(steps.snapshot().sampled, counted(&diary), "{mishap:?}");
        assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight == Steps::default());
    }
}

#[test]
fn a_failure_names_the_agent_and_how_to_see_it_again() {
    for (mishap, words) in [
        (Mishap::NanObs, "agent `first`: observation element 1 is NaN"),
        (Mishap::InfReward, "agent `first`: the reward is inf"),
        (Mishap::NoWay, "agent `first`: action_mask leaves nothing possible of choice 0"),
        (Mishap::AskedAfterItsEnd, "agent `third` is asked to act after its end"),
        (Mishap::NobodyAsked, "no agent is asked to act, and `first`, `second`, `third` did not end"),
    ] {
        let (links, _steps, _guard) = links();
        let plant = move |context: &EnvContext| (context.index == 2).then_some((1, mishap));
        let factory = factory(&Diary::default(), Manner::Together, plant);
        let mut worker = make_workers(factory, &links)(&seat(1)).unwrap();
        let error = worker.sample(&weights(0, &["a", "b"], 0.0), &mut clock()).expect_err("planted").to_string();
        assert!(error.starts_with("environment 2 of rollout-1 (Script, incarnation 0) failed "), "{error}");
        assert!(error.contains(words) && error.contains("(to replay: reset with seed "), "{error}");
    }
}

#[test]
fn a_failing_make_is_a_failure_and_other_agents_are_refused() {
    let (links, steps, _guard) = links();
    let diary = Diary::default();
    let factory = move |context: &EnvContext| {
        let mut env = Script::new(context, &diary, Manner::Together);
        env.mishap = Some((1, Mishap::Err));
        env.masked = context.incarnation == 2;
        if context.incarnation == 1 { Err(EnvError::new("the port is still taken")) } else { Ok(env) }
    };
    let mut worker = make_workers(Arc::new(factory), &links)(&seat(1)).unwrap();
    let mut fail = || worker.sample(&weights(0, &["a", "b"], 0.0), &mut clock()).expect_err("planted").to_string();
    assert!(fail().contains("planted step error"));
    let made = fail();
    assert!(made.ends_with("(incarnation 1) failed while it was made: the port is still taken"), "{made}");
    let other = fail();
    assert!(
        other.contains("the rebuilt environment is Script (`first`: ") && other.contains(" with a mask"),
        "{other}"
    );
    assert_eq!(steps.snapshot().sampled, Steps::default());
}

#[test]
fn a_run_that_ends_in_the_middle_of_a_fragment_drops_what_was_made() {
    let (links, steps, shutdown) = links();
    let diary = Diary::default();
    let mut worker = make_workers(factory(&diary, Manner::Together, |_| None), &links)(&seat(1)).unwrap();
    let weights = weights(0, &["a", "b"], 0.0);
    let mut first = worker.sample(&weights, &mut clock()).unwrap();
    first.take_ticket().unwrap().trained();
    drop(shutdown);
    assert!(matches!(worker.sample(&weights, &mut clock()), Err(SampleError::Closed)));
    let totals = steps.snapshot();
    let not_trained = totals.dropped["not_trained"];
    let waiting = counted(&diary) - totals.trained_once - not_trained;
    assert_eq!(totals.dropped.get("shutdown").copied().unwrap_or_default(), waiting);
    assert_eq!(totals.sampled, counted(&diary));
}

#[test]
fn without_a_policy_that_is_trained_in_any_episode_the_end_of_the_run_ends_the_fragment() {
    let (links, steps, shutdown) = links();
    let diary = Diary::default();
    let factory = factory(&diary, Manner::Together, |_| None);
    let policies = ByPolicy::from([("a".into(), scripted(None)), ("c".into(), scripted(Some(0.0)))]);
    let config = config(policies, PolicyMapping::shared("c"));
    let mut worker = RolloutWorker::multi_agent(config, factory, links).unwrap();
    let thread = std::thread::Builder::new().name("sampling".into());
    let sampling = thread.spawn(move || worker.sample(&weights(0, &["a"], 0.0), &mut clock())).unwrap();
    crate::testing::until("a hundred steps", || diary.env_steps.load(Ordering::SeqCst) > 100);
    drop(shutdown);
    assert!(matches!(sampling.join().unwrap(), Err(SampleError::Closed)));
    let totals = steps.snapshot();
    assert_eq!(totals.sampled, counted(&diary));
    assert_eq!(totals.dropped["shutdown"], Steps { env: totals.sampled.env, agent: 0 });
    assert_eq!(totals.dropped["not_trained"].agent, totals.sampled.agent);
}

#[test]
fn inline_the_same_fragments_come_and_failures_are_survived_until_there_are_too_many() {
    let run = |incarnations| {
        let diary = Diary::default();
        let (links, steps, _guard) = links();
        let plant = move |context: &EnvContext| (context.incarnation < incarnations).then_some((3, Mishap::Panic));
        let make = make_workers(factory(&diary, Manner::AtRandom, plant), &links);
        let (_, cell) = weight_cell(first_weights());
        let ends = (links.steps, links.token);
        let (mut source, reports) =
            InlineSource::new(make, NO_PAUSE, cell, ends, &Notifier::new(), ResumedSeats::default()).unwrap();
        let fragments: Vec<_> =
            (0..6).map(|_| source.next(LONG)).take_while(Result::is_ok).map(Result::unwrap).collect();
        let steps_of: Vec<_> = fragments.iter().map(MultiAgentBatch::steps).collect();
        let next = source.next(LONG).map(drop);
        drop((fragments, source));
        assert_eq!(steps.snapshot().sampled, counted(&diary));
        assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight == Steps::default());
        (steps_of, next, reports.drain())
    };
    let (fragments, next, reports) = run(2);
    assert!(next.is_ok() && fragments.len() == 6);
    assert_eq!(fragments, run(2).0);
    let report = &reports[0];
    assert_eq!((report.restarts, report.n_failures, report.fragments), (2, 2, 7));
    assert!(report.policy_returns.contains_key("a") && report.policy_returns.contains_key("c"), "{report:?}");

    let (fragments, next, reports) = run(u32::MAX);
    assert!(fragments.is_empty());
    let Err(NextError::Closed) = next else { panic!("it has given up") };
    let ended: Vec<&WorkerFailure> = reports.iter().flat_map(|report| &report.ended).collect();
    assert!(ended[0].to_string().starts_with("rollout-0 gave up after 4 failures in a row"), "{}", ended[0]);
}

#[test]
fn weights_that_cannot_act_end_the_worker_with_the_name_of_the_policy() {
    for (w, words) in [
        (f32::NAN, "rollout-0 cannot act: policy `a`: version 0 of the weights gives NaN values for environment "),
        (OneWeight::PANIC, "rollout-0 panicked outside its environments: "),
    ] {
        let (links, steps, _guard) = links();
        let diary = Diary::default();
        let make = make_workers(factory(&diary, Manner::Together, |_| None), &links);
        let mut bad = first_weights();
        bad.insert("a".into(), params(w));
        let (mut publisher, cell) = weight_cell(first_weights());
        let (mut source, _reports) = InlineSource::new(
            make,
            NO_PAUSE,
            cell,
            (links.steps, links.token),
            &Notifier::new(),
            ResumedSeats::default(),
        )
        .unwrap();
        source.next(LONG).unwrap().take_ticket().unwrap().trained();
        publisher.publish(bad);
        let Err(NextError::Failed(failure)) = source.next(LONG) else { panic!("it gives up") };
        let words = words.replace("version 0", "version 1");
        assert!(failure.to_string().starts_with(&words), "{failure}");
        assert_eq!(steps.snapshot().sampled, counted(&diary));
        assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight == Steps::default());
    }
    let (links, _steps, _guard) = links();
    let mut worker = make_workers(factory(&Diary::default(), Manner::Together, |_| None), &links)(&seat(1)).unwrap();
    let error = worker.sample(&weights(2, &["a"], 0.0), &mut clock()).expect_err("no weights for b");
    assert_eq!(error.to_string(), "version 2 of the weights holds none of policy `b`");
}

#[test]
fn on_threads_the_ledgers_close_at_every_instant_while_environments_fail_at_random() {
    let diary = Diary::default();
    let (links, steps, shutdown) = links();
    let token = links.token.clone();
    let (sender, fragments) = inqueue(2, Gate::Bounded, &token).unwrap();
    let (_publisher, cell) = weight_cell(first_weights());
    let plant = |context: &EnvContext| {
        let (mishap, _) = MISHAPS[context.seed as usize % MISHAPS.len()];
        Some((1 + (context.seed % 61) as u32, mishap))
    };
    let make = make_workers(factory(&diary, Manner::AtRandom, plant), &links);
    let patient = RestartPolicy { num_consecutive_worker_failures_tolerance: 1000, ..NO_PAUSE };
    let set = WorkerSetConfig { restart: patient, env_hang_timeout: None, first_worker: 1 };
    let time = TimeLedger::new();
    let notifier = Notifier::new();
    let ends = vec![WorkerEnds::free(cell, sender); 3];
    let edges = WorkerEdges {
        ends,
        notifier,
        time: time.clone(),
        steps: steps.clone(),
        helper: None,
        resumed: ResumedSeats::default(),
    };
    let set = WorkerSet::start(set, make, token, edges).unwrap();

    let (mut restarts, mut trained, began) = (0, Steps::default(), Instant::now());
    while restarts < 100 {
        assert!(began.elapsed() < LONG, "{restarts} restarts");
        assert!(steps.snapshot().is_closed(), "{:?}", steps.snapshot());
        if let Ok(mut fragment) = fragments.pop(Duration::from_millis(10)) {
            trained += fragment.steps();
            fragment.take_ticket().unwrap().trained();
        }
        restarts += set.reports().drain().iter().map(|report| report.restarts).sum::<u64>();
    }
    drop(shutdown);
    let outcome = set.join(LONG);
    assert!(outcome.failure.is_none() && outcome.not_joined.is_empty(), "{:?}", outcome.failure);
    fragments.drain().for_each(drop);
    let totals = steps.snapshot();
    assert_eq!((totals.trained_once, totals.in_flight), (trained, Steps::default()));
    assert_eq!(totals.sampled, counted(&diary), "{totals:?}");
    assert!(totals.is_closed() && time.is_closed());
    for key in ["env_error", "env_panic", "non_finite_observation", "nothing_possible"] {
        assert!(totals.lost[key].agent > 0, "{key}: {totals:?}");
    }
}
