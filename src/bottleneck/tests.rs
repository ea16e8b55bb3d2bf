use super::*;

fn time(thread: &str, states: &[(&'static str, f64)]) -> ThreadTime {
    ThreadTime {
        thread: thread.to_owned(),
        wall_secs: states.iter().map(|(_, secs)| secs).sum(),
        states: states.to_vec(),
        current: None,
        since_secs: 0.0,
        n_threads: 1,
        n_switches: 0,
        processor_secs: None,
    }
}

/// A run of ten seconds: how long the learner starved, and each of the workers was blocked.
fn run(starved: f64, blocked: &[f64]) -> Vec<ThreadTime> {
    let mut threads = vec![time("learner", &[("starting", 5.0), ("starved", starved), ("learning", 10.0 - starved)])];
    for (index, blocked) in blocked.iter().enumerate() {
        let states = [("stepping", 8.0 - blocked), ("inferring", 2.0), ("blocked", *blocked)];
        threads.push(time(&format!("rollout-{}", index + 1), &states));
        threads.push(time(&format!("rollout-{}-envs-0", index + 1), &[("waiting", 10.0), ("stepping", 0.0)]));
    }
    threads
}

fn find(threads: &[ThreadTime], n_workers: usize, busy: f64) -> Bottleneck {
    Bottleneck::find(threads, &[], Some(n_workers), Some(Processors { busy, available: 8 })).expect("there was time")
}

#[test]
fn a_starved_learner_asks_for_as_many_workers_as_keep_it_busy() {
    let found = find(&run(6.25, &[0.0, 0.0, 0.0]), 3, 1.0);
    assert_eq!(found.limit, Limit::Environments);
    let Some(Advice { from: 3, to: 6, speedup, .. }) = found.advice else { panic!("{found:?}") };
    assert!((speedup - 2.0).abs() < 1e-9, "not farther than twice: {speedup}");

    let found = find(&run(4.0, &[0.0, 0.0, 0.0]), 3, 1.0);
    assert_eq!(found.to_string(), "learner starved 40 %: environments are the limit; 2 more workers ⇒ about 1.7×");
}

#[test]
fn processors_end_what_more_workers_would_bring() {
    let found = find(&run(8.0, &[0.0]), 1, 5.0);
    let advice = found.advice.expect("there is room for 1.6 times as much");
    assert!((advice.speedup - 1.6).abs() < 1e-9);
    let found = find(&run(8.0, &[0.0]), 1, 7.9);
    assert_eq!((found.limit, found.advice), (Limit::Processors, None));
    assert_eq!(found.to_string(), "7.9 of 8 processors busy: the machine is the limit");
}

#[test]
fn two_sides_that_wait_at_once_lack_processors() {
    let found = find(&run(6.3, &[8.0]), 1, 0.6);
    assert_eq!((found.limit, found.advice), (Limit::Processors, None));
    let sentence = "learner starved 63 % while workers blocked 80 %: both wait for processors, which other programs or \
                    a quota take: the machine is the limit";
    assert_eq!(found.to_string(), sentence);
    // Up to this they may have waited in turn.
    assert_eq!(find(&run(4.0, &[6.5]), 1, 0.6).limit, Limit::Learner);
    // A stage between them explains it.
    let mut threads = run(6.3, &[8.0]);
    threads.push(time("loader-0", &[("loading", 9.5), ("waiting_for_data", 0.5)]));
    assert_eq!(find(&threads, 1, 0.6).limit, Limit::Loading);
}

#[test]
fn no_advice_promises_more_than_the_machine_has_left() {
    // One thread that spends half its time waiting for environment processes: both processors are nearly
    // busy.
    let worker = time("rollout-0", &[("stepping", 5.0), ("idle", 5.0)]);
    let child = time("env-process-1", &[("stepping", 5.0), ("waiting", 5.0)]);
    let threads = [time("learner", &[("starved", 5.0), ("learning", 5.0)]), worker, child];
    for busy in [0.5, 1.0, 1.5, 1.92, 2.0, 2.1] {
        let used = Processors { busy, available: 2 };
        let one_thread = Bottleneck::find(&threads, &[], None, Some(used)).expect("there was time");
        let advice = one_thread.advice;
        assert!(advice.is_none_or(|advice| advice.speedup * busy <= 2.0), "{busy} busy: {advice:?}");
        assert_eq!(advice.is_some(), busy <= 1.5, "{busy} busy: {advice:?}");
        let workers = Bottleneck::find(&run(8.0, &[0.0]), &[], Some(1), Some(used)).expect("there was time");
        let advice = workers.advice;
        assert!(advice.is_none_or(|advice| advice.speedup * busy <= 2.0), "{busy} busy: {advice:?}");
        assert_eq!((workers.limit == Limit::Processors, advice.is_some()), (busy >= 1.8, busy <= 1.5), "{advice:?}");
    }
}

#[test]
fn couriers_that_never_wait_make_the_network_the_limit() {
    let of_hosts = |network: f64, held: f64| {
        let waiting = 20.0 - network - held;
        vec![
            time("learner", &[("starved", 8.0), ("learning", 2.0)]),
            time("a/rollout", &[("stepping", 4.9), ("inferring", 1.0), ("blocked", 4.1)]),
            time("a/courier", &[("waiting", waiting), ("packing", 0.0), ("network", network), ("held", held)]),
        ]
    };
    let found = find(&of_hosts(19.0, 1.0), 0, 1.0);
    assert_eq!(found.limit, Limit::Network);
    assert_eq!(found.to_string(), "learner starved 80 %, network: 41 % of the actors' time: the network is the limit");
    assert_eq!(find(&of_hosts(4.0, 1.0), 0, 1.0).limit, Limit::Environments);
}

#[test]
fn hosts_that_have_left_or_have_not_reported_do_not_outweigh_the_workers_that_have() {
    let host = |thread: &str| time(thread, &[("stepping", 1.0), ("inferring", 0.0), ("blocked", 99.0)]);
    let before = [time("learner", &[("starved", 0.0), ("learning", 0.0)]), host("a/rollout"), host("left/rollout")];
    let worker = time("rollout-1", &[("stepping", 9.0), ("inferring", 1.0), ("blocked", 0.0)]);
    let learner = time("learner", &[("starved", 7.0), ("learning", 3.0)]);
    let now = [learner.clone(), host("a/rollout"), host("left/rollout"), worker];
    assert_eq!(Bottleneck::find(&now, &before, Some(1), None).expect("there was time").blocked, Some(0.0));
    // Without other workers, what the host has reported so far counts.
    let now = [learner, host("a/rollout"), host("left/rollout")];
    assert_eq!(Bottleneck::find(&now, &before, Some(0), None).expect("there was time").blocked, Some(0.99));
}

#[test]
fn a_worker_whose_processes_step_is_busy_with_environments() {
    // It nearly always waits for its process, which in turn waits during inference.
    let worker = time("rollout-1", &[("stepping", 9.0), ("inferring", 1.0), ("blocked", 0.0)]);
    let child = time("env-process-1", &[("stepping", 8.9), ("waiting", 1.1)]);
    let threads = [time("learner", &[("starved", 7.0), ("learning", 3.0)]), worker, child];
    let found = find(&threads, 1, 1.2);
    assert_eq!(found.limit, Limit::Environments);
    assert_eq!(found.to_string(), "learner starved 70 %: environments are the limit; 1 more worker ⇒ about 2.0×");
}

#[test]
fn blocked_workers_say_how_many_would_do() {
    let found = find(&run(0.0, &[7.0, 7.0, 7.0, 7.0]), 4, 2.0);
    assert_eq!(found.to_string(), "workers blocked or helping 70 %: the learner is the limit; 2 of 4 workers would do");
    let found = find(&run(0.0, &[7.0]), 1, 2.0);
    assert_eq!((found.limit, found.advice), (Limit::Learner, None));
}

#[test]
fn who_hardly_waits_is_in_balance() {
    let found = find(&run(0.5, &[0.8]), 1, 2.0);
    assert_eq!(found.to_string(), "learner starved 5 %, workers blocked 8 %: they are about equally fast");
}

#[test]
fn a_shared_inference_thread_that_is_always_busy_is_the_limit() {
    // Workers that step or wait for inference, and an inference thread that is nearly always busy.
    let worker = |name| time(name, &[("stepping", 2.0), ("inferring", 7.9), ("blocked", 0.1)]);
    let learner = time("learner", &[("starved", 6.0), ("learning", 4.0)]);
    let inference = time("inference", &[("waiting", 0.2), ("inferring", 9.8)]);
    let found = find(&[learner, worker("rollout-1"), worker("rollout-2"), inference], 2, 2.0);
    assert_eq!((found.limit, found.advice), (Limit::Inference, None));
    assert_eq!(found.to_string(), "learner starved 60 %: the inference thread is the limit");
}

#[test]
fn learner_and_workers_that_wait_for_each_other_are_limited_by_the_order() {
    let worker = |name, awaiting| time(name, &[("stepping", 10.0 - awaiting), ("awaiting", awaiting)]);
    let learner = || time("learner", &[("starved", 3.0), ("learning", 7.0)]);
    let even = find(&[learner(), worker("rollout-1", 2.5), worker("rollout-2", 3.5)], 2, 1.0);
    assert_eq!((even.limit, even.advice), (Limit::AdmissionOrder, None));
    assert_eq!(
        even.to_string(),
        "learner starved 30 %, workers awaiting their turn 30 %: the order of admission is the limit; a larger lag \
         or more fragments in a train batch let them overlap more"
    );
    let uneven = find(&[learner(), worker("rollout-1", 4.0), worker("rollout-2", 0.2)], 2, 1.0);
    assert_eq!(uneven.slowest_worker.as_deref(), Some("rollout-2"));
    assert!(uneven.to_string().ends_with("rollout-2 is slower than the others, which no lag makes up for"));
    // A learner that is always busy makes turns scarce, and workers that are always busy make data
    // scarce.
    let busy = time("learner", &[("starved", 0.2), ("learning", 9.8)]);
    assert_eq!(find(&[busy, worker("rollout-1", 5.0)], 1, 1.0).limit, Limit::Learner);
    assert_eq!(find(&[learner(), worker("rollout-1", 0.2)], 1, 1.0).limit, Limit::Environments);
}

#[test]
fn only_the_time_between_two_readings_counts() {
    let before = run(9.0, &[0.0]);
    let now: Vec<_> = before
        .iter()
        .zip(run(0.0, &[6.0]))
        .map(|(before, later)| {
            let mut sum = before.clone();
            sum.add(&later);
            sum
        })
        .collect();
    let found = Bottleneck::find(&now, &before, Some(1), None).expect("there was time");
    assert_eq!((found.limit, found.starved), (Limit::Learner, 0.0));
    assert_eq!(Bottleneck::find(&before, &before, Some(1), None), None, "no time has passed");
    assert_eq!(Bottleneck::find(&[], &[], Some(1), None), None);
}

#[test]
fn one_thread_gains_what_can_go_on_at_once() {
    // Of ten seconds, the worker and the learner had three each; other programs had the rest.
    let worker = time("rollout-0", &[("starting", 1.0), ("stepping", 2.0), ("inferring", 1.0), ("idle", 6.0)]);
    let threads = [time("learner", &[("starved", 7.0), ("learning", 3.0)]), worker];
    let find = |available| Bottleneck::find(&threads, &[], None, Some(Processors { busy: 1.0, available }));
    let found = find(2).expect("there was time");
    assert_eq!(
        found.to_string(),
        "one thread does everything, for 50 % of its time it makes data; a worker with its own thread ⇒ about 2.0×"
    );
    assert_eq!(find(1).expect("there was time").advice, None);
}

#[test]
fn the_dict_has_the_sentence_and_its_figures() {
    let json = find(&run(4.0, &[0.0, 0.0, 0.0]), 3, 1.0).to_json();
    assert_eq!((&json["limit"], &json["advice"]["to"]), (&json!("environments"), &json!(5)));
    assert_eq!(
        json["sentence"],
        json!("learner starved 40 %: environments are the limit; 2 more workers ⇒ about 1.7×")
    );
}

#[test]
fn an_evaluator_is_no_stage_of_the_run() {
    let mut threads = run(4.0, &[2.0, 2.0, 2.0]);
    let without = find(&threads, 3, 1.0);
    threads.push(time("evaluator", &[("waiting", 1.0), ("evaluating", 9.0), ("saving", 0.0)]));
    assert_eq!(find(&threads, 3, 1.0), without);
    // But what it computes keeps processors busy.
    assert_eq!(find(&threads, 3, 7.9).limit, Limit::Processors);
}

#[test]
fn data_that_is_too_old_is_named_with_its_worth_and_lag() {
    assert_eq!(OldData::find(Some(0.8), Some(30.0)), None);
    assert_eq!(OldData::find(None, Some(30.0)), None, "an algorithm that does not report it");
    assert_eq!(OldData::find(Some(0.1), Some(0.4)), None, "passes, not lag");
    let old_data = OldData::find(Some(0.21), Some(30.2));
    let found = find(&run(0.0, &[0.0]), 1, 1.0).with_old_data(old_data);
    let sentence = found.to_string();
    assert!(sentence.contains("; effective sample size 0.21 at lag 30: less lag (fewer workers"), "{sentence}");
    assert_eq!(found.to_json()["sentence"], sentence);
}

#[test]
fn old_data_silences_advice_that_would_make_it_older() {
    let old_data = OldData::find(Some(0.21), Some(30.2));
    let advice = |to| Some(Advice { setting: "num_rollout_workers", from: 2, to, speedup: 1.0 });
    let with = |limit, to| {
        let found = Bottleneck { limit, slowest_worker: None, advice: advice(to), ..find(&run(0.0, &[0.0]), 1, 1.0) };
        (found.clone().with_old_data(None), found.with_old_data(old_data))
    };
    let (without, more) = with(Limit::Environments, 4);
    assert_eq!((without.advice, more.advice), (advice(4), None));
    assert_eq!(with(Limit::Learner, 1).1.advice, advice(1), "fewer workers");
    let (without, order) = with(Limit::AdmissionOrder, 2);
    assert!(without.to_string().contains("a larger lag") && !order.to_string().contains("a larger lag"), "{order}");
}
