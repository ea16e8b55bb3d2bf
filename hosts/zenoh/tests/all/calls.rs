//! Requests and replies.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use pronk_hosts::{Bytes, CallError, Dial, Op, Request};
use pronk_hosts_zenoh::{ZenohDial, ZenohListen};

use crate::fixtures::{
    Echo, LONG, With, ask_until_answered, certified, dial, dial_secured, listen, of, payload, plain, secured,
};

#[test]
fn requests_and_replies_arrive_whole_over_tcp() {
    let desk = Arc::new(Echo::default());
    let (_listening, address) = plain(desk.clone());
    let link = dial(&address, "host-a");
    for (op, bytes) in [(Op::Join, 0), (Op::Beat, 1), (Op::Weights, 10_000), (Op::Ship, 20_000_000)] {
        let sent = payload(bytes);
        assert!(link.call(op, sent.clone(), LONG).unwrap() == sent, "{bytes} bytes");
        assert_eq!(desk.seen.lock().unwrap().pop().unwrap(), ("host-a".to_owned(), op, bytes));
    }
}

#[test]
fn requests_and_replies_arrive_whole_over_quic() {
    let folder = certified(&["host-a"]);
    let desk = Arc::new(Echo::default());
    let (_listening, address) = secured(&folder, &["host-a"], desk.clone());
    assert!(address.starts_with("quic/127.0.0.1:"), "{address}");
    let link = dial_secured(&address, &folder, "host-a");
    for (op, bytes) in [(Op::Join, 0), (Op::Beat, 1), (Op::Weights, 10_000), (Op::Ship, 20_000_000)] {
        let sent = payload(bytes);
        assert!(link.call(op, sent.clone(), LONG).unwrap() == sent, "{bytes} bytes");
        assert_eq!(desk.seen.lock().unwrap().pop().unwrap(), ("host-a".to_owned(), op, bytes));
    }
}

#[test]
fn without_an_allow_list_each_certificate_of_the_authority_may_ask() {
    let folder = certified(&["host-a"]);
    let (_listening, address) = secured(&folder, &[], Arc::new(Echo::default()));
    let link = dial_secured(&address, &folder, "host-a");
    assert_eq!(link.call(Op::Join, payload(10), LONG).unwrap(), payload(10));
}

#[test]
fn a_bare_address_with_certificates_is_quic() {
    let folder = certified(&["host-a"]);
    let end = ZenohListen::at("127.0.0.1:0").certificates(of(&folder, "learner"));
    let (_listening, address) = listen(end, Arc::new(Echo::default()));
    assert!(address.starts_with("quic/127.0.0.1:"), "{address}");
    let link = dial_secured(address.strip_prefix("quic/").unwrap(), &folder, "host-a");
    assert_eq!(link.call(Op::Join, payload(10), LONG).unwrap(), payload(10));
}

#[test]
fn a_reply_may_come_later_and_from_another_thread() {
    let (requests, parked) = channel::<Request>();
    let (_listening, address) = plain(Arc::new(With(move |request| requests.send(request).unwrap())));
    let link = dial(&address, "host-a");
    thread::scope(|scope| {
        let first = scope.spawn(|| link.call(Op::Ship, Bytes::from_static(b"first"), LONG).unwrap());
        let first_request = parked.recv_timeout(LONG).unwrap();
        let second = scope.spawn(|| link.call(Op::Ship, Bytes::from_static(b"second"), LONG).unwrap());
        let second_request = parked.recv_timeout(LONG).unwrap();
        second_request.reply.send("for the second".into());
        assert_eq!(second.join().unwrap(), "for the second");
        assert!(!first.is_finished());
        first_request.reply.send("for the first".into());
        assert_eq!(first.join().unwrap(), "for the first");
    });
}

#[test]
fn a_reply_that_is_dropped_ends_the_call_at_once() {
    let (_listening, address) = plain(Arc::new(With(|request: Request| drop(request.reply))));
    let link = dial(&address, "host-a");
    let start = Instant::now();
    assert!(matches!(link.call(Op::Ship, payload(10), LONG), Err(CallError::Lost(_))));
    assert!(start.elapsed() < LONG / 4, "{:?}", start.elapsed());
}

#[test]
fn a_request_that_stays_parked_times_out() {
    let (requests, parked) = channel::<Request>();
    let (_listening, address) = plain(Arc::new(With(move |request| requests.send(request).unwrap())));
    let link = dial(&address, "host-a");
    let deadline = Duration::from_millis(200);
    assert_eq!(link.call(Op::Ship, payload(10), deadline), Err(CallError::TimedOut(deadline)));
    drop(parked);
}

#[test]
fn two_hosts_ask_at_the_same_time() {
    let (_listening, address) = plain(Arc::new(With(|request: Request| {
        let from = request.from.to_string();
        request.reply.send(from.into());
    })));
    thread::scope(|scope| {
        for name in ["host-a", "host-b"] {
            let link = dial(&address, name);
            scope.spawn(move || {
                for op in Op::ALL.into_iter().cycle().take(100) {
                    assert_eq!(link.call(op, payload(1000), LONG).unwrap(), name);
                }
            });
        }
    });
}

#[test]
fn a_learner_that_is_started_anew_answers_without_a_new_dial() {
    let folder = certified(&["host-a"]);
    for end in [
        ZenohListen::at("tcp/127.0.0.1:0"),
        ZenohListen::at("quic/127.0.0.1:0").certificates(of(&folder, "learner")).allow(["host-a"]),
    ] {
        let (listening, address) = listen(end.clone(), Arc::new(Echo::default()));
        let mut dial = ZenohDial::to(&address).name("host-a");
        dial.certificates = end.certificates.as_ref().map(|_| of(&folder, "host-a"));
        let link = dial.dial().unwrap();
        ask_until_answered(&*link, Op::Ship);

        drop(listening);
        let start = Instant::now();
        link.call(Op::Ship, payload(10), LONG).unwrap_err();
        assert!(start.elapsed() < LONG / 4, "a lost call took {:?}", start.elapsed());

        let mut anew = end;
        anew.address = address;
        let (_listening, _) = listen(anew, Arc::new(Echo::default()));
        ask_until_answered(&*link, Op::Ship);
        ask_until_answered(&*link, Op::Join);
    }
}

#[test]
fn a_learner_that_comes_later_is_found() {
    let (listening, address) = plain(Arc::new(Echo::default()));
    drop(listening);
    let start = Instant::now();
    let link = dial(&address, "host-a");
    assert!(start.elapsed() < LONG / 4, "dialling took {:?}", start.elapsed());
    let why = link.call(Op::Join, payload(10), LONG).unwrap_err().to_string();
    assert!(why.contains(&address) && why.contains("refused"), "{why}");

    let (_listening, _) = listen(ZenohListen::at(&address), Arc::new(Echo::default()));
    assert_eq!(ask_until_answered(&*link, Op::Join), "again");
    assert_eq!(ask_until_answered(&*link, Op::Ship), "again");
}

#[test]
fn replies_that_were_given_are_sent_before_the_learner_closes() {
    let (requests, parked) = channel::<Request>();
    let (listening, address) = plain(Arc::new(With(move |request| requests.send(request).unwrap())));
    let link = dial(&address, "host-a");
    thread::scope(|scope| {
        let call = scope.spawn(|| link.call(Op::Weights, payload(10), LONG));
        let request = parked.recv_timeout(LONG).unwrap();
        request.reply.send(payload(5_000_000));
        drop(listening);
        assert!(call.join().unwrap().unwrap() == payload(5_000_000));
    });
}

#[test]
fn a_link_can_be_made_from_a_runtime_with_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (_listening, address) = plain(Arc::new(Echo::default()));
        let link = dial(&address, "host-a");
        assert_eq!(link.call(Op::Join, payload(10), LONG).unwrap(), payload(10));
    });
}
