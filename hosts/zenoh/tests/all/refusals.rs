//! Who is kept out, and what the one who is kept out sees.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;

use pronk_hosts::{CallError, Dial, Listen, Op};
use pronk_hosts_zenoh::{Certificates, Validity, ZenohDial, ZenohListen, make_certificates_valid};

use crate::fixtures::{
    Echo, LIMITS, LONG, SHORT, ask_on, certified, dial, dial_secured, intruder, lost, of, payload, plain, secured,
};

/// Asks as `host-a` through an intruder's session, if it gets one.
fn kept_out(address: &str, tls: Option<&Certificates>) -> String {
    match intruder(address, tls) {
        Err(e) => e,
        Ok(session) => {
            assert_eq!(ask_on(&session, "pronk/host-a/ship", SHORT), None);
            "connected, but unheard".into()
        }
    }
}

#[test]
fn a_host_without_a_certificate_is_kept_out() {
    let folder = certified(&["host-a"]);
    let desk = Arc::new(Echo::default());
    let (_listening, address) = secured(&folder, &["host-a"], desk.clone());
    kept_out(&address, None);
    let refused = ZenohDial::to(&address).dial().err().unwrap().to_string();
    assert!(refused.contains("needs certificates"), "{refused}");
    assert!(desk.nothing_arrived());
}

#[test]
fn a_certificate_of_a_foreign_authority_is_kept_out() {
    let (folder, foreign) = (certified(&["host-a"]), certified(&["host-a"]));
    let desk = Arc::new(Echo::default());
    let (_listening, address) = secured(&folder, &["host-a"], desk.clone());
    let mut mixed = of(&foreign, "host-a");
    mixed.ca = of(&folder, "host-a").ca;
    let why = lost(&*ZenohDial::to(&address).certificates(mixed).dial().unwrap());
    assert!(why.contains("may not trust the certificate"), "{why}");
    let why = lost(&*dial_secured(&address, &foreign, "host-a"));
    assert!(why.contains("invalid peer certificate"), "the learner is as foreign to the host: {why}");
    assert!(desk.nothing_arrived());
}

#[test]
fn an_expired_certificate_is_kept_out() {
    let folder = certified(&[]);
    make_certificates_valid(folder.path(), &[], &["host-a"], Validity::Expired).unwrap();
    let desk = Arc::new(Echo::default());
    let (_listening, address) = secured(&folder, &["host-a"], desk.clone());
    kept_out(&address, Some(&of(&folder, "host-a")));
    let refused = ZenohDial::to(&address).certificates(of(&folder, "host-a")).dial().err().unwrap().to_string();
    assert!(refused.contains("host-a.pem` is valid from"), "{refused}");
    assert!(desk.nothing_arrived());
}

#[test]
fn a_name_that_is_not_on_the_allow_list_is_kept_out() {
    let folder = certified(&["host-a", "host-b"]);
    let desk = Arc::new(Echo::default());
    let (_listening, address) = secured(&folder, &["host-a"], desk.clone());
    let link = dial_secured(&address, &folder, "host-b");
    match link.call(Op::Join, payload(10), LONG) {
        Err(CallError::NotAllowed(why)) => assert!(why.contains("does not allow a host named `host-b`"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(desk.nothing_arrived());
    dial_secured(&address, &folder, "host-a").call(Op::Join, payload(10), LONG).unwrap();
}

#[test]
fn a_host_cannot_speak_as_another() {
    let folder = certified(&["host-a", "host-b"]);
    let desk = Arc::new(Echo::default());
    let (_listening, address) = secured(&folder, &["host-a", "host-b"], desk.clone());
    let refused = ZenohDial::to(&address).certificates(of(&folder, "host-a")).name("host-b").dial();
    assert!(refused.err().unwrap().to_string().contains("the certificate is that of `host-a`"));

    let session = intruder(&address, Some(&of(&folder, "host-a"))).unwrap();
    for key in ["pronk/host-b/ship", "pronk/*/ship", "pronk/**", "pronk/host-$*/ship", "**"] {
        assert_eq!(ask_on(&session, key, SHORT), None, "{key}");
    }
    assert!(desk.nothing_arrived());
    assert_eq!(ask_on(&session, "pronk/host-a/ship", LONG).unwrap(), b"forged", "its own name is its own");
}

#[test]
fn a_host_cannot_answer_in_place_of_the_learner() {
    let folder = certified(&["host-a", "host-b"]);
    let desk = Arc::new(Echo::default());
    let (_listening, address) = secured(&folder, &["host-a", "host-b"], desk);
    let session = intruder(&address, Some(&of(&folder, "host-a"))).unwrap();
    let thief = zenoh::Wait::wait(session.declare_queryable("pronk/host-b/*").complete(true)).unwrap();
    // Once a later question is answered, the learner has seen the offer.
    ask_on(&session, "pronk/host-a/join", LONG).unwrap();
    let link = dial_secured(&address, &folder, "host-b");
    for _ in 0..10 {
        assert_eq!(link.call(Op::Ship, payload(100), LONG).unwrap(), payload(100));
    }
    assert!(thief.try_recv().unwrap().is_none());
}

#[test]
fn a_host_does_not_send_to_a_learner_with_another_name() {
    let folder = certified(&["host-a"]);
    let desk = Arc::new(Echo::default());
    let (_listening, address) = secured(&folder, &["host-a"], desk.clone());
    let dial = ZenohDial::to(&address).certificates(of(&folder, "host-a")).learner("boss");
    let why = lost(&*dial.dial().unwrap());
    assert!(why.contains("not that of `boss`"), "{why}");
    assert!(desk.nothing_arrived());
}

#[test]
fn a_certificate_of_a_host_does_not_make_a_learner() {
    let folder = certified(&["host-a", "host-b"]);
    let desk = Arc::new(Echo::default());
    let end = ZenohListen::at("quic/127.0.0.1:0").certificates(of(&folder, "host-b"));
    let listening = Box::new(end).listen(desk.clone(), LIMITS).unwrap();
    let why = lost(&*dial_secured(&listening.address(), &folder, "host-a"));
    assert!(why.contains("certificate"), "{why}");
    assert!(desk.nothing_arrived());
}

#[test]
fn plain_bytes_do_not_get_through_to_a_secured_learner() {
    let folder = certified(&["host-a"]);
    let desk = Arc::new(Echo::default());
    let (_listening, address) = secured(&folder, &["host-a"], desk.clone());
    let port = address.strip_prefix("quic/").unwrap();
    let why = lost(&*dial(&format!("tcp/{port}"), "host-a"));
    assert!(why.contains("refused"), "{why}");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 1200], &[0xff; 1200]] {
        socket.send_to(bytes, port).unwrap();
    }
    let link = dial_secured(&address, &folder, "host-a");
    assert_eq!(link.call(Op::Join, payload(10), LONG).unwrap(), payload(10));
    assert_eq!(desk.seen.lock().unwrap().len(), 1);
}

#[test]
fn bytes_that_are_not_zenoh_do_not_disturb_a_plain_learner() {
    let desk = Arc::new(Echo::default());
    let (_listening, address) = plain(desk.clone());
    let mut stranger = TcpStream::connect(address.strip_prefix("tcp/").unwrap()).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: learner\r\n\r\n").unwrap();
    let link = dial(&address, "host-a");
    assert_eq!(link.call(Op::Join, payload(10), LONG).unwrap(), payload(10));
    assert_eq!(desk.seen.lock().unwrap().len(), 1);
}

#[test]
fn a_connection_without_a_handshake_keeps_no_one_out_and_is_closed() {
    let (_listening, address) = plain(Arc::new(Echo::default()));
    let mut silent = TcpStream::connect(address.strip_prefix("tcp/").unwrap()).unwrap();
    let link = dial(&address, "host-a");
    assert_eq!(link.call(Op::Join, payload(10), LONG).unwrap(), payload(10));
    silent.set_read_timeout(Some(LONG)).unwrap();
    let end = silent.read(&mut [0; 64]);
    let closed = end.as_ref().is_ok_and(|bytes| *bytes == 0);
    let reset = end.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset);
    assert!(closed || reset, "the learner did not close it: {end:?}");
}

#[test]
fn ends_with_settings_that_cannot_be_right_are_refused() {
    let refusal = |end: ZenohListen| Box::new(end).listen(Arc::new(Echo::default()), LIMITS).err().unwrap().to_string();
    assert!(refusal(ZenohListen::at("tcp/0.0.0.0:0")).contains("insecure()"));
    assert!(refusal(ZenohListen::at("quic/0.0.0.0:0")).contains("needs certificates"));
    assert!(refusal(ZenohListen::at("tls/127.0.0.1:0")).contains("not supported"));
    assert!(refusal(ZenohListen::at("tcp/127.0.0.1:0").allow(["host-a"])).contains("only certificates prove names"));
    let folder = certified(&[]);
    let secured = || ZenohListen::at("quic/127.0.0.1:0").certificates(of(&folder, "learner"));
    assert!(refusal(secured().allow(["*"])).contains("cannot name a host"));
    assert!(refusal(secured().allow(["a", "a"])).contains("twice"));
    let missing = refusal(ZenohListen::at("quic/127.0.0.1:0").certificates(of(&folder, "nobody")));
    assert!(missing.contains("nobody.key` cannot be read"), "{missing}");
    let mut swapped = of(&folder, "learner");
    std::mem::swap(&mut swapped.certificate, &mut swapped.key);
    assert!(refusal(ZenohListen::at("quic/127.0.0.1:0").certificates(swapped)).contains("PEM"));
    let mut foreign = of(&folder, "learner");
    foreign.key = of(&certified(&["x"]), "x").key;
    refusal(ZenohListen::at("quic/127.0.0.1:0").certificates(foreign));

    let refusal = |dial: ZenohDial| dial.dial().err().unwrap().to_string();
    assert!(refusal(ZenohDial::to("tcp/learner.example:7447")).contains("insecure()"));
    assert!(refusal(ZenohDial::to("tcp/127.0.0.1:0")).contains("not a port"));
    assert!(refusal(ZenohDial::to("tcp/127.0.0.1:7447").name("a/b")).contains("cannot name a host"));
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let (_listening, address) = plain(Arc::new(Echo::default()));
    let refused = Box::new(ZenohListen::at(&address)).listen(Arc::new(Echo::default()), LIMITS).err().unwrap();
    assert!(refused.to_string().contains("in use"), "{refused}");
}
