use super::*;
use crate::wire::{Over, PROTOCOL, Refusal};

fn refusal(door: Door) -> Refusal {
    match door {
        Door::Refused(refusal) => refusal,
        door => panic!("{door:?}"),
    }
}

#[test]
fn a_host_is_welcomed_and_gets_numbers_that_no_other_has_had() {
    let bench = Bench::new();
    match bench.knock("a", &Knock::Hello(hello())) {
        Door::Welcome(welcome) => assert_eq!((welcome.run, &*welcome.config), (7, "settings")),
        door => panic!("{door:?}"),
    }
    let first = bench.host("a").joined;
    bench.desk.end_all();
    let second = bench.host("a").joined;
    assert_eq!((first.first_worker, first.credits, second.first_worker), (10, 3, 12));
    bench.assert_closed();
}

#[test]
fn what_differs_is_refused_by_name_with_both_values() {
    let bench = Bench::new();
    let other = Hello { version: "0.0.1".into(), ..hello() };
    match refusal(bench.knock("a", &Knock::Hello(other))) {
        Refusal::Differs { what, learner, actor } => {
            assert_eq!((&*what, &*learner, &*actor), ("version of pronk", env!("CARGO_PKG_VERSION"), "0.0.1"));
        }
        refusal => panic!("{refusal:?}"),
    }
    let facts = [(Facts::from([("spaces".into(), "4 to 3".into())]), "4 to 3"), (Facts::new(), "none")];
    for (facts, actor) in facts {
        let refusal = refusal(bench.knock("a", &Knock::Join(Join { facts, ..join() })));
        let (what, learner) = ("spaces".into(), "4 to 2".into());
        assert_eq!(refusal, Refusal::Differs { what, learner, actor: actor.into() });
    }
    let mut facts = join().facts;
    facts.insert("x".repeat(1 << 20), "y".repeat(1 << 20));
    let text = refusal(bench.knock("a", &Knock::Join(Join { facts, ..join() }))).to_string();
    assert!(text.len() < 10_000);
    assert_eq!(bench.sessions(), 0);
}

#[test]
fn another_protocol_and_garbage_are_refused_and_say_what_was_read() {
    let bench = Bench::new();
    let mut other = seal(&Knock::Hello(hello()), &[]).to_vec();
    other[6] += 1;
    let garbage = [other, b"GET / HTTP/1.1\r\n".to_vec(), Vec::new(), seal(&0_u8, &[])[..10].to_vec()];
    for (bytes, what) in garbage.into_iter().zip(["protocol 2", "no message", "0 bytes", "damaged"]) {
        match refusal(bench.send("a", Op::Join, bytes.into()).now().unwrap()) {
            Refusal::Differs { learner, actor, .. } => {
                assert!(learner == PROTOCOL.to_string() && actor.contains(what), "{actor}");
            }
            refusal => panic!("{refusal:?}"),
        }
    }
}

#[test]
fn limits_of_hosts_and_workers_are_kept() {
    let bench = Bench::new();
    for workers in [0, 5, u32::MAX] {
        let hello = Hello { workers, ..hello() };
        let refusals = [Knock::Hello(hello.clone()), Knock::Join(Join { hello, ..join() })];
        for knock in refusals {
            assert_eq!(refusal(bench.knock("a", &knock)), Refusal::Workers { asked: workers, limit: 4 });
        }
    }
    let _hosts = ["a", "b", "c"].map(|name| bench.host(name));
    let full = refusal(bench.knock("d", &Knock::Join(join())));
    assert_eq!(full, Refusal::Full { what: "hosts".into(), limit: 3 });
    bench.assert_closed();
}

#[test]
fn numbers_of_workers_that_run_out_are_refused() {
    let bench = Bench::with(Terms { max_workers: u32::MAX, ..terms() }, 8);
    let sixteenth = |name: &str| {
        let session = Join { hello: Hello { workers: u32::MAX / 16, ..hello() }, ..join() };
        bench.knock(name, &Knock::Join(session))
    };
    for name in 0..16 {
        let name = format!("host-{name}");
        let Door::Joined(joined) = sixteenth(&name) else { panic!("not let in") };
        // Only by joining again and again does a host take so many.
        let _ = Host { bench: &bench, from: name.clone(), joined, beats: 0 }.leave(Statement::default());
        let refused = refusal(sixteenth(&name));
        assert!(matches!(&refused, Refusal::Exhausted { what, .. } if what.contains("one name")), "{refused}");
    }
    let refused = refusal(sixteenth("another"));
    assert_eq!(refused, Refusal::Exhausted { what: "numbers of workers".into(), limit: u32::MAX.into() });
    assert!(refused.to_string().contains("restart it"), "{refused}");
    bench.assert_closed();
}

#[test]
fn names_are_forgotten_but_for_those_of_sessions_and_of_hosts_that_broke_the_rules() {
    let bench = Bench::new();
    let names = || bench.desk.members().names.len();
    let visit = |number: u32| {
        let host = bench.host(&format!("host-{number}"));
        let _ = host.leave(Statement::default());
    };
    let breaks = |number: u32| {
        let host = bench.host(&format!("host-{number}"));
        assert_foreign(&host.ship(1, 2, 20), "shipment 2");
    };
    let _stays = bench.host("stays");
    (0..3).for_each(|_| breaks(0));
    (1..6_000).for_each(visit);
    assert!(names() <= 4096);
    assert!(matches!(refusal(bench.knock("host-0", &Knock::Hello(hello()))), Refusal::ShutOut { .. }));
    (1..4095).for_each(breaks);
    // As the place of another that broke the rules would be needed.
    match refusal(bench.knock("host-5000", &Knock::Join(join()))) {
        Refusal::Exhausted { what, limit } => assert_eq!((what.as_str(), limit), ("names of hosts", 4096)),
        refusal => panic!("{refusal:?}"),
    }
    assert_eq!(names(), 4096);
    bench.assert_closed();
}

#[test]
fn an_attempt_to_join_that_is_asked_again_begins_no_second_session() {
    let bench = Bench::new();
    let attempt = join();
    let again = || match bench
        .ask("a", Op::Join, &Knock::Join(Join { facts: attempt.facts.clone(), ..join_of(&attempt) }))
        .now()
    {
        Some(Door::Joined(joined)) => joined,
        door => panic!("{door:?}"),
    };
    assert_eq!(again(), again());
    assert_eq!(bench.sessions(), 1);
    // Another host is another one, whatever number it has drawn.
    match bench.knock("b", &Knock::Join(join_of(&attempt))) {
        Door::Joined(joined) => assert_ne!(joined, again()),
        door => panic!("{door:?}"),
    }
    assert_eq!(bench.desk.members().joined, 2);
    bench.assert_closed();
}

fn join_of(attempt: &Join) -> Join {
    Join { attempt: attempt.attempt, ..join() }
}

#[test]
fn a_copy_of_an_attempt_that_arrives_after_its_session_begins_no_other() {
    let bench = Bench::new();
    let attempt = join();
    let Door::Joined(joined) = bench.knock("a", &Knock::Join(join_of(&attempt))) else { panic!("not let in") };
    let host = Host { bench: &bench, from: "a".into(), joined, beats: 0 };
    let _ = host.leave(Statement::default());
    assert_eq!(refusal(bench.knock("a", &Knock::Join(join_of(&attempt)))), Refusal::Outdated);
    assert_eq!(bench.sessions(), 0);
    bench.assert_closed();
}

#[test]
fn one_name_cannot_take_all_places() {
    let bench = Bench::with(Terms { max_of_name: 2, ..terms() }, 8);
    let _hosts = ["a", "a"].map(|name| bench.host(name));
    let full = refusal(bench.knock("a", &Knock::Join(join())));
    assert_eq!(full, Refusal::Full { what: "hosts of one name".into(), limit: 2 });
    let _other = bench.host("b");
    bench.assert_closed();
}

#[test]
fn credits_are_one_more_than_workers_until_many_hosts_share_them_and_come_back_when_hosts_leave() {
    let terms = Terms { max_hosts: 1024, max_of_name: 1024, max_workers: 256, ..Terms::default() };
    let bench = Bench::with(terms, 8);
    let joined = |workers| match bench.knock("a", &Knock::Join(Join { hello: Hello { workers, ..hello() }, ..join() }))
    {
        Door::Joined(joined) => joined.credits,
        door => panic!("{door:?}"),
    };
    assert_eq!([joined(1), joined(8), joined(64)], [2, 9, 65]);
    let many: Vec<u32> = (3..1024).map(|_| joined(64)).collect();
    assert!(many.iter().take(20).all(|credits| *credits == 65), "{many:?}");
    assert!(many.is_sorted_by(|a, b| a >= b) && many.last().is_some_and(|credits| *credits >= 2), "{many:?}");
    assert!(76 + many.iter().sum::<u32>() <= 4096);
    // The first do not take all: what is left is shared by more and more, until each gets the least.
    assert!(many.iter().filter(|credits| (3..65).contains(*credits)).count() > 20, "{many:?}");
    bench.desk.end_all();
    assert_eq!(joined(64), 65);
    bench.assert_closed();
}

#[test]
fn joining_anew_ends_the_session_before_and_only_that_of_the_same_host() {
    let bench = Bench::new();
    let (a, b) = (bench.host("a"), bench.host("b"));
    let parked = a.ship(0, 1, 20);
    let knock = |before| Knock::Join(Join { before: Some(before), ..join() });
    assert!(matches!(bench.knock("a", &knock(b.joined.session)), Door::Joined(_)));
    assert_eq!(bench.sessions(), 3);
    // Full, but for the place of the session that ends.
    assert!(matches!(bench.knock("a", &knock(a.joined.session)), Door::Joined(_)));
    assert!(matches!(parked.now(), Some(Answer::Gone)));
    assert_eq!((bench.sessions(), bench.lost()), (3, 20));
    assert!(matches!(a.ship(0, 1, 20).now(), Some(Answer::Gone)));
    bench.assert_closed();
}

#[test]
fn sessions_of_one_name_have_numbered_names_in_results() {
    let bench = Bench::with(Terms { max_hosts: 4, ..terms() }, 8);
    let hosts = ["a", "a", "left", "a.example"].map(|name| bench.host(name));
    let names = || -> Vec<String> {
        let mut sessions: Vec<_> = bench.desk.members().sessions.values().cloned().collect();
        sessions.sort_by_key(|session| session.workers.start);
        sessions.iter().map(|session| session.name.clone()).collect()
    };
    // `left` is the account of all hosts that have left.
    assert_eq!(names(), ["a", "a#2", "left#2", "a-example"]);
    let [first, ..] = hosts;
    let _ = first.leave(Statement::default());
    let _ = bench.host("a");
    assert_eq!(names(), ["a#2", "left#2", "a-example", "a"]);
    bench.assert_closed();
}

#[test]
fn a_host_that_knows_an_earlier_process_of_the_learner_is_welcomed_anew() {
    let bench = Bench::new();
    match bench.knock("a", &Knock::Join(Join { run: 6, ..join() })) {
        Door::Welcome(welcome) => assert_eq!(welcome.run, 7),
        door => panic!("{door:?}"),
    }
    assert_eq!(bench.sessions(), 0);
}

#[test]
fn nobody_is_let_in_while_the_run_drains_or_once_it_is_over() {
    let bench = Bench::new();
    bench.steps.limit_env_steps(0);
    for knock in [Knock::Hello(hello()), Knock::Join(join())] {
        assert!(matches!(bench.knock("a", &knock), Door::Over(Over::Finished)));
    }
    let bench = Bench::new();
    bench.desk.close(Over::Stopped);
    for knock in [Knock::Hello(hello()), Knock::Join(join())] {
        assert!(matches!(bench.knock("a", &knock), Door::Over(Over::Stopped)));
    }
    bench.assert_closed();
}

#[test]
fn a_host_that_joins_as_the_last_one_leaves_a_draining_run_is_not_let_in() {
    let bench = Bench::new();
    bench.steps.limit_env_steps(0);
    bench.desk.look_after(Instant::now());
    // As if it had been let in just before the limit was reached.
    bench.steps.limit_env_steps(1000);
    assert!(matches!(bench.knock("a", &Knock::Join(join())), Door::Over(Over::Finished)));
    assert_eq!(bench.sessions(), 0);
}

#[test]
fn a_name_is_shut_out_after_three_sessions_that_broke_the_rules() {
    let bench = Bench::new();
    let _other = bench.host("b");
    for _ in 0..3 {
        let host = bench.host("a");
        let waits = host.ship(0, 1, 20);
        assert_foreign(&host.ship(1, 2, 20), "shipment 2");
        // More of the same session.
        assert_foreign(&waits, "shipment 2");
        assert!(matches!(host.ship(2, 2, 20).now(), Some(Answer::Gone)));
    }
    for knock in [Knock::Hello(hello()), Knock::Join(join())] {
        match refusal(bench.knock("a", &knock)) {
            Refusal::ShutOut { reason } => assert!(reason.contains("shipment 2"), "{reason}"),
            refusal => panic!("{refusal:?}"),
        }
    }
    assert!(matches!(bench.knock("c", &Knock::Hello(hello())), Door::Welcome(_)));
    bench.assert_closed();
}

#[test]
fn a_session_that_breaks_the_rules_in_several_messages_counts_once() {
    let bench = Bench::new();
    let _ = bench.host("a");
    let session = bench.desk.members().sessions.values().next().cloned().unwrap();
    (0..5).for_each(|_| bench.desk.punish(&session, "what it did".to_owned()));
    assert!(matches!(bench.knock("a", &Knock::Hello(hello())), Door::Welcome(_)));
    bench.assert_closed();
}
