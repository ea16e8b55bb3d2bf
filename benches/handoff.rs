//! How long a fragment takes from an actor's hands into the learner's, and how many pass in a second.
//!
//! ```text
//! cargo bench --features hosts-zenoh --bench handoff               # all of it, about two minutes
//! cargo bench --features hosts-zenoh --bench handoff -- "10 KB"    # fragments of one size
//! ```
//!
//! Seven ways, for fragments of three sizes: a plain copy of the bytes; the inqueue between two threads of
//! one process; the whole path of a host over a network without sockets, over TCP and over QUIC with
//! certificates; and the engine alone, with the same bytes and a learner that replies at once. All ends are
//! in this process, so that one clock measures both.
//!
//! *Latency* is the time from the push into the actor's inqueue until the learner has popped the fragment, or
//! from the call until the learner's end of the engine has the bytes. All threads have gone to sleep before,
//! as they have in a run that is not at its limit. *Throughput* counts fragments that were acknowledged,
//! while as many are on their way as a host of three workers has credits.
//!
//! The ways take turns in every round, and the figures are medians, so that a noisy machine disturbs all
//! alike; only ratios should be compared between machines. The copy is of memory that stays in the cache if
//! it fits there. The inqueue moves a fragment without a look at its bytes, so its MB/s are no bandwidth.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // A bench prints its result and may stop at the first surprise.

#[path = "handoff/ways.rs"]
mod ways;

use std::time::Duration;

use pronk::buffer::{
    ActionKind, ActionViewMut, BatchShape, MultiAgentBatch, ObsKind, ObsViewMut, Pool, SampleBatch, Tag,
};
use pronk::hosts::{Encoder, Expected, ExpectedPolicy, MemoryNetwork, Pixels};
use pronk::hosts_zenoh::{Certificates, LEARNER, ZenohDial, ZenohListen, make_certificates};
use pronk::policy::Space;
use pronk::rollout::NormalizerConfig;

use ways::{Copy, Engine, Path, Spent, Way};

/// What the examples use: the system's allocator gives blocks as large as these back to the system each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Latencies in a turn.
const SAMPLES: usize = 20;
/// Fragments in a turn that measures throughput, at least.
const LEAST: u64 = 8;
/// The name of the host.
const HOST: &str = "host";

/// How long is measured.
struct Effort {
    rounds: usize,
    /// Of a turn that measures throughput.
    turn: Duration,
}

fn main() {
    // Under `cargo test --benches` once through is enough to see that it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let effort = match is_bench {
        true => Effort { rounds: 9, turn: Duration::from_millis(200) },
        false => Effort { rounds: 1, turn: Duration::ZERO },
    };
    println!("medians of {} rounds; {} fragments of a host may be on their way\n", effort.rounds, ways::CREDITS);
    let wanted: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    for size in sizes() {
        if wanted.is_empty() || wanted.iter().any(|wanted| size.name.contains(wanted.as_str())) {
            measure(&size, &effort);
        }
    }
}

/// The figures of one way.
struct Row {
    name: &'static str,
    /// The engine alone over the same protocol.
    engine: Option<&'static str>,
    way: Box<dyn Way>,
    latencies: Vec<Duration>,
    rates: Vec<f64>,
}

fn rows(size: &Size) -> (Vec<Row>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path(), &["127.0.0.1"], &[HOST]).unwrap();
    let certificates = |name| Certificates::in_folder(folder.path(), name);
    let tcp = || ZenohListen::at("tcp/127.0.0.1:0");
    let quic = || ZenohListen::at("quic/127.0.0.1:0").certificates(certificates(LEARNER)).allow([HOST]);
    let to_tcp = |address: &str| ZenohDial::to(address).name(HOST);
    let to_quic = |address: &str| ZenohDial::to(address).certificates(certificates(HOST));
    let memory = MemoryNetwork::new();
    let row = |name, engine, way: Box<dyn Way>| Row { name, engine, way, latencies: Vec::new(), rates: Vec::new() };
    let rows = vec![
        row("copy", None, Box::new(Copy::new(&size.frame()))),
        row("inqueue", None, Box::new(Path::in_process(size))),
        row("host, no sockets", None, Box::new(Path::between(size, memory.listen(), |_| memory.dial(HOST)))),
        row("host, tcp", Some("engine, tcp"), Box::new(Path::between(size, tcp(), to_tcp))),
        row("host, quic", Some("engine, quic"), Box::new(Path::between(size, quic(), to_quic))),
        row("engine, tcp", None, Box::new(Engine::new(size.frame(), tcp(), to_tcp))),
        row("engine, quic", None, Box::new(Engine::new(size.frame(), quic(), to_quic))),
    ];
    (rows, folder)
}

fn measure(size: &Size, effort: &Effort) {
    let (mut rows, _folder) = rows(size);
    for round in 0..=effort.rounds {
        for row in &mut rows {
            let latencies = row.way.latencies(SAMPLES);
            // As many as fill the turn, by what the turn before was like.
            let usual = row.rates.last().copied().unwrap_or(1.0 / median(&latencies).as_secs_f64());
            let n = ((usual * effort.turn.as_secs_f64()) as u64).clamp(LEAST, 1_000_000);
            let rate = row.way.rate(n);
            if round == 0 {
                // A warm-up, which says how many fragments fill a turn.
                row.rates = vec![rate];
                row.way.forget();
                continue;
            }
            if round == 1 {
                row.rates.clear();
            }
            row.latencies.extend(latencies);
            row.rates.push(rate);
        }
    }
    print(size, &rows);
}

fn print(size: &Size, rows: &[Row]) {
    let bytes = size.frame().len();
    println!("{}: {bytes} bytes", size.name);
    println!(
        "{:<18} {:>9} {:>17} {:>8} {:>8} {:>8}   {:>10} {:>7} {:>17} {:>8}",
        "", "µs", "(10 to 90 %)", "/ copy", "/ queue", "/ engine", "fragm./s", "MB/s", "(least to most)", "/ engine"
    );
    let named = |name| rows.iter().find(|row| row.name == name).unwrap();
    let micros = |row: &Row| median(&row.latencies).as_secs_f64() * 1e6;
    let rate = |row: &Row| median(&row.rates);
    let (copy, queue) = (micros(named("copy")), micros(named("inqueue")));
    for row in rows {
        let (mut latencies, mut rates) = (row.latencies.clone(), row.rates.clone());
        latencies.sort_unstable();
        rates.sort_by(f64::total_cmp);
        let share = |part: usize| latencies[part * (latencies.len() - 1) / 10].as_secs_f64() * 1e6;
        let megabytes = |rate: f64| rate * bytes as f64 / 1e6;
        let to_engine = |of: &dyn Fn(&Row) -> f64| {
            row.engine.map_or("–".to_owned(), |engine| format!("{:.2}", of(row) / of(named(engine))))
        };
        println!(
            "{:<18} {:>9.1} {:>17} {:>8.1} {:>8.2} {:>8}   {:>10.0} {:>7.0} {:>17} {:>8}",
            row.name,
            micros(row),
            format!("{:.1} – {:.1}", share(1), share(9)),
            micros(row) / copy,
            micros(row) / queue,
            to_engine(&micros),
            rate(row),
            megabytes(rate(row)),
            format!("{:.0} – {:.0}", megabytes(rates[0]), megabytes(rates[rates.len() - 1])),
            to_engine(&rate),
        );
    }
    println!("\n  threads at full throughput, µs for each fragment");
    for row in rows {
        if let Some(Spent { fragments, packing, network, unpacking }) = row.way.spent() {
            let each = |secs: f64| 1e6 * secs / fragments as f64;
            println!(
                "  {:<18} packing {:>7.1}   sent until acknowledged {:>8.1}   unpacking {:>7.1}",
                row.name,
                each(packing),
                each(network),
                each(unpacking)
            );
        }
    }
    println!();
}

fn median<T: PartialOrd + Clone>(values: &[T]) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap());
    sorted[sorted.len() / 2].clone()
}

/// Fragments of one size.
struct Size {
    name: &'static str,
    shape: BatchShape,
    obs: Space,
    action: Space,
}

fn sizes() -> [Size; 3] {
    let boxed = |len| Space::boxed(vec![-1.0; len], vec![1.0; len], vec![len]).unwrap();
    let size = |name, steps, columns, obs: Space, action: Space| {
        let act_kind = if action.has_discrete_actions() { ActionKind::U32 } else { ActionKind::F32 };
        let shape = BatchShape {
            steps,
            columns,
            obs_len: obs.obs_len(),
            obs_kind: ObsKind::F32,
            act_len: action.act_len(),
            act_kind,
            dist_len: action.dist_len(),
            state_len: 0,
        };
        Size { name, shape, obs, action }
    };
    [
        size("10 KB: T=32 B=8, 4 numbers, discrete", 32, 8, boxed(4), Space::discrete(2).unwrap()),
        size("500 KB: T=64 B=32, 40 numbers, continuous", 64, 32, boxed(40), boxed(8)),
        size("5 MB: T=128 B=64, 128 numbers, continuous", 128, 64, boxed(128), boxed(8)),
    ]
}

impl Size {
    fn expected(&self) -> Expected {
        let policy = ExpectedPolicy::new(self.shape, &self.obs, self.action.clone()).unwrap();
        Expected::single(0, policy, NormalizerConfig::default()).unwrap()
    }

    /// Storage in which something stands: pages that were never written to are no memory yet.
    fn pool(&self, fragments: usize) -> Pool {
        let pool = Pool::new(fragments);
        let filled = |_| {
            let mut samples = pool.take(self.shape, Tag::default());
            fill(&mut samples);
            samples
        };
        drop((0..fragments).map(filled).collect::<Vec<_>>());
        pool
    }

    /// A fragment as bytes.
    fn frame(&self) -> Vec<u8> {
        let mut samples = SampleBatch::blank(self.shape, Tag::default());
        fill(&mut samples);
        let mut frame = Vec::new();
        Encoder::default().encode(&MultiAgentBatch::single(samples), Pixels::Raw, &mut frame);
        frame
    }
}

fn fill(samples: &mut SampleBatch) {
    let wave = |numbers: &mut [f32], step: f32| {
        numbers.iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * step).sin());
    };
    if let ObsViewMut::F32(obs) = samples.obs_mut() {
        wave(obs, 0.7);
    }
    if let ActionViewMut::F32(actions) = samples.actions_mut() {
        wave(actions, 0.3);
    }
    wave(samples.behaviour_inputs_mut(), 0.1);
    wave(samples.behaviour_values_mut(), 0.2);
    samples.rewards_mut().iter_mut().step_by(17).for_each(|reward| *reward = 1.0);
}
