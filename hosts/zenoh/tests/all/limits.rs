//! Messages that are too long.

use std::sync::Arc;

use pronk_hosts::{CallError, Op};
use pronk_hosts_zenoh::ZenohListen;

use crate::fixtures::{Echo, LIMITS, LONG, SHORT, dial, listen_for, payload};

#[test]
fn a_request_above_the_limit_of_the_learner_is_dropped_and_others_go_on() {
    let desk = Arc::new(Echo::default());
    let (_listening, address) = listen_for(ZenohListen::at("tcp/127.0.0.1:0"), desk.clone(), LIMITS);
    let (large, other) = (dial(&address, "host-a"), dial(&address, "host-b"));
    assert_eq!(large.call(Op::Ship, payload(4 << 20), SHORT), Err(CallError::TimedOut(SHORT)));
    assert!(desk.nothing_arrived());
    for link in [large, other] {
        assert_eq!(link.call(Op::Ship, payload(1 << 20), LONG).unwrap(), payload(1 << 20));
    }
}

/// In a process of its own, since other tests need memory as well.
#[cfg(target_os = "linux")]
#[test]
fn a_request_above_the_limit_does_not_fill_the_learners_memory() {
    let child = "limits::in_a_child_with_a_request_of_256_mib";
    let output = crate::stalled::this_binary(child).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn in_a_child_with_a_request_of_256_mib() {
    if !crate::stalled::is_child() {
        return;
    }
    let end = ZenohListen::at("tcp/127.0.0.1:0");
    let (_listening, address) = listen_for(end, Arc::new(Echo::default()), LIMITS);
    let link = dial(&address, "host-a");
    let request = payload(256 << 20);
    let before = peak_kib();
    link.call(Op::Ship, request, std::time::Duration::from_secs(3)).unwrap_err();
    let grown = peak_kib() - before;
    assert!(grown < 64 << 10, "the peak grew by {grown} KiB");
}

#[cfg(target_os = "linux")]
fn peak_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
