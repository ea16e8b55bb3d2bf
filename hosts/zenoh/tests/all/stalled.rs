//! A host that stops reading.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use pronk_hosts::{Bytes, Op, Request};

use crate::fixtures::{LONG, With, dial, payload, plain};

const CHILD: &str = "PRONK_HOSTS_ZENOH_TEST_CHILD";

/// One test of this binary, to be run in a process of its own.
pub(crate) fn this_binary(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Asks for weights in a child, which is stopped while it does.
struct Stopped(Child);

impl Stopped {
    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[cfg(unix)]
#[test]
fn a_host_that_stops_reading_does_not_hold_up_others() {
    let (requests, parked): (Sender<Request>, Receiver<Request>) = channel();
    let (_listening, address) = plain(Arc::new(With(move |request: Request| match &*request.from {
        "stopped" => requests.send(request).unwrap(),
        _ => request.reply.send(request.bytes),
    })));
    let mut child = this_binary("stalled::in_a_child_that_asks_for_weights").spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{address}").unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    let stopped = Stopped(child);
    let reader = std::thread::spawn(move || lines.lines().map_while(Result::ok).count());

    let other = dial(&address, "other");
    other.call(Op::Beat, payload(100), LONG).unwrap();
    let request = parked.recv_timeout(LONG).unwrap();
    stopped.signal("-STOP");
    let weights = payload(100_000_000);
    let start = Instant::now();
    request.reply.send(weights);
    assert!(start.elapsed() < Duration::from_millis(500), "sending took {:?}", start.elapsed());

    // Longer than a link may stall, so that the calls see it being given up.
    let mut slowest = Duration::ZERO;
    while start.elapsed() < Duration::from_secs(3) {
        for (op, bytes) in [(Op::Beat, 100), (Op::Ship, 10_000), (Op::Weights, 1_000_000)] {
            let asked = Instant::now();
            let sent: Bytes = payload(bytes);
            assert_eq!(other.call(op, sent.clone(), LONG).unwrap(), sent);
            slowest = slowest.max(asked.elapsed());
        }
        // A host that comes anew must be let in as well.
        let asked = Instant::now();
        dial(&address, "newcomer").call(Op::Join, payload(10), LONG).unwrap();
        slowest = slowest.max(asked.elapsed());
    }
    println!("the slowest call of another host took {slowest:?}");
    assert!(slowest < Duration::from_millis(1500), "another host waited {slowest:?}");
    drop(stopped);
    reader.join().unwrap();
}

#[cfg(unix)]
#[test]
fn in_a_child_that_asks_for_weights() {
    if !is_child() {
        return;
    }
    let mut address = String::new();
    std::io::stdin().read_line(&mut address).unwrap();
    let link = dial(address.trim(), "stopped");
    drop(link.call(Op::Weights, payload(10), LONG));
}
