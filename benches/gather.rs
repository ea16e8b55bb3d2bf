//! How many groups of environments a worker should wait for before the policy acts: every rule, in turn.
//!
//! ```text
//! cargo bench --bench gather               # all of it, about seven minutes
//! cargo bench --bench gather -- "8 × 20"   # the settings whose name contains `8 × 20`
//! ```
//!
//! CartPole, and CartPole whose group steps wait without using the processor: usually a little longer than
//! the given time, in one step of ten up to ten times as long. Both with a small and a large network. All
//! workers of a setting exist at once and alternate, and rates of one round are compared; `adaptive` keeps
//! what it has learned. Only delivered fragments count. Groups that are ready when a fragment ends need
//! another inference with the next weights: `all` pays that for all groups, which is much with fragments of 4
//! steps (8 × 4000) and little with 16 (8 × 20).
//!
//! Measured on a shared two-core machine whose speed changed by half within seconds: the rate relative to
//! `all`, medians of 7 (the last two rows) to 48 rounds. The quartiles of single rounds are 5 to 30 % away:
//!
//! ```text
//!                       each within   within         at least     in    adap-   adaptive to the
//!                       0.1   100 ms  0.1   100 ms   1      4     turn  tive    best fixed rule
//! 8 × 20    64          0.86  0.96  1.06  0.94  2.96  1.52  1.09  2.70  1.06  at least 1
//! 8 × 20    64, waits   1.40  1.05  2.02  1.01  2.13  1.65  1.28  2.02  0.97  at least 1
//! 8 × 20   256          1.08  1.01  1.05  0.95  1.32  1.33  1.54  1.55  1.06  in turn
//! 8 × 20   256, waits   1.36  1.02  1.74  1.02  2.33  1.74  1.44  2.28  1.02  at least 1
//! 8 × 4000  64          1.14  1.05  1.21  1.02  1.30  1.25  1.42  1.39  0.99  in turn
//! 8 × 4000  64, waits   2.04  1.00  2.16  1.02  2.43  1.70  1.74  2.45  1.02  at least 1
//! 8 × 4000 256          1.03  0.99  1.11  0.94  1.20  1.24  1.44  1.40  1.03  in turn
//! 8 × 4000 256, waits   1.40  1.03  1.23  1.02  1.53  1.40  1.56  1.58  1.00  in turn
//! ```
//!
//! As in the experiment, waiting up to 100 ms is waiting for all, and waiting 0.1 ms pays where step times
//! differ, but not for small groups whose steps take equally long. Waiting for one group is better than both,
//! because inference and steps then overlap. `adaptive` is within 3 % of the best fixed rule in every
//! setting, as far as medians of such noisy rounds can tell: an earlier run of the small groups had 0.97,
//! 0.97, 1.05 and 0.83.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // A bench prints its result and may stop at the first surprise.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pronk::buffer::{Pool, ShutdownGuard, Versioned, shutdown};
use pronk::envs::CartPole;
use pronk::metrics::{ByPolicy, StateClock, StepLedger, default_policy};
use pronk::policy::{
    Activation, CpuNetwork, Encoder, GaussianConfig, Input, Network, NetworkShape, NetworkSpec, OutputGrads, Outputs,
    ParamLayout, Params, PolicyError, Rng, Torso,
};
use pronk::rollout::{
    ActionRef, Env, EnvContext, EnvError, EnvSpec, Gather, GatheringWorkerConfig, NormalizerConfig, ObsMut,
    RestartPolicy, RolloutWorker, Step, WorkerConfig, WorkerLinks, WorkerState,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const GROUPS: usize = 8;

#[derive(Clone)]
struct Setting {
    group_size: usize,
    hidden: Vec<usize>,
    /// The shortest wait of a group's step.
    waits: Option<Duration>,
    fragment_length: usize,
    /// Measurement of a rule in one round: short, so that the machine changes little from one rule to the
    /// next.
    slice: Duration,
    /// Warm-up of a rule that learns, before the first round.
    learning: Duration,
    /// Time for all rounds of a setting.
    rounds: Duration,
}

impl Setting {
    fn name(&self) -> String {
        let waits = match self.waits {
            Some(waits) => format!("steps that wait for {waits:?} and more"),
            None => "steps as they are".to_owned(),
        };
        format!("{GROUPS} × {} environments, hidden {:?}, {waits}", self.group_size, self.hidden)
    }
}

fn settings() -> Vec<Setting> {
    let mut settings = Vec::new();
    for (group_size, fragment_length, wait, slice, [learning, rounds]) in
        [(20, 16, Duration::from_micros(200), 50, [6, 24]), (4000, 4, Duration::from_millis(2), 100, [18, 48])]
    {
        let slice = Duration::from_millis(slice);
        let (learning, rounds) = (Duration::from_secs(learning), Duration::from_secs(rounds));
        for hidden in [64, 256] {
            for waits in [None, Some(wait)] {
                let hidden = vec![hidden; 2];
                settings.push(Setting { group_size, hidden, waits, fragment_length, slice, learning, rounds });
            }
        }
    }
    settings
}

/// The first rule is the baseline of the others; the last one is compared with all.
fn rules() -> [(&'static str, Gather); 9] {
    let at_least = |n| Gather::AtLeast(NonZeroUsize::new(n).unwrap());
    let (short, long) = (Duration::from_micros(100), Duration::from_millis(100));
    [
        ("all", Gather::All),
        ("each within 0.1 ms", Gather::EachWithin(short)),
        ("each within 100 ms", Gather::EachWithin(long)),
        ("within 0.1 ms", Gather::Within(short)),
        ("within 100 ms", Gather::Within(long)),
        ("at least 1", at_least(1)),
        ("at least 4", at_least(4)),
        ("in turn", Gather::InTurn),
        ("adaptive", Gather::Adaptive),
    ]
}

fn main() {
    // Under `cargo test --benches` one round suffices to show that it runs.
    let args: Vec<_> = std::env::args().skip(1).collect();
    let is_bench = args.iter().any(|arg| arg == "--bench");
    let wanted: Vec<_> = args.iter().filter(|arg| !arg.starts_with("--")).collect();
    println!("medians of rounds; ratios are of one round, [first quartile, last quartile]");
    for setting in settings() {
        let name = setting.name();
        if wanted.is_empty() || wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            println!("\n{name}");
            println!("{:<20} {:>12} {:>26} {:>8}", "", "steps/s", "ratio to all", "at once");
            measure(&setting, is_bench);
        }
    }
}

fn measure(setting: &Setting, is_bench: bool) {
    let mut cases = rules().map(|(_, rule)| Case::new(setting, rule));
    let last = cases.len() - 1;
    let (slice, learning, all_rounds) = match is_bench {
        true => (setting.slice, setting.learning, setting.rounds),
        false => (Duration::ZERO, Duration::ZERO, Duration::ZERO),
    };
    for (rule, case) in cases.iter_mut().enumerate() {
        case.rate(if rule == last { learning } else { slice });
        case.inferred.reset();
    }
    let (began, mut rounds) = (Instant::now(), Vec::new());
    while rounds.len() < 3 || began.elapsed() < all_rounds {
        rounds.push(cases.each_mut().map(|case| case.rate(slice)));
    }

    let ratios = |rule: usize, to: usize| sorted(rounds.iter().map(|round| round[rule] / round[to]));
    for (rule, (name, _)) in rules().iter().enumerate() {
        let steps = middle(&sorted(rounds.iter().map(|round| round[rule])));
        let at_once = cases[rule].inferred.mean_rows() / setting.group_size as f64;
        println!("{name:<20} {steps:>12.0} {:>26} {at_once:>8.1}", spread(&ratios(rule, 0)));
    }
    let best = (0..last).max_by(|a, b| middle(&ratios(*a, 0)).total_cmp(&middle(&ratios(*b, 0)))).unwrap();
    let (best, ratio) = (rules()[best].0, spread(&ratios(last, best)));
    println!("adaptive to the best fixed rule, {best}: {ratio}; {} rounds", rounds.len());
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn middle(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

fn spread(sorted: &[f64]) -> String {
    let (low, high) = (sorted[sorted.len() / 4], sorted[sorted.len() * 3 / 4]);
    format!("×{:.3} [{low:.3}, {high:.3}]", middle(sorted))
}

/// A worker with one rule, and its weights.
struct Case {
    worker: RolloutWorker,
    weights: Versioned<ByPolicy<Params>>,
    clock: StateClock<WorkerState>,
    inferred: Arc<Inferred>,
    _guard: ShutdownGuard,
}

impl Case {
    fn new(setting: &Setting, gather: Gather) -> Self {
        let spec = CartPole::new().spec();
        let network = NetworkSpec {
            encoder: Encoder::Mlp { hidden: setting.hidden.clone(), activation: Activation::Tanh },
            torso: Torso::Shared,
            ..NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap()
        };
        let weights = ByPolicy::from([(default_policy(), network.init_params(1).unwrap())]);
        let (_guard, token) = shutdown();
        let config = GatheringWorkerConfig {
            worker: WorkerConfig {
                worker: 1,
                incarnation: 0,
                seed: 1,
                num_envs_per_worker: NonZeroUsize::new(GROUPS * setting.group_size).unwrap(),
                rollout_fragment_length: NonZeroUsize::new(setting.fragment_length).unwrap(),
                gaussian: GaussianConfig::default(),
                normalize: NormalizerConfig::default(),
            },
            num_env_groups: NonZeroUsize::new(GROUPS).unwrap(),
            gather,
            env_hang_timeout: None,
            restart: RestartPolicy::default(),
            waits_for_restarts: false,
        };
        let links = WorkerLinks::new(Pool::new(2), StepLedger::new(), token);
        let inferred = Arc::new(Inferred::default());
        let network: Box<dyn Network> =
            Box::new(Counting { network: CpuNetwork::new(&network).unwrap(), inferred: Arc::clone(&inferred) });
        let Setting { group_size, waits, .. } = *setting;
        let make = move |context: &EnvContext| Waiting {
            inner: CartPole::new(),
            // Only one of them waits, so that a group's step waits once.
            waits: waits.filter(|_| (context.index as usize).is_multiple_of(group_size)),
            rng: Rng::seed_from(context.seed),
        };
        Self {
            worker: RolloutWorker::gathering(config, Arc::new(make), network, links).unwrap(),
            weights: Versioned::new(0, weights),
            clock: StateClock::new("rollout-1", WorkerState::Starting),
            inferred,
            _guard,
        }
    }

    /// Steps per second over a few fragments. The first is not counted, because groups answered while other
    /// workers ran.
    fn rate(&mut self, slice: Duration) -> f64 {
        self.sample();
        let (start, mut steps) = (Instant::now(), self.sample());
        while start.elapsed() < slice {
            steps += self.sample();
        }
        steps as f64 / start.elapsed().as_secs_f64()
    }

    fn sample(&mut self) -> u64 {
        let fragment = self.worker.sample(&self.weights, &mut self.clock).unwrap();
        drop(self.worker.take_collected());
        fragment.env_steps()
    }
}

/// CartPole that may wait before each step: at least `waits`, usually little longer, occasionally ten times
/// as long.
struct Waiting {
    inner: CartPole,
    waits: Option<Duration>,
    rng: Rng,
}

impl Env for Waiting {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.inner.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        if let Some(waits) = self.waits {
            #[allow(clippy::disallowed_methods)] // this is what it is to show
            std::thread::sleep(waits.div_f32(self.rng.next_f32().max(0.1)));
        }
        self.inner.step(action, obs)
    }
}

/// A network that counts its calls.
struct Counting {
    network: CpuNetwork,
    inferred: Arc<Inferred>,
}

#[derive(Default)]
struct Inferred {
    calls: AtomicU64,
    rows: AtomicU64,
}

impl Inferred {
    fn reset(&self) {
        self.calls.store(0, Relaxed);
        self.rows.store(0, Relaxed);
    }

    fn mean_rows(&self) -> f64 {
        self.rows.load(Relaxed) as f64 / self.calls.load(Relaxed) as f64
    }
}

impl Network for Counting {
    fn shape(&self) -> &NetworkShape {
        self.network.shape()
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        self.network.layout()
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.inferred.calls.fetch_add(1, Relaxed);
        self.inferred.rows.fetch_add(input.rows as u64, Relaxed);
        self.network.forward(params, input, out)
    }

    fn forward_for_learning(&mut self, p: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.network.forward_for_learning(p, input, out)
    }

    fn backward(&mut self, params: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError> {
        self.network.backward(params, grads, grad)
    }
}
