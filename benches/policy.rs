//! Rows per second of acting and learning on one core: `CpuNetwork`, the same network in candle
//! (`CandleNetwork`), and both relative to the core's peak.
//!
//! ```text
//! cargo bench --bench policy            # all of it, about two minutes
//! cargo bench --bench policy -- mlp     # the rows whose name contains `mlp`
//! cargo bench --bench policy -- --alone # without candle, for a profiler
//! cargo bench --bench policy -- --bf16  # products of bfloat16
//! cargo bench --bench policy --features cuda -- --device cuda --rows 256,4096 cnn
//! ```
//!
//! Both alternate in one process, on one thread; compare machines by the ratio. A learning step
//! is forward, the gradient of an actor-critic loss, backward and Adam. The peak is the `gemm` crate on
//! matrices of 768 × 768. `benches/peers/torch_nets.py` gives PyTorch's figures for the same shapes.
//!
//! With `--device` it is `CandleNetwork` alone, on that device, with the observations already there; weights
//! and gradients still cross, because Adam runs on the CPU. `benches/gpu.sh` compares that with PyTorch.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // A bench prints its result and may stop at the first surprise.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use pronk::learner::{AdamConfig, Optimizer, OptimizerConfig, StepOptions};
use pronk::policy::candle_core::{Device, Tensor};
use pronk::policy::{
    ActionsRef, Activation, CandleNetwork, CpuNetwork, DeviceSpec, Distribution, Encoder, Helpers, Input, LoadedObs,
    Memory, Network, NetworkSpec, ObsDtype, ObsRef, OutputGrads, Outputs, Params, PolicyError, Precision, Rng, Space,
    Torso, distribution_for,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Long enough for the clock, short enough that most samples on a busy machine are undisturbed.
const SAMPLE: Duration = Duration::from_millis(2);
/// Samples of each, taken in turn, unless that would take longer than `PATIENCE`.
const SAMPLES: usize = 101;
const PATIENCE: Duration = Duration::from_secs(6);
/// Calls before those that are measured on a device, which loads its kernels at their first use.
const WARM_UPS: usize = 3;
/// The clock rate has settled when two consecutive medians of the peak differ by at most this share.
const SETTLED: f64 = 0.01;

/// Measures networks.
#[derive(Parser)]
struct Args {
    /// Parts of the names to measure [default: all]
    wanted: Vec<String>,
    /// Measure without candle, for a profiler
    #[arg(long, conflicts_with = "device")]
    alone: bool,
    /// Round the factors of products to bfloat16
    #[arg(long)]
    bf16: bool,
    /// Measure only candle, on this device: cpu, cuda:0 or metal
    #[arg(long)]
    device: Option<DeviceSpec>,
    /// Rows of batches [default: those of each network]
    #[arg(long, value_delimiter = ',')]
    rows: Vec<usize>,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    /// What was asked for, with its rows.
    fn works(&self) -> impl Iterator<Item = (Work, usize)> {
        let is_wanted = |name: &str| self.wanted.is_empty() || self.wanted.iter().any(|part| name.contains(part));
        works().into_iter().filter(move |work| is_wanted(&work.name)).flat_map(|work| {
            let rows = if self.rows.is_empty() { work.rows.clone() } else { self.rows.clone() };
            rows.into_iter().map(move |rows| (work.clone(), rows))
        })
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(device) = args.device {
        println!("candle on {device}");
        let measured =
            device.open().and_then(|device| args.works().try_for_each(|(work, rows)| measure_on(&device, &work, rows)));
        return match measured {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    // candle reads this at its first computation, and is slower here with several threads. Setting a variable
    // of the own process is unsafe, so the bench restarts itself.
    const ONE_THREAD: &str = "RAYON_NUM_THREADS";
    if std::env::var(ONE_THREAD).as_deref() != Ok("1") {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let status = again.args(std::env::args_os().skip(1)).env(ONE_THREAD, "1").status().unwrap();
        return if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let peak = peak_flops();
    println!("peak of this core: {:.0} GFLOP/s\n", peak / 1e9);
    println!(
        "{:<34} {:>6} {:>12} {:>10} {:>6} {:>12} {:>7}",
        "", "rows", "rows/s", "GFLOP/s", "peak", "candle", "ratio"
    );
    let precision = if args.bf16 { Precision::Bf16 } else { Precision::F32 };
    args.works().for_each(|(work, rows)| measure(&work, rows, peak, precision, args.alone));
    println!("\npeak of this core, again: {:.0} GFLOP/s", peak_flops() / 1e9);
    ExitCode::SUCCESS
}

/// A network and its task.
#[derive(Clone)]
struct Work {
    name: String,
    spec: NetworkSpec,
    rows: Vec<usize>,
    steps: usize,
    learn: bool,
}

fn works() -> Vec<Work> {
    let numbers = |len: usize| Space::boxed(vec![-9.0; len], vec![9.0; len], vec![len]).unwrap();
    let mlp = |width, activation| Encoder::Mlp { hidden: vec![width; 2], activation };
    let spec = |obs: Space, actions, encoder| NetworkSpec {
        encoder,
        torso: Torso::Shared,
        ..NetworkSpec::for_spaces(&obs, &Space::discrete(actions).unwrap()).unwrap()
    };
    let image = || Space::bytes(vec![4, 84, 84]).unwrap();
    let lstm = NetworkSpec {
        lstm: Some(256),
        ..spec(numbers(256), 6, Encoder::Mlp { hidden: Vec::new(), activation: Activation::Tanh })
    };
    let networks = [
        (
            "mlp 4-64-64 tanh",
            spec(numbers(4), 2, mlp(64, Activation::Tanh)),
            vec![1, 64, 256, 4096],
            vec![64, 512, 4096],
            1,
        ),
        (
            "mlp 4-64-64 relu",
            spec(numbers(4), 2, mlp(64, Activation::Relu)),
            vec![1, 64, 256, 4096],
            vec![64, 512, 4096],
            1,
        ),
        (
            "mlp 17-256-256 tanh",
            spec(numbers(17), 6, mlp(256, Activation::Tanh)),
            vec![1, 16, 256],
            vec![64, 256, 2048],
            1,
        ),
        ("nature cnn", spec(image(), 6, Encoder::nature_cnn()), vec![32, 256], vec![32, 256], 1),
        ("residual cnn", spec(image(), 6, Encoder::impala_cnn()), vec![32], vec![32], 1),
        ("lstm 256, 20 steps", lstm, vec![640], vec![640], 20),
    ];
    let both = |(name, spec, act, learn, steps): (&str, NetworkSpec, Vec<usize>, Vec<usize>, usize)| {
        let work = |what, rows, learn| Work { name: format!("{name} {what}"), spec: spec.clone(), rows, steps, learn };
        [work("acting", act, false), work("learning", learn, true)]
    };
    networks.into_iter().flat_map(both).collect()
}

fn measure(work: &Work, rows: usize, peak: f64, precision: Precision, alone: bool) {
    let helpers = Helpers::new(0, 0).unwrap();
    let ours = CpuNetwork::with_precision(&work.spec, precision, helpers).unwrap();
    let mut ours = Case::new(work, rows, Box::new(ours));
    let mut candle = (!alone).then(|| Case::new(work, rows, Box::new(CandleNetwork::cpu(work.spec.clone()).unwrap())));
    let (mut our_samples, mut candle_samples) = (Vec::new(), Vec::new());
    let start = Instant::now();
    // Warm-up.
    for warm in [true, true, false] {
        while our_samples.len() < SAMPLES && (our_samples.len() < 3 || start.elapsed() < PATIENCE) {
            our_samples.push(seconds_per_call(&mut || ours.run()));
            candle_samples.extend(candle.as_mut().map(|candle| seconds_per_call(&mut || candle.run())));
            if warm {
                our_samples.clear();
                candle_samples.clear();
                break;
            }
        }
    }
    let our_seconds = median(our_samples);
    let (flops, ours) = (work.flops(rows) / our_seconds, rows as f64 / our_seconds);
    let (candle, ratio) = match candle {
        Some(_) => {
            let candle = rows as f64 / median(candle_samples);
            (format!("{candle:.0}"), format!("{:.1}", ours / candle))
        }
        None => ("-".to_owned(), "-".to_owned()),
    };
    println!(
        "{:<34} {rows:>6} {ours:>12.0} {:>10.1} {:>5.0}% {candle:>12} {ratio:>7}",
        work.name,
        flops / 1e9,
        100.0 * flops / peak,
    );
}

fn measure_on(device: &Device, work: &Work, rows: usize) -> Result<(), PolicyError> {
    let network = CandleNetwork::new(work.spec.clone(), device.clone())?;
    let mut case = Case::new(work, rows, Box::new(network));
    case.load()?;
    let mut run = || case.run();
    (0..WARM_UPS).for_each(|_| run());
    let (start, mut samples) = (Instant::now(), Vec::new());
    while samples.len() < SAMPLES && (samples.len() < 3 || start.elapsed() < PATIENCE) {
        samples.push(seconds_per_call(&mut run));
    }
    println!("{:<50} {rows:>6} {:>12.0} rows/s", work.name, rows as f64 / median(samples));
    Ok(())
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn seconds_per_call(call: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < SAMPLE {
        call();
        calls += 1;
    }
    start.elapsed().as_secs_f64() / f64::from(calls)
}

/// A network with a batch.
struct Case {
    network: Box<dyn Network>,
    params: Params,
    optimizer: Box<dyn Optimizer>,
    bytes: Vec<u8>,
    numbers: Vec<f32>,
    memory: Option<(Vec<f32>, Vec<bool>)>,
    loaded: LoadedObs,
    rows: usize,
    loss: ActorCritic,
    learn: bool,
    out: Outputs,
    grads: OutputGrads,
    grad: Vec<f32>,
}

impl Case {
    fn new(work: &Work, rows: usize, network: Box<dyn Network>) -> Self {
        let (spec, mut rng) = (&work.spec, Rng::seed_from(2));
        let params = spec.init_params(1).unwrap();
        let len = rows * spec.obs.obs_len();
        let is_bytes = spec.obs.obs_dtype() == ObsDtype::U8;
        let columns = rows / work.steps;
        Self {
            network,
            optimizer: OptimizerConfig::Adam(AdamConfig::default()).build(params.values().len()).unwrap(),
            bytes: if is_bytes { (0..len).map(|_| rng.below(256) as u8).collect() } else { Vec::new() },
            numbers: if is_bytes { Vec::new() } else { (0..len).map(|_| rng.normal() as f32).collect() },
            memory: spec.lstm.map(|_| (vec![0.0; columns * spec.state_len()], vec![false; rows])),
            loaded: LoadedObs::default(),
            rows,
            loss: ActorCritic::new(rows, spec.dist_len),
            learn: work.learn,
            out: Outputs::default(),
            grads: OutputGrads::default(),
            grad: vec![0.0; params.values().len()],
            params,
        }
    }

    /// Copies the observations to the network's device, if it has one.
    fn load(&mut self) -> Result<(), PolicyError> {
        let loader = self.network.obs_loader();
        let obs = if self.bytes.is_empty() { ObsRef::F32(&self.numbers) } else { ObsRef::U8(&self.bytes) };
        loader.map_or(Ok(()), |loader| loader.load(obs, self.rows, &mut self.loaded))
    }

    fn run(&mut self) {
        let obs = if self.bytes.is_empty() { ObsRef::F32(&self.numbers) } else { ObsRef::U8(&self.bytes) };
        let mut input = Input::new(obs, self.rows);
        if self.loaded.rows() > 0 {
            input = input.with_loaded(&self.loaded);
        }
        if let Some((state, starts)) = &self.memory {
            input = input.with_memory(Memory { state, starts });
        }
        if !self.learn {
            return self.network.forward(&self.params, &input, &mut self.out).unwrap();
        }
        self.network.forward_for_learning(&self.params, &input, &mut self.out).unwrap();
        self.loss.gradient(&self.out, &mut self.grads);
        self.network.backward(&self.params, &self.grads, &mut self.grad).unwrap();
        self.optimizer.step(self.params.values_mut(), &self.grad, StepOptions::whole(1e-6)).unwrap();
    }
}

/// A loss, −log π(a) · A − 0.01 · entropy + 0.25 · (v − target)², averaged over the rows.
struct ActorCritic {
    distribution: Box<dyn Distribution>,
    actions: Vec<u32>,
    logp: Vec<f32>,
    entropy: Vec<f32>,
    logp_weight: Vec<f32>,
    entropy_weight: Vec<f32>,
}

impl ActorCritic {
    fn new(rows: usize, actions: usize) -> Self {
        let scale = 1.0 / rows as f32;
        Self {
            distribution: distribution_for(&Space::discrete(actions).unwrap()).unwrap(),
            actions: (0..rows).map(|row| (row % actions) as u32).collect(),
            logp: vec![0.0; rows],
            entropy: vec![0.0; rows],
            logp_weight: (0..rows).map(|row| -scale * ((row % 7) as f32 - 3.0)).collect(),
            entropy_weight: vec![-0.01 * scale; rows],
        }
    }

    fn gradient(&mut self, out: &Outputs, grads: &mut OutputGrads) {
        let (rows, actions) = (out.values.len(), ActionsRef::Discrete(&self.actions));
        self.distribution.logp_and_entropy(&out.logits, actions, &mut self.logp, &mut self.entropy).unwrap();
        grads.reset(rows, self.distribution.dist_len());
        let (logp, entropy) = (&self.logp_weight, &self.entropy_weight);
        self.distribution.logp_and_entropy_grad(&out.logits, actions, logp, entropy, &mut grads.logits).unwrap();
        for (row, (grad, value)) in grads.values.iter_mut().zip(&out.values).enumerate() {
            *grad = 0.5 / rows as f32 * (value - (row % 5) as f32);
        }
    }
}

impl Work {
    /// Multiplications and additions of the products only, without padding.
    fn flops(&self, rows: usize) -> f64 {
        let layout = self.spec.layout().unwrap();
        let pixels = image_pixels(&self.spec.encoder);
        let mut pixels = pixels.iter();
        let mut per_row = 0.0;
        let mut first = None;
        for entry in layout.entries().iter().filter(|entry| entry.shape.len() > 1) {
            let times = if entry.shape.len() == 4 { *pixels.next().unwrap() } else { 1 };
            let flops = 2.0 * (entry.len() * times) as f64;
            first.get_or_insert(flops);
            per_row += flops;
        }
        // Learning costs the same again for each of two gradients; the one of the observations is not needed.
        rows as f64 * if self.learn { 3.0 * per_row - first.unwrap() } else { per_row }
    }
}

/// Positions of each convolution's kernels on an image of 84 × 84.
fn image_pixels(encoder: &Encoder) -> Vec<usize> {
    match encoder {
        Encoder::Mlp { .. } => Vec::new(),
        Encoder::NatureCnn { .. } => [20, 9, 7].map(|side| side * side).to_vec(),
        Encoder::ImpalaCnn { .. } => [(84, 42), (42, 21), (21, 11)]
            .into_iter()
            .flat_map(|(before, after): (usize, usize)| [before, after, after, after, after].map(|side| side * side))
            .collect(),
    }
}

/// The peak of the `gemm` crate, which candle uses, on one thread: floating-point operations per second.
fn peak_flops() -> f64 {
    const N: usize = 768;
    let matrix = |x: f32| Tensor::full(x, (N, N), &Device::Cpu).unwrap();
    let (a, b) = (matrix(0.5), matrix(0.25));
    let seconds =
        |samples| median((0..samples).map(|_| seconds_per_call(&mut || drop(a.matmul(&b).unwrap()))).collect());
    // An idle core starts at a low clock rate, and a busy one may be above its sustainable rate.
    let (began, mut before) = (Instant::now(), seconds(11));
    loop {
        let now = seconds(11);
        let apart = (now / before - 1.0).abs();
        if apart <= SETTLED || began.elapsed() >= PATIENCE {
            break;
        }
        before = now;
    }
    2.0 * (N * N * N) as f64 / seconds(41)
}
