use super::*;
use pronk_rollout::{EpisodeStat, ReturnStat};

use crate::wire::{KindTime, News, Over};

fn seconds(kind: &str, secs: f64) -> KindTime {
    KindTime { kind: kind.into(), wall_secs: secs, states: vec![("waiting".into(), secs)], threads: 2 }
}

fn time_of(bench: &Bench, thread: &str) -> Option<f64> {
    bench.time.read().iter().find(|time| time.thread == thread).map(|time| time.wall_secs)
}

#[test]
fn a_beat_is_answered_after_the_interval() {
    let bench = Bench::new();
    let mut host = bench.host("a");
    let beat = host.next_beat();
    let reply = host.beat(&beat);
    let now = Instant::now();
    bench.desk.look_after(now);
    assert!(reply.waits());
    bench.desk.look_after(now + bench.desk.run.terms.beat);
    assert!(matches!(reply.now(), Some(Answer::Taken(News { drains: false, .. }))));
    bench.assert_closed();
}

#[test]
fn waiting_beats_are_answered_as_soon_as_the_run_drains_or_ends() {
    let bench = Bench::new();
    let mut host = bench.host("a");
    let beat = host.next_beat();
    let waits = host.beat(&beat);
    bench.steps.limit_env_steps(0);
    bench.desk.look_after(Instant::now());
    assert!(matches!(waits.now(), Some(Answer::Taken(News { drains: true, .. }))));
    // The next is answered at once, unless the host knows.
    let beat = host.next_beat();
    assert!(matches!(host.beat(&beat).now(), Some(Answer::Taken(News { drains: true, .. }))));
    let beat = Beat { drains: true, ..host.next_beat() };
    let waits = host.beat(&beat);
    assert!(waits.waits());
    bench.desk.close(Over::Finished);
    assert!(matches!(waits.now(), Some(Answer::Over(Over::Finished))));
    let beat = host.next_beat();
    assert!(matches!(host.beat(&beat).now(), Some(Answer::Over(Over::Finished))));
    bench.assert_closed();
}

#[test]
fn a_beat_that_waits_since_before_the_end_was_known_is_told_at_the_next_look() {
    let bench = Bench::new();
    let mut host = bench.host("a");
    bench.desk.close(Over::Stopped);
    let session = bench.desk.members().sessions.values().next().cloned().unwrap();
    let (reply, replied) = bounded(1);
    session.park_beat(Reply::new(move |bytes| reply.try_send(bytes).unwrap())).unwrap();
    bench.desk.look_after(Instant::now());
    assert!(matches!(Replied(replied).now(), Some(Answer::Over(Over::Stopped))));
    // Nor does one wait for an ended session.
    bench.desk.end_all();
    assert!(session.park_beat(Reply::new(|_| {})).is_err());
    let beat = host.next_beat();
    assert!(matches!(host.beat(&beat).now(), Some(Answer::Gone)));
}

#[test]
fn a_beat_that_is_asked_again_is_counted_once() {
    let bench = Bench::new();
    let mut host = bench.host("a");
    let report = WorkerReport { fragments: 3, n_episodes: 2, return_sum: 5.0, ..WorkerReport::default() };
    let beat = Beat { report, statement: made(5), times: vec![seconds("rollout", 2.0)], ..host.next_beat() };
    let (first, second) = (host.beat(&beat), host.beat(&beat));
    assert!(first.is_dropped() && second.waits());
    let reports = bench.reports.drain();
    assert_eq!((reports.len(), reports[0].fragments, reports[0].return_sum), (1, 3, 5.0));
    assert_eq!((bench.steps.snapshot().sampled, time_of(&bench, "a/rollout")), (steps(5), Some(2.0)));
    bench.assert_closed();
}

#[test]
fn a_beat_out_of_order_ends_the_session() {
    let bench = Bench::new();
    let mut host = bench.host("a");
    let _ = host.next_beat();
    let beat = host.next_beat();
    assert_foreign(&host.beat(&beat), "beat 2 came where 1 was due");
    assert_eq!(bench.sessions(), 0);
    bench.assert_closed();
}

#[test]
fn the_time_of_a_host_that_left_is_added_up_and_not_in_its_name() {
    let bench = Bench::new();
    let (mut a, mut b) = (bench.host("a"), bench.host("a/b"));
    for (host, secs) in [(&mut a, 2.0), (&mut b, 3.0)] {
        let beat = Beat { times: vec![seconds("rollout", secs), seconds("beat", secs)], ..host.next_beat() };
        drop(host.beat(&beat));
    }
    let last = Beat { times: vec![seconds("rollout", 2.5)], leaves: Some("why".into()), ..a.next_beat() };
    assert!(matches!(a.beat(&last).now(), Some(Answer::Taken(_))));
    assert_eq!((time_of(&bench, "a/rollout"), time_of(&bench, "left/rollout")), (None, Some(2.5)));
    assert_eq!((time_of(&bench, "left/beat"), time_of(&bench, "a/b/rollout")), (Some(2.0), Some(3.0)));
    assert!(matches!(a.beat(&last).now(), Some(Answer::Gone)));
    bench.desk.end_all();
    assert_eq!((time_of(&bench, "left/rollout"), bench.time.read().len()), (Some(5.5), 2));
    bench.assert_closed();
}

#[test]
fn the_time_of_hosts_that_are_not_listed_is_added_up() {
    let bench = Bench::with(Terms { max_hosts: 100, max_of_name: 100, ..terms() }, 64);
    let mut hosts: Vec<_> = (0..67).map(|_| bench.host("a")).collect();
    let report = |host: &mut Host<'_>, kind: &str, secs: f64| {
        let beat = Beat { times: vec![seconds(kind, secs)], ..host.next_beat() };
        assert!(host.beat(&beat).waits());
    };
    hosts.iter_mut().for_each(|host| report(host, "rollout", 2.0));
    report(&mut hosts[66], "rollout", 5.0);
    report(&mut hosts[66], "beat", 1.0);
    let of = |thread: &str| time_of(&bench, thread);
    assert_eq!((of("a#64/rollout"), of("a#65/rollout")), (Some(2.0), None));
    assert_eq!((of("others/rollout"), of("others/beat"), bench.time.read().len()), (Some(9.0), Some(1.0), 66));
    let threads = |name: &str| bench.time.read().iter().find(|time| time.thread == name).map(|time| time.n_threads);
    assert_eq!(threads("others/rollout"), Some(3 * threads("a/rollout").unwrap()));
    // One that is not listed leaves, one that is, and one comes in its place.
    drop(hosts.remove(66).leave(Statement::default()));
    drop(hosts.remove(0).leave(Statement::default()));
    assert_eq!((of("others/rollout"), of("others/beat"), of("left/rollout")), (Some(4.0), Some(0.0), Some(7.0)));
    report(&mut bench.host("b"), "rollout", 3.0);
    assert_eq!(of("b/rollout"), Some(3.0));
    bench.desk.end_all();
    assert_eq!((of("others/rollout"), of("left/rollout")), (Some(0.0), Some(66.0 * 2.0 + 5.0 + 3.0)));
    bench.assert_closed();
}

#[test]
fn hosts_that_come_and_go_and_invent_kinds_add_no_accounts_for_ever() {
    let bench = Bench::new();
    for stay in 0..10 {
        let mut host = bench.host("a");
        for kinds in [0..30, 30..32] {
            let times = kinds.map(|kind| seconds(&format!("{stay}-{kind}"), 1.0)).collect();
            let beat = Beat { times, ..host.next_beat() };
            assert!(host.beat(&beat).waits());
        }
        if stay == 9 {
            let beat = Beat { times: vec![seconds("another", 1.0)], ..host.next_beat() };
            assert_foreign(&host.beat(&beat), "more than 32 kinds");
        }
        bench.desk.end_all();
    }
    assert!(bench.time.read().len() <= 33, "{}", bench.time.read().len());
    let total: f64 = bench.time.read().iter().map(|time| time.wall_secs).sum();
    assert_eq!(total, 320.0);
    bench.assert_closed();
}

#[test]
fn reports_that_no_host_can_have_end_the_session_and_spoil_no_figure() {
    let episode = EpisodeStat { worker: 10, index: 0, seed: 0, episode_return: 1.0, episode_len: 3 };
    let policy = |name: &str, sum| ByPolicy::from([(name.into(), ReturnStat { sum, ..ReturnStat::of(1.0) })]);
    let fine = WorkerReport { episodes: vec![episode; 1024], policy_returns: policy("p", -1e9), ..Default::default() };
    let d = WorkerReport::default;
    let wrong = [
        WorkerReport { return_sum: f64::NAN, ..d() },
        WorkerReport { return_sum: f64::INFINITY, ..d() },
        WorkerReport { return_min: Some(f64::NEG_INFINITY), ..d() },
        WorkerReport { return_max: Some(1e60), ..d() },
        WorkerReport { policy_returns: policy("p", f64::NAN), ..d() },
        WorkerReport { policy_returns: policy("another", 1.0), ..d() },
        WorkerReport { episodes: vec![episode; 1025], ..d() },
        WorkerReport { episodes: vec![EpisodeStat { worker: 12, ..episode }], ..d() },
        WorkerReport { episodes: vec![EpisodeStat { episode_return: f64::NAN, ..episode }], ..d() },
        WorkerReport { fragments: u64::MAX, ..d() },
        WorkerReport { steps: steps(u64::MAX), ..d() },
        WorkerReport { len_sum: u64::MAX, ..d() },
        WorkerReport { failures: vec![String::new(); 33], ..d() },
    ];
    for report in wrong {
        let bench = Bench::new();
        let mut host = bench.host("a");
        let beat = Beat { report: fine.clone(), ..host.next_beat() };
        assert!(host.beat(&beat).waits());
        assert_eq!(bench.reports.drain().len(), 1);
        let beat = Beat { report, ..host.next_beat() };
        assert_foreign(&host.beat(&beat), "it reports");
        assert!(bench.reports.drain().is_empty());
        bench.assert_closed();
    }
}

#[test]
fn times_that_no_host_can_have_end_the_session() {
    let wrong = [
        seconds("rollout", f64::NAN),
        seconds("rollout", f64::INFINITY),
        seconds("rollout", 1e300),
        seconds("rollout", -1.0),
        seconds("", 1.0),
        seconds("a/b", 1.0),
        seconds(&"x".repeat(65), 1.0),
        KindTime { threads: u64::MAX, ..seconds("rollout", 1.0) },
        KindTime { states: vec![("waiting".into(), 0.0); 65], ..seconds("rollout", 1.0) },
    ];
    for time in wrong {
        let bench = Bench::new();
        let mut host = bench.host("a");
        let beat = Beat { times: vec![time], ..host.next_beat() };
        assert_foreign(&host.beat(&beat), "it states a time");
        bench.assert_closed();
    }
}

#[test]
fn texts_of_hosts_are_cut_and_named() {
    let bench = Bench::new();
    let mut host = bench.host("a");
    let report = WorkerReport { n_failures: 1, failures: vec!["é".repeat(100_000)], ..WorkerReport::default() };
    let beat = Beat { report, ..host.next_beat() };
    drop(host.beat(&beat));
    let failures = &bench.reports.drain()[0].failures;
    assert!(failures[0].starts_with("a: é") && failures[0].len() < 5000);
    bench.assert_closed();
}
