//! Many hosts at one learner, in one process.
//!
//! `cargo bench -p pronk-hosts --bench many -- [hosts] [seconds]`. Every host ships small fragments as fast
//! as they are acknowledged, reports, and fetches 100 KB of weights, of which there is a new version every
//! 100 ms.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pronk_buffer::{
    ActionKind, BatchShape, Gate, MultiAgentBatch, Notifier, ObsKind, Pool, PopError, SampleBatch, Tag, inqueue,
    mailbox, shutdown, weight_cell, weight_cell_from,
};
use pronk_hosts::{
    Actor, ActorEdges, Entered, Expected, ExpectedPolicy, Facts, HostEdges, Hosts, HostsConfig, Layouts, Left,
    MemoryNetwork, Over, Pixels, Terms, Welcome,
};
use pronk_metrics::{ByPolicy, StepLedger, TimeLedger};
use pronk_policy::{ParamLayout, Params, Space};
use pronk_rollout::{NormalizerConfig, WorkerReport};

const STEPS: usize = 8;
const COLUMNS: usize = 4;
const N_PARAMS: usize = 25_000;
const PUBLISH: Duration = Duration::from_millis(100);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let is_bench = args.iter().any(|arg| arg == "--bench");
    let mut numbers = args.iter().skip(1).filter_map(|arg| arg.parse::<u64>().ok());
    // Under `cargo test --benches` a few are enough to see that it runs.
    let n_hosts = numbers.next().unwrap_or(if is_bench { 1000 } else { 4 }) as u32;
    let time = Duration::from_secs(numbers.next().unwrap_or(if is_bench { 10 } else { 1 }));
    simulate(n_hosts, time);
}

fn layout() -> Arc<ParamLayout> {
    Arc::new(ParamLayout::new([("weight", vec![N_PARAMS])]))
}

fn params(fill: f32) -> ByPolicy<Params> {
    ByPolicy::from([("default_policy".into(), Params::new(layout(), vec![fill; N_PARAMS]).unwrap())])
}

fn shape() -> BatchShape {
    BatchShape {
        steps: STEPS,
        columns: COLUMNS,
        obs_len: 4,
        obs_kind: ObsKind::F32,
        act_len: 1,
        act_kind: ActionKind::U32,
        dist_len: 2,
        state_len: 0,
    }
}

fn simulate(n_hosts: u32, time: Duration) {
    let obs = Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4]).unwrap();
    let policy = ExpectedPolicy::new(shape(), &obs, Space::discrete(2).unwrap()).unwrap();
    let (guard, token) = shutdown();
    let (sender, fragments) = inqueue(16, Gate::Bounded, &token).unwrap();
    let (mut publisher, cell) = weight_cell(params(0.0));
    let (reports, mail) = mailbox::<WorkerReport>(NonZeroUsize::MIN, &Notifier::new());
    let (steps, ledger) = (StepLedger::new(), TimeLedger::new());
    let config = HostsConfig {
        terms: Terms { max_hosts: n_hosts.max(1), ..Terms::default() },
        welcome: Welcome::new(0, String::new()),
        facts: Facts::new(),
        expected: Expected::single(0, policy, NormalizerConfig::default()).unwrap(),
        policies: ["default_policy".into()].into(),
        first_worker: 0,
    };
    let edges = HostEdges {
        fragments: sender,
        weights: cell,
        reports,
        steps: steps.clone(),
        time: ledger.clone(),
        pool: Pool::new(32),
    };
    let network = MemoryNetwork::new();
    let hosts = Hosts::open(Box::new(network.listen()), config, edges).unwrap();

    let before = resident_kib();
    let began = Instant::now();
    let start = Arc::new(Barrier::new(n_hosts as usize + 1));
    let all: Vec<Simulated> = (0..n_hosts).map(|host| Simulated::start(&network, host, &start)).collect();
    start.wait();
    let joined = began.elapsed();
    let (began, first_version) = (Instant::now(), publisher.version());
    let (mut taken, mut halfway, mut next_publish) = (0_u64, None, began);
    while began.elapsed() < time {
        match fragments.pop(PUBLISH) {
            Ok(mut fragment) => {
                fragment.take_ticket().unwrap().trained();
                taken += 1;
            }
            Err(PopError::TimedOut) => {}
            Err(PopError::Closed) => break,
        }
        if Instant::now() >= next_publish {
            next_publish += PUBLISH;
            publisher.publish(params(taken as f32));
            drop(mail.drain());
            if began.elapsed() > time / 2 {
                halfway.get_or_insert_with(resident_kib);
            }
        }
    }
    let measured = began.elapsed();
    let status = hosts.status();
    let (published, after) = (publisher.version() - first_version, resident_kib());
    let began = Instant::now();
    drop(guard);
    hosts.end(Over::Finished, Duration::from_secs(60));
    let ended = began.elapsed();
    let left: Vec<(Left, u64)> = all.into_iter().map(|host| host.thread.join().unwrap()).collect();
    drop(fragments);

    let per_host: Vec<f64> = status.hosts.iter().map(|host| host.fragments as f64).collect();
    let (sum, squares) = (per_host.iter().sum::<f64>(), per_host.iter().map(|n| n * n).sum::<f64>());
    let (min, max) = (per_host.iter().copied().fold(f64::MAX, f64::min), per_host.iter().copied().fold(0.0, f64::max));
    let versions: Vec<u64> = left.iter().map(|(_, versions)| *versions).collect();
    println!("{n_hosts} hosts, {:.1} s; {} threads of this process each", measured.as_secs_f64(), 5);
    println!("all joined and started after      {:.2} s", joined.as_secs_f64());
    println!("resident before, halfway, after   {before}, {}, {after} KiB", halfway.unwrap_or_default());
    println!("fragments                         {taken}, {:.0} a second", taken as f64 / measured.as_secs_f64());
    println!(
        "fairness                          Jain {:.4}; least {min}, most {max} of a host",
        sum * sum / (per_host.len() as f64 * squares)
    );
    println!(
        "versions of weights               {published} published; a host got {} at least, {} at most",
        versions.iter().min().unwrap(),
        versions.iter().max().unwrap()
    );
    println!("all left after                    {:.2} s", ended.as_secs_f64());
    println!("joined, fell silent               {}, {}", status.joined, status.lost);
    let totals = steps.snapshot();
    let is_closed = totals.is_closed() && totals.in_flight == pronk_metrics::Steps::default() && ledger.is_closed();
    println!("books closed                      {is_closed}; {totals:?}");
    let odd = left.iter().filter(|(why, _)| *why != Left::Over(Over::Finished)).count();
    println!("hosts that left for other reasons {odd}");
    assert!(is_closed && odd == 0);
}

/// A host whose worker makes the same fragment again and again.
struct Simulated {
    /// Why it left, and how many versions of weights it got.
    thread: JoinHandle<(Left, u64)>,
}

impl Simulated {
    fn start(network: &MemoryNetwork, number: u32, start: &Arc<Barrier>) -> Self {
        let (dial, start) = (Box::new(network.dial(&format!("host-{number}"))), Arc::clone(start));
        let thread = thread::Builder::new().name(format!("host-{number}"));
        let thread = thread.spawn(move || {
            let (_kept, token) = shutdown();
            let mut actor = Actor::new(dial, 1, Duration::from_secs(120), token);
            let welcome = actor.hello().unwrap();
            let Entered::In(member) = actor.join(&welcome, Facts::new()).unwrap() else { panic!("it changed") };
            let layouts = Layouts::from([("default_policy".into(), layout())]);
            let first = member.first_weights(&layouts).unwrap();
            let (publisher, cell) = weight_cell_from(first);
            let (guard, token) = shutdown();
            let (sender, fragments) = inqueue(1, Gate::Bounded, &token).unwrap();
            let (posting, reports) = mailbox(NonZeroUsize::MIN, &Notifier::new());
            let (steps, time) = (StepLedger::new(), TimeLedger::new());
            let worker = member.first_worker();
            let edges = ActorEdges {
                fragments,
                weights: publisher,
                layouts,
                steps: steps.clone(),
                time,
                pixels: Pixels::Raw,
                token,
            };
            let mut stay = member.start(edges).unwrap();
            start.wait();
            let versions = Arc::new(AtomicU64::new(0));
            let worker = {
                let (steps, versions) = (steps.clone(), Arc::clone(&versions));
                thread::spawn(move || {
                    let mut newest = cell.version();
                    loop {
                        let tag = Tag { worker, version: 0, ..Tag::default() };
                        let batch = MultiAgentBatch::single(SampleBatch::blank(shape(), tag));
                        let ticket = steps.sampled(batch.steps());
                        let report = WorkerReport { fragments: 1, steps: batch.steps(), ..WorkerReport::default() };
                        if sender.push(batch.with_ticket(ticket)).is_err() {
                            return;
                        }
                        let _ = posting.post(report);
                        if cell.version() > newest {
                            newest = cell.version();
                            versions.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            };
            let left = stay.wait(&reports);
            drop(guard);
            steps.shut_down();
            worker.join().unwrap();
            stay.leave(WorkerReport::default(), &left);
            assert!(steps.snapshot().is_closed());
            (left, versions.load(Ordering::Relaxed))
        });
        Self { thread: thread.unwrap() }
    }
}

/// The memory that this process has resident; 0 where the system does not say.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}
