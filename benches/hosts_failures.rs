//! What fails between a learner and its hosts, over real sockets, and what becomes of the run: whether the
//! ledger closes, no step is booked twice, nothing is lost without a cause, and how soon the run goes on.
//!
//! ```text
//! cargo bench --features hosts-zenoh --bench hosts_failures                      # all cases: an hour
//! cargo bench --features hosts-zenoh --bench hosts_failures -- killed tcp/cut    # those with such names
//! cargo bench --features hosts-zenoh --bench hosts_failures -- quic/mess --times 1 --seed 7  # one again
//! ```
//!
//! `--times` is how often each case is repeated, 20 by default; `--jobs` is how many repetitions run at a
//! time, 4 by default. A repetition takes about ten seconds, and waits for most of them. It is made of
//! processes: this program, started again as a learner and as hosts of two workers each. Where a network
//! fails, a gate between them does that to the bytes. The lease is 3 s, and a host reports every 0.1 s.
//!
//! No two observations of a repetition are the same, and the learner looks at all that it is given to train
//! on. So a step that came twice is found, and one that was booked and not trained on.
//!
//! Seconds are those from the end of the failure until fragments of the host are booked again, if the case
//! says nothing else: from the start of the process that replaces a killed one. Results come every 0.1 s, and
//! after a time without fragments at once with the next one. Other columns are sums over all repetitions;
//! duplicates are those that a result has shown before the session of their host ended. A row is
//! `NOT CHECKED` where the system does not allow what the case needs, such as namespaces.
//!
//! The bench fails if a repetition does. It prints its seed, and keeps the logs of its processes. On a
//! machine that is busy otherwise, processes may stand still for a lease; a failure says so.

// A bench prints its result and may stop at the first surprise.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "hosts_failures/cases.rs"]
mod cases;
#[path = "hosts_failures/children.rs"]
mod children;
#[path = "hosts_failures/gate.rs"]
mod gate;
#[path = "hosts_failures/numbered.rs"]
mod numbered;
#[path = "hosts_failures/outside.rs"]
mod outside;
#[path = "hosts_failures/process.rs"]
mod process;
#[path = "hosts_failures/scene.rs"]
mod scene;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cases::Case;
use clap::Parser;
use pronk::hosts_zenoh::make_certificates;
use scene::{Protocol, Scene, Shown};

/// Failures between a learner and its hosts.
#[derive(Parser)]
struct Args {
    /// Cases whose names contain one of these, such as `cut` or `tcp/host-killed`; all without any.
    cases: Vec<String>,
    /// Repetitions of each case.
    #[arg(long)]
    times: Option<u64>,
    /// The seed of the first repetition; each further one has the next.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Repetitions at a time.
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Cargo adds it.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    if let Some(status) = children::act_as_a_child() {
        return status.into();
    }
    let mut args = Args::parse();
    if !args.bench && args.times.is_none() && args.cases.is_empty() {
        // Under `cargo test --benches` one repetition suffices to show that it runs.
        args.cases = vec!["tcp/host-killed".to_owned()];
        args.times = Some(1);
    }
    let times = args.times.unwrap_or(20);
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path(), &["127.0.0.1", "10.77.0.1"], &["a", "b"]).unwrap();
    let _listening = pronk::on_ctrl_c(|| IS_INTERRUPTED.store(true, Ordering::Relaxed)).unwrap();
    watch_for_stalls();
    println!(
        "{:<28} {:>7} {:>8} {:>8} {:>10}  {:<22} notes",
        "case", "passed", "median s", "max s", "duplicates", "steps lost"
    );
    let mut all_passed = true;
    for case in cases::all() {
        for protocol in case.protocols {
            let name = format!("{}/{}", protocol.name(), case.name);
            if !args.cases.is_empty() && !args.cases.iter().any(|wanted| name.contains(wanted.as_str())) {
                continue;
            }
            if let Some(missing) = case.need.is_missing() {
                println!("{name:<28} NOT CHECKED: {missing}");
                continue;
            }
            all_passed &= row(&name, &case, *protocol, (args.seed, times, args.jobs), folder.path());
        }
    }
    if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Repeats a case and prints its row. Whether all repetitions passed.
fn row(name: &str, case: &Case, protocol: Protocol, (seed, times, jobs): (u64, u64, usize), keys: &Path) -> bool {
    let (next, passed) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(nth) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|nth| *nth < times && !is_interrupted())
                {
                    let seed = seed + nth;
                    match repetition(case, protocol, seed, keys) {
                        Ok(shown) => passed.lock().unwrap().push(shown),
                        Err(error) => println!("{name} --times 1 --seed {seed} FAILED: {error}"),
                    }
                }
            });
        }
    });
    let passed = passed.into_inner().unwrap();
    let mut secs: Vec<_> = passed.iter().map(|shown: &Shown| shown.recover_secs).collect();
    secs.sort_by(f64::total_cmp);
    let of = |secs: Option<&f64>| secs.map_or("-".to_owned(), |secs| format!("{secs:.2}"));
    let (mut lost, mut notes) = (BTreeMap::new(), BTreeMap::new());
    for shown in &passed {
        shown.lost.iter().for_each(|(cause, steps)| *lost.entry(cause.as_str()).or_default() += steps);
        shown.notes.iter().for_each(|(note, n)| *notes.entry(*note).or_default() += n);
    }
    println!(
        "{name:<28} {:>7} {:>8} {:>8} {:>10}  {:<22} {}",
        format!("{}/{times}", passed.len()),
        of(secs.get(secs.len() / 2)),
        of(secs.last()),
        passed.iter().map(|shown| shown.duplicates).sum::<u64>(),
        listed(&lost),
        listed(&notes),
    );
    passed.len() as u64 == times
}

fn repetition(case: &Case, protocol: Protocol, seed: u64, keys: &Path) -> Result<Shown, String> {
    let folder = tempfile::Builder::new().prefix("hosts_failures-").tempdir().unwrap();
    let mut scene = Scene::new(protocol, seed, folder.path(), keys);
    let began = Instant::now();
    match (case.run)(&mut scene) {
        Ok(()) => Ok(scene.shown),
        Err(error) => Err(format!("{error}{}\n    logs: {}", stalls_since(began), folder.keep().display())),
    }
}

/// Times at which this process stood still for long, and for how long: the machine had no time for it.
static STALLS: Mutex<Vec<(Instant, Duration)>> = Mutex::new(Vec::new());

/// Looks whether this process, and so those that it starts, gets time to run.
fn watch_for_stalls() {
    std::thread::spawn(|| {
        loop {
            let began = Instant::now();
            pause(Duration::from_millis(10));
            let stall = began.elapsed();
            if stall > Duration::from_millis(300) {
                STALLS.lock().unwrap().push((began, stall));
            }
        }
    });
}

/// What the machine did to a repetition that began then.
fn stalls_since(began: Instant) -> String {
    let stalls = STALLS.lock().unwrap();
    let longest = stalls.iter().filter(|(at, _)| *at > began).map(|(_, stall)| *stall).max();
    longest.map_or(String::new(), |stall| format!("\n    the machine stood still for {stall:.1?} meanwhile"))
}

fn listed(counts: &BTreeMap<&str, u64>) -> String {
    counts.iter().filter(|(_, n)| **n > 0).map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
}

/// Set by Ctrl-C and SIGTERM: repetitions then fail soon, and leave neither processes nor networks behind.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

/// Waits for so long, or until the bench is interrupted.
pub(crate) fn pause(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|_| !is_interrupted()) {
        #[allow(clippy::disallowed_methods)] // Nothing wakes it, so it looks by itself.
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}
