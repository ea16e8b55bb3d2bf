use super::*;
use crate::learner::session::Arrival;
use crate::wire::{News, Over};

#[test]
fn a_fragment_is_acknowledged_once_the_inqueue_has_it() {
    let bench = Bench::new();
    let host = bench.host("a");
    let reply = host.ship(0, 1, 10);
    assert!(reply.waits());
    bench.inlet();
    assert!(matches!(reply.now(), Some(Answer::Taken(News { version: 0, drains: false, .. }))));
    assert_eq!(bench.train(), 1);
    assert_eq!(bench.steps.snapshot().trained_once, steps(FRAGMENT));
    bench.assert_closed();
    assert_eq!(bench.lost(), 10 - FRAGMENT);
}

#[test]
fn a_parked_shipment_that_is_asked_again_is_pushed_once_and_the_later_reply_is_answered() {
    let bench = Bench::new();
    let host = bench.host("a");
    let (first, second) = (host.ship(0, 1, 10), host.ship(0, 1, 10));
    assert!(first.is_dropped() && second.waits());
    bench.inlet();
    assert!(matches!(second.now(), Some(Answer::Taken(_))));
    assert_eq!(bench.train(), 1);
    bench.assert_closed();
}

#[test]
fn a_courier_that_waits_is_told_so_and_asks_again_without_the_frame() {
    let bench = Bench::new();
    let host = bench.host("a");
    let ask = || bench.ask("a", Op::Ship, &host.shipment(0, 1, made(10)).0);
    assert!(matches!(ask().now(), Some(Answer::Missing)));
    let sent = host.ship(0, 1, 10);
    let now = Instant::now();
    bench.desk.look_after(now);
    assert!(sent.waits());
    bench.desk.look_after(now + 3 * bench.desk.run.terms.beat);
    assert!(matches!(sent.now(), Some(Answer::Waits(_))));
    let asked = ask();
    assert!(asked.waits());
    bench.inlet();
    assert!(matches!(asked.now(), Some(Answer::Taken(_))));
    assert!(matches!(ask().now(), Some(Answer::Taken(_))));
    assert_eq!(bench.train(), 1);
    let session = bench.desk.members().sessions.values().next().cloned().unwrap();
    // The questions had no frame, so none came twice.
    assert_eq!(session.lock().figures.duplicates, 0);
    bench.assert_closed();
}

#[test]
fn a_fragment_that_is_taken_while_nobody_asks_is_acknowledged_when_somebody_does() {
    let bench = Bench::new();
    let host = bench.host("a");
    let sent = host.ship(0, 1, 10);
    bench.desk.look_after(Instant::now() + 3 * bench.desk.run.terms.beat);
    assert!(matches!(sent.now(), Some(Answer::Waits(_))));
    bench.inlet();
    let asked = bench.ask("a", Op::Ship, &host.shipment(0, 1, made(10)).0);
    assert!(matches!(asked.now(), Some(Answer::Taken(_))));
    assert_eq!(bench.train(), 1);
    bench.assert_closed();
}

#[test]
fn a_shipment_that_was_taken_is_acknowledged_again_and_not_pushed() {
    let bench = Bench::new();
    let host = bench.host("a");
    for number in 1..=2 {
        let _ = host.ship(0, number, 6 * number);
        bench.inlet();
    }
    for number in [2, 1, 2] {
        assert!(matches!(host.ship(0, number, 12).now(), Some(Answer::Taken(_))));
    }
    bench.inlet();
    assert_eq!(bench.train(), 2);
    let session = bench.desk.members().sessions.values().next().cloned().unwrap();
    let figures = session.lock().figures;
    assert_eq!((figures.duplicates, figures.fragments), (3, 2));
    bench.assert_closed();
}

#[test]
fn what_breaks_the_rules_ends_the_session_and_the_rest_is_lost() {
    type Change = fn(&mut Shipment, &mut Vec<u8>);
    let breaks: [(&str, Change); 7] = [
        ("shipment 3 came where 1 was due", |shipment, _| shipment.number = 3),
        ("courier 3 of 3", |shipment, _| shipment.courier = 3),
        ("courier 4294967295", |shipment, _| shipment.courier = u32::MAX),
        ("were on the way", |shipment, _| shipment.statement.lost = vec![("env_error".into(), steps(21))]),
        ("workers can have", |shipment, _| shipment.statement.sampled = steps(1000)),
        ("more than any host can make", |shipment, _| shipment.statement.sampled = steps(u64::MAX)),
        ("longer than any", |_, frame| frame.resize(1 << 20, 0)),
    ];
    for (reason, change) in breaks {
        let bench = Bench::new();
        let host = bench.host("a");
        // Is on its way when the session ends.
        let other = host.ship(1, 1, 10);
        let (mut shipment, mut frame) = host.shipment(0, 1, made(20));
        change(&mut shipment, &mut frame);
        let reply = bench.send("a", Op::Ship, seal(&shipment, &frame));
        assert_foreign(&reply, reason);
        assert_foreign(&other, reason);
        assert_eq!(bench.sessions(), 0);
        bench.inlet();
        assert_eq!(bench.train(), 0);
        assert!(bench.lost() == 10 || bench.lost() == 20, "{reason}: {}", bench.lost());
        bench.assert_closed();
    }
}

#[test]
fn fragments_of_another_life_or_of_foreign_workers_end_the_session() {
    let tags = [
        (Tag { life: 1, worker: 10, ..Tag::default() }, "life"),
        (Tag { worker: 12, ..Tag::default() }, "worker"),
        (Tag { worker: 10, version: 1, ..Tag::default() }, "version"),
    ];
    for (tag, reason) in tags {
        let bench = Bench::new();
        let host = bench.host("a");
        let (mut shipment, _) = host.shipment(0, 1, made(20));
        let frame = frame(tag);
        shipment.checksum = crc32c::crc32c(&frame);
        let reply = bench.send("a", Op::Ship, seal(&shipment, &frame));
        bench.inlet();
        assert_foreign(&reply, reason);
        assert_eq!((bench.sessions(), bench.train(), bench.lost()), (0, 0, 20));
        bench.assert_closed();
    }
}

#[test]
fn a_fragment_of_more_steps_than_were_stated_ends_the_session() {
    let bench = Bench::new();
    let host = bench.host("a");
    let reply = host.ship(0, 1, FRAGMENT - 1);
    bench.inlet();
    assert_foreign(&reply, "arrived where 5 were on the way");
    assert_eq!((bench.train(), bench.lost()), (0, 5));
    bench.assert_closed();
}

#[test]
fn damaged_frames_are_asked_for_again_and_the_third_in_a_row_ends_the_session() {
    let bench = Bench::new();
    let host = bench.host("a");
    let damaged = |number| {
        let (shipment, mut frame) = host.shipment(0, number, made(20));
        frame[9] ^= 1;
        let reply = bench.send("a", Op::Ship, seal(&shipment, &frame));
        bench.inlet();
        reply.now::<Answer>()
    };
    for _ in 0..2 {
        assert!(matches!(damaged(1), Some(Answer::Corrupt)));
    }
    // The same number, undamaged.
    let reply = host.ship(0, 1, 20);
    bench.inlet();
    assert!(matches!(reply.now(), Some(Answer::Taken(_))));
    for _ in 0..2 {
        assert!(matches!(damaged(2), Some(Answer::Corrupt)));
    }
    let (mut shipment, frame) = host.shipment(0, 2, made(20));
    shipment.checksum ^= 1;
    let reply = bench.send("a", Op::Ship, seal(&shipment, &frame));
    bench.inlet();
    assert_foreign(&reply, "damaged");
    assert_eq!((bench.train(), bench.lost()), (1, 20 - FRAGMENT));
    bench.assert_closed();
}

#[test]
fn a_session_cannot_be_used_under_another_name() {
    let bench = Bench::new();
    let (mut a, _b) = (bench.host("a"), bench.host("b"));
    let (shipment, frame) = a.shipment(0, 1, made(20));
    let reply = bench.send("b", Op::Ship, seal(&shipment, &frame));
    assert!(matches!(reply.now(), Some(Answer::Gone)));
    let beat = Beat { statement: made(20), ..a.next_beat() };
    assert!(matches!(bench.ask("b", Op::Beat, &beat).now(), Some(Answer::Gone)));
    assert_eq!(bench.steps.snapshot().sampled, steps(0));
    assert_eq!(bench.sessions(), 2);
    bench.assert_closed();
}

#[test]
fn after_the_lease_nothing_is_booked_and_what_waits_is_answered() {
    let bench = Bench::new();
    let mut host = bench.host("a");
    let parked = host.ship(0, 1, 20);
    let beat = host.next_beat();
    let waiting = host.beat(&beat);
    let lease = bench.desk.run.terms.lease;
    bench.desk.look_after(Instant::now() + (lease - Duration::from_secs(2)));
    assert!(matches!(parked.now(), Some(Answer::Waits(_))) && bench.sessions() == 1);
    let asked = host.ship(0, 1, 20);
    bench.desk.look_after(Instant::now() + lease + Duration::from_secs(1));
    assert!(matches!(asked.now(), Some(Answer::Gone)) && bench.sessions() == 0);
    // Answered after its interval before.
    assert!(matches!(waiting.now(), Some(Answer::Taken(_))));
    bench.inlet();
    assert!(matches!(host.ship(1, 1, 40).now(), Some(Answer::Gone)));
    let beat = host.next_beat();
    assert!(matches!(host.beat(&beat).now(), Some(Answer::Gone)));
    assert_eq!((bench.train(), bench.lost(), bench.desk.members().lost), (0, 20, 1));
    bench.assert_closed();
}

#[test]
fn a_session_that_ends_while_the_inlet_has_its_fragment_is_answered_and_nothing_of_it_is_booked() {
    let bench = Bench::new();
    let host = bench.host("a");
    let reply = host.ship(0, 1, 20);
    let session = bench.desk.members().sessions.values().next().cloned().unwrap();
    assert!(session.take_frame(0).is_some() && session.take_frame(0).is_none());
    bench.desk.end_all();
    assert!(matches!(reply.now(), Some(Answer::Gone)));
    assert!(session.book(steps(FRAGMENT)).unwrap().is_none());
    session.acknowledge(0, FRAGMENT, bench.desk.news());
    assert_eq!(bench.lost(), 20);
    bench.assert_closed();
}

#[test]
fn a_shipment_for_which_the_inlet_has_no_room_can_be_shipped_again() {
    let bench = Bench::with(terms(), 1);
    let host = bench.host("a");
    let (first, second) = (host.ship(0, 1, 20), host.ship(1, 1, 20));
    assert!(first.waits() && second.is_dropped());
    bench.inlet();
    let again = host.ship(1, 1, 20);
    bench.inlet();
    assert!(matches!(again.now(), Some(Answer::Taken(_))));
    assert_eq!(bench.train(), 2);
    bench.assert_closed();
}

#[test]
fn when_the_run_is_over_a_host_learns_of_each_shipment_whether_it_was_taken() {
    let mut bench = Bench::new();
    let (taken, parked, with_inlet, dropped, over) = {
        let host = bench.host("a");
        let _ = host.ship(0, 1, 30);
        bench.inlet();
        let (parked, with_inlet) = (host.ship(0, 2, 30), host.ship(1, 1, 30));
        let session = bench.desk.members().sessions.values().next().cloned().unwrap();
        let _ = session.take_frame(1).unwrap();
        let ticket = session.book(steps(FRAGMENT)).unwrap().unwrap();
        bench.desk.close(Over::Stopped);
        bench.desk.close(Over::Finished);
        let taken = host.ship(0, 1, 30).now();
        let again = host.ship(1, 1, 30);
        assert!(with_inlet.is_dropped() && again.waits());
        ticket.dropped("shutdown");
        session.acknowledge(1, FRAGMENT, bench.desk.news());
        let over = [host.ship(0, 2, 30).now(), host.ship(2, 1, 30).now()];
        // It has made 30, of which the learner has 12, and drops the rest itself.
        let last = Statement { dropped: vec![("shutdown".into(), steps(18))], ..made(30) };
        (taken, parked.now(), again.now(), host.leave(last).now(), over)
    };
    assert!(matches!(taken, Some(Answer::Taken(_))) && matches!(with_inlet, Some(Answer::Taken(_))));
    assert!(matches!(parked, Some(Answer::Over(Over::Stopped))));
    assert!(over.iter().all(|answer| matches!(answer, Some(Answer::Over(Over::Stopped)))), "{over:?}");
    assert!(matches!(dropped, Some(Answer::Taken(_))), "{dropped:?}");
    assert_eq!((bench.lost(), bench.steps.snapshot().dropped["shutdown"]), (0, steps(18 + FRAGMENT)));
    bench.guard = None;
    bench.assert_closed();
}

#[test]
fn a_shipment_that_arrives_while_the_run_ends_gets_an_answer() {
    let mut bench = Bench::new();
    let host = bench.host("a");
    let session = bench.desk.members().sessions.values().next().cloned().unwrap();
    let (shipment, frame) = host.shipment(0, 1, made(FRAGMENT));
    let (reply, replied) = bounded(1);
    let reply = Reply::new(move |bytes| reply.try_send(bytes).unwrap());
    assert!(matches!(session.arrives(&shipment, frame.into(), reply, (bench.desk.news(), None)), Arrival::Parked));
    session.unpark(0, Some(Over::Finished));
    assert!(matches!(Replied(replied).now(), Some(Answer::Over(Over::Finished))));
    // Where there is no room for now, there is none.
    let parked = host.ship(0, 1, FRAGMENT);
    session.unpark(0, None);
    assert!(parked.is_dropped());
    bench.guard = None;
    bench.assert_closed();
}

#[test]
fn an_inlet_that_finds_the_inqueue_closed_has_taken_the_fragment_for_the_books_of_both_ends() {
    let mut bench = Bench::new();
    bench.guard = None;
    let host = bench.host("a");
    let reply = host.ship(0, 1, FRAGMENT);
    bench.inlet();
    assert!(matches!(reply.now(), Some(Answer::Taken(_))));
    assert_eq!(bench.steps.snapshot().dropped["shutdown"], steps(FRAGMENT));
    bench.assert_closed();
}

#[test]
fn an_acknowledgement_says_how_long_the_inqueue_had_no_room() {
    let mut bench = Bench::new();
    let blocked_secs_of = |bench: &Bench, host: &Host<'_>, number| {
        let reply = host.ship(0, number, number * FRAGMENT);
        bench.inlet();
        match reply.now() {
            Some(Answer::Taken(news)) => news.blocked_secs,
            answer => panic!("{answer:?}"),
        }
    };
    assert_eq!(blocked_secs_of(&bench, &bench.host("a"), 1), 0.0);
    let (guard, token) = shutdown();
    let (sender, fragments) = inqueue(0, Gate::Bounded, &token).unwrap();
    bench.sender = sender;
    let learner = std::thread::spawn(move || {
        loop {
            std::thread::park_timeout(Duration::from_millis(20));
            match fragments.pop(Duration::MAX) {
                Ok(mut fragment) => fragment.take_ticket().unwrap().trained(),
                Err(_) => return,
            }
        }
    });
    let host = bench.host("b");
    // On a machine that is busy the learner may wait before the inlet does.
    let blocked = (1..=50).map(|number| blocked_secs_of(&bench, &host, number)).find(|secs| *secs > 0.0);
    assert!(blocked.is_some());
    drop(guard);
    learner.join().unwrap();
    bench.assert_closed();
}
