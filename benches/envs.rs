//! Steps per second of the native environments on one core, and of sampling with inference.
//!
//! ```text
//! cargo bench --bench envs               # all of it, about a minute
//! cargo bench --bench envs -- CartPole   # the rows whose name contains `CartPole`
//! cargo bench --bench envs -- sampling   # only a worker with its network
//! ```
//!
//! *Stepping*: with random actions drawn in advance; observations, rewards and ends are written, and ended
//! episodes reset. `serial` is `SerialVectorEnv`, which steps one environment after the other; `vectorised`
//! is `NativeVectorEnv`. Both alternate in one process; compare machines by the ratio. For comparison, on one
//! core of such a machine gymnasium's NumPy vector of CartPole made 16.8 M steps/s with 1,024 environments,
//! and EnvPool 1.2 M.
//!
//! *Sampling*: a `RolloutWorker` with an MLP 4-64-64 (tanh, one torso) fills fragments of 32 steps, which are
//! dropped.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // A bench prints its result and may stop at the first surprise.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pronk::buffer::{FinalObs, ObsKind, Pool, Versioned, shutdown};
use pronk::envs::{Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum};
use pronk::metrics::{ByPolicy, StateClock, StepLedger, default_policy};
use pronk::policy::{Activation, CpuNetwork, Encoder, GaussianConfig, NetworkSpec, Rng, Torso};
use pronk::rollout::{
    ActionRef, CallMonitor, End, Env, EnvContext, EnvFactory, Kernel, NormalizerConfig, ObsMut, RolloutWorker,
    VectorContext, VectorEnv, VectorStep, Vectorised, WorkerConfig, WorkerLinks, WorkerState,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Long enough for the clock, short enough that most samples on a busy machine are undisturbed.
const SAMPLE: Duration = Duration::from_millis(3);
/// Samples of each, in turn, after as many for warm-up.
const SAMPLES: usize = 101;
const WARM: usize = 11;
/// Steps whose actions are drawn in advance.
const STEPS: usize = 64;

fn main() {
    let wanted: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| name.contains(wanted.as_str()));
    println!("steps per second on one core, medians of {SAMPLES}\n");
    println!("{:<26} {:>12} {:>14} {:>14} {:>7}", "stepping", "environments", "serial", "vectorised", "ratio");
    for n_envs in [1, 64, 1024, 16384] {
        for (name, serial, vectorised) in [
            both::<CartPole>(|_| CartPole::new()),
            both::<Acrobot>(|_| Acrobot::new()),
            both::<MountainCar>(|_| MountainCar::new()),
            both::<MountainCarContinuous>(|_| MountainCarContinuous::new()),
            both::<Pendulum>(|_| Pendulum::new()),
        ] {
            if is_wanted(&name) {
                let mut cases = [&serial, &vectorised].map(|factory| Stepping::new(factory.as_ref(), n_envs));
                let [serial, vectorised] = medians(&mut cases, Stepping::steps, n_envs.max(Stepping::FEWEST));
                let ratio = vectorised / serial;
                println!("{name:<26} {n_envs:>12} {serial:>14.0} {vectorised:>14.0} {ratio:>7.1}");
            }
        }
    }
    if is_wanted("sampling") {
        println!("\n{:<26} {:>12} {:>14} {:>14} {:>7}", "sampling", "environments", "serial", "vectorised", "ratio");
        for n_envs in [1, 64, 256, 1024] {
            let (name, serial, vectorised) = both::<CartPole>(|_| CartPole::new());
            let mut cases = [serial, vectorised].map(|factory| Sampling::new(factory, n_envs));
            let [serial, vectorised] = medians(&mut cases, Sampling::sample, n_envs * Sampling::STEPS);
            let ratio = vectorised / serial;
            println!("{name:<26} {n_envs:>12} {serial:>14.0} {vectorised:>14.0} {ratio:>7.1}");
        }
    }
}

type Factory = Arc<dyn EnvFactory>;

/// An environment's name, and its two factories.
fn both<E: Env + Kernel>(make: fn(&EnvContext) -> E) -> (String, Factory, Factory) {
    (E::env_spec().name, Arc::new(make), Arc::new(Vectorised::<E>::new()))
}

/// Steps per second of each case, if a call makes `steps`. The cases alternate.
fn medians<C>(cases: &mut [C; 2], call: fn(&mut C), steps: usize) -> [f64; 2] {
    let mut samples = [(); 2].map(|()| Vec::with_capacity(SAMPLES));
    for sample in 0..WARM + SAMPLES {
        for (case, samples) in cases.iter_mut().zip(&mut samples) {
            let seconds = seconds_per_call(&mut || call(case));
            if sample >= WARM {
                samples.push(seconds);
            }
        }
    }
    samples.map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        steps as f64 / samples[SAMPLES / 2]
    })
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

/// Environments with their actions and output buffers.
struct Stepping {
    envs: Box<dyn VectorEnv>,
    choices: Vec<u32>,
    numbers: Vec<f32>,
    obs: Vec<f32>,
    rewards: Vec<f32>,
    ends: Vec<End>,
    final_obs: FinalObs,
    episodes: Vec<pronk::rollout::EpisodeStat>,
    t: usize,
}

impl Stepping {
    fn new(factory: &dyn EnvFactory, n_envs: usize) -> Self {
        let context = VectorContext { seed: 1, ..VectorContext::default() };
        let mut envs = factory.make_vector(&context, n_envs, &CallMonitor::new()).unwrap();
        let (spec, mut rng) = (envs.spec().clone(), Rng::seed_from(2));
        let (len, obs_len) = (STEPS * n_envs, spec.observation.obs_len());
        let (mut choices, mut numbers) = (Vec::new(), Vec::new());
        if spec.action.has_discrete_actions() {
            choices.extend((0..len).map(|_| rng.below(spec.action.dist_len() as u64) as u32));
        } else {
            numbers.extend((0..len).map(|_| 2.0 * rng.next_f32() - 1.0));
        }
        let mut obs = vec![0.0; n_envs * obs_len];
        envs.reset_all(ObsMut::F32(&mut obs)).unwrap();
        Self {
            envs,
            choices,
            numbers,
            obs,
            rewards: vec![0.0; n_envs],
            ends: vec![End::No; n_envs],
            final_obs: FinalObs::new(ObsKind::F32, obs_len),
            episodes: Vec::new(),
            t: 0,
        }
    }

    /// Env-steps of a call, many enough that the clock's own time is negligible.
    const FEWEST: usize = 1024;

    fn steps(&mut self) {
        for _ in 0..(Self::FEWEST / self.rewards.len()).max(1) {
            self.step();
        }
    }

    fn step(&mut self) {
        let n_envs = self.rewards.len();
        if self.t == STEPS {
            self.t = 0;
            self.final_obs = FinalObs::new(ObsKind::F32, self.obs.len() / n_envs);
            self.envs.drain_episodes(&mut self.episodes);
            self.episodes.clear();
        }
        let now = self.t * n_envs..(self.t + 1) * n_envs;
        let actions = match self.choices.get(now.clone()) {
            Some(choices) => ActionRef::Discrete(choices),
            None => ActionRef::Continuous(&self.numbers[now]),
        };
        let out = VectorStep {
            t: self.t,
            obs: ObsMut::F32(&mut self.obs),
            rewards: &mut self.rewards,
            ends: &mut self.ends,
            final_obs: &mut self.final_obs,
        };
        self.envs.step(actions, out).unwrap();
        self.t += 1;
    }
}

/// A worker and its weights.
struct Sampling {
    worker: RolloutWorker,
    weights: Versioned<ByPolicy<pronk::Params>>,
    clock: StateClock<WorkerState>,
    _guard: pronk::buffer::ShutdownGuard,
}

impl Sampling {
    /// Steps of a fragment.
    const STEPS: usize = 32;

    fn new(factory: Factory, n_envs: usize) -> Self {
        let spec = CartPole::env_spec();
        let network = NetworkSpec {
            encoder: Encoder::Mlp { hidden: vec![64, 64], activation: Activation::Tanh },
            torso: Torso::Shared,
            ..NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap()
        };
        let weights = ByPolicy::from([(default_policy(), network.init_params(1).unwrap())]);
        let (_guard, token) = shutdown();
        let config = WorkerConfig {
            worker: 1,
            incarnation: 0,
            seed: 1,
            num_envs_per_worker: NonZeroUsize::new(n_envs).unwrap(),
            rollout_fragment_length: NonZeroUsize::new(Self::STEPS).unwrap(),
            gaussian: GaussianConfig::default(),
            normalize: NormalizerConfig::default(),
        };
        let links = WorkerLinks::new(Pool::new(2), StepLedger::new(), token);
        let network = Box::new(CpuNetwork::new(&network).unwrap());
        Self {
            worker: RolloutWorker::new(config, factory, network, links).unwrap(),
            weights: Versioned::new(0, weights),
            clock: StateClock::new("rollout-1", WorkerState::Starting),
            _guard,
        }
    }

    fn sample(&mut self) {
        drop(self.worker.sample(&self.weights, &mut self.clock).unwrap());
        drop(self.worker.take_collected());
    }
}
