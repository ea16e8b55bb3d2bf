//! Several devices, and stacks that are loaded ahead: a run like any other, whatever fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pronk::envs::CartPole;
use pronk::policy::{
    CpuNetwork, Input, LoadedObs, NetworkShape, NetworkSpec, ObsLoader, ObsRef, OutputGrads, Outputs, ParamLayout,
};
use pronk::prelude::*;
use pronk::{DeviceSpec, FailedRun, Network, Params, PolicyError, Run};

use crate::failures::{check, repeat};
use crate::fixtures::{are_refused, iterations, only, small, with, without_hanging};

fn cartpole(_: &EnvContext) -> CartPole {
    CartPole::new()
}

fn with_stacks(stacks: usize, threads: usize, mut config: TrainerConfig) -> TrainerConfig {
    config.learner.num_multi_gpu_tower_stacks = stacks;
    config.learner.num_data_load_threads = threads;
    config
}

#[test]
fn stacks_and_devices_change_nothing_about_the_books() {
    // (devices, stacks, threads, slots of the ring, passes)
    for (devices, stacks, threads, ring, passes) in [(1, 1, 1, 1, 1), (2, 2, 1, 2, 3), (2, 4, 4, 2, 2), (4, 3, 2, 1, 1)]
    {
        let what = format!("{devices} devices, {stacks} stacks, {threads} threads, a ring of {ring}, {passes} passes");
        let mut config = with_stacks(stacks, threads, small(2));
        config.learner.devices = vec![DeviceSpec::Cpu; devices];
        config.workers.num_envs_per_worker = 4;
        config.learner.train_batch_size = 32;
        config.learner.minibatch_buffer_size = ring;
        config.learner.num_sgd_iter = passes;
        let run = without_hanging("a run with stacks", move || {
            Trainer::new(config, cartpole).unwrap().run(iterations(20)).unwrap()
        });
        assert!(run.ledger_closed() && run.not_joined.is_empty(), "{what}: {:?} {:?}", run.steps, run.thread_times);
        let loaders = run.thread_times.iter().filter(|time| time.thread.starts_with("loader-")).count();
        assert_eq!(loaders, threads, "{what}");
        // Loading takes time, though maybe less than a microsecond a batch, which timers round to nothing.
        let states =
            run.thread_times.iter().filter(|time| time.thread.starts_with("loader-")).flat_map(|it| &it.states);
        let loading: f64 = states.filter(|(state, _)| *state == "loading").map(|(_, secs)| secs).sum();
        assert!(loading > 0.0, "{what}: {:?}", run.thread_times);
        // The first batches get fewer passes: never more than all of them.
        let (once, in_passes) = (run.steps.trained_once.env, run.steps.trained_passes.env);
        assert!(once > 0 && in_passes <= once * passes as u64, "{what}: {:?}", run.steps);
        assert_eq!(only(&run).state.updates * 32, in_passes, "{what}");
        assert_eq!(only(&run).state.global_step, once, "{what}");
    }
}

#[test]
fn a_run_without_threads_learns_the_same_on_any_number_of_devices() {
    let weights = |devices: usize| {
        let mut config = small(0);
        config.learner.devices = vec![DeviceSpec::Cpu; devices];
        config.workers.num_envs_per_worker = 4;
        config.learner.train_batch_size = 32;
        only(&Trainer::new(config, cartpole).unwrap().run(iterations(20)).unwrap()).state.params.values().to_vec()
    };
    let one = weights(1);
    for devices in [2, 4] {
        for (got, want) in weights(devices).iter().zip(&one) {
            assert!((got - want).abs() <= 1e-5 * want.abs().max(1.0), "{devices} devices: {got}, not {want}");
        }
    }
}

#[test]
fn two_devices_behind_stacks_learn() {
    let mut config = TrainerConfig {
        model: pronk::config::ModelConfig { fcnet_hiddens: vec![64, 64], ..pronk::config::ModelConfig::default() },
        ..with_stacks(2, 1, TrainerConfig::default())
    };
    config.workers.num_rollout_workers = 1;
    config.workers.num_envs_per_worker = 8;
    config.workers.rollout_fragment_length = 16;
    config.learner.train_batch_size = 256;
    config.learner.devices = vec![DeviceSpec::Cpu; 2];
    config.learner.lr = 0.002;
    config.results.min_time_s_per_iteration = 0.1;
    let stop = StopWhen { episode_return_mean: Some(150.0), env_steps: Some(4_000_000), ..StopWhen::default() };
    let run =
        without_hanging("learning behind stacks", move || Trainer::new(config, cartpole).unwrap().run(stop).unwrap());
    println!("two devices: {}", run.summary());
    assert!(run.reached() && run.ledger_closed(), "{}", run.summary());
}

/// A network that goes wrong where it is told to, at the third time.
struct Rigged {
    inner: CpuNetwork,
    fault: Fault,
    passes: u32,
    _token: Arc<()>,
}

#[derive(Clone)]
enum Fault {
    /// Until the other end of the channel is dropped.
    LoaderHangs(crossbeam_channel::Receiver<()>),
    LoaderErrs,
    LoaderPanics,
    DeviceErrs,
    DevicePanics,
}

fn out_of_memory() -> PolicyError {
    PolicyError::BadSpec { reason: "out of memory".to_owned() }
}

struct RiggedLoader {
    fault: Fault,
    loads: AtomicUsize,
}

impl ObsLoader for RiggedLoader {
    fn load(&self, _: ObsRef<'_>, _: usize, _: &mut LoadedObs) -> Result<(), PolicyError> {
        match &self.fault {
            Fault::LoaderHangs(hang) => {
                let _ = hang.recv();
                Ok(())
            }
            _ if self.loads.fetch_add(1, Ordering::Relaxed) < 2 => Ok(()),
            Fault::LoaderErrs => Err(out_of_memory()),
            Fault::LoaderPanics => panic!("out of memory"),
            Fault::DeviceErrs | Fault::DevicePanics => Ok(()),
        }
    }
}

impl Network for Rigged {
    fn shape(&self) -> &NetworkShape {
        self.inner.shape()
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        self.inner.layout()
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.inner.forward(params, &Input { loaded: None, ..*input }, out)
    }

    fn forward_for_learning(
        &mut self,
        params: &Params,
        input: &Input<'_>,
        out: &mut Outputs,
    ) -> Result<(), PolicyError> {
        self.passes += 1;
        match self.fault {
            Fault::DeviceErrs if self.passes == 3 => return Err(out_of_memory()),
            Fault::DevicePanics if self.passes == 3 => panic!("out of memory"),
            _ => {}
        }
        self.inner.forward_for_learning(params, &Input { loaded: None, ..*input }, out)
    }

    fn backward(&mut self, params: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError> {
        self.inner.backward(params, grads, grad)
    }

    fn obs_loader(&self) -> Option<Arc<dyn ObsLoader>> {
        Some(Arc::new(RiggedLoader { fault: self.fault.clone(), loads: AtomicUsize::new(0) }))
    }
}

/// A run on two devices behind stacks, of which the second device is rigged.
fn rigged(workers: usize, token: Arc<()>, fault: Fault) -> Result<Run, FailedRun> {
    let made = AtomicUsize::new(0);
    let network = move |env: &EnvSpec, _: DeviceSpec| {
        let spec = NetworkSpec::for_spaces(&env.observation, &env.action)?;
        let inner = CpuNetwork::new(&spec)?;
        // The first is only looked at, the next two are the devices, and the others act.
        Ok(match made.fetch_add(1, Ordering::Relaxed) {
            2 => Box::new(Rigged { inner, fault: fault.clone(), passes: 0, _token: Arc::clone(&token) })
                as Box<dyn Network>,
            _ => Box::new(inner),
        })
    };
    let mut config = with_stacks(2, 2, small(workers));
    config.learner.devices = vec![DeviceSpec::Cpu; 2];
    Trainer::builder(config).env(cartpole).network(network).build().unwrap().run(iterations(1_000_000))
}

#[test]
fn a_loader_errs() {
    repeat(|workers, token| {
        check(rigged(workers, token, Fault::LoaderErrs), "loader-", &["out of memory", "could not load", "loading"]);
    });
}

#[test]
fn a_loader_panics() {
    repeat(|workers, token| {
        check(rigged(workers, token, Fault::LoaderPanics), "loader-", &["out of memory", "panicked", "loading"]);
    });
}

#[test]
fn a_loader_that_hangs_is_left_behind_and_named() {
    let (let_go, hang) = crossbeam_channel::bounded::<()>(0);
    let run = without_hanging("a run with a hung loader", move || {
        let network = move |env: &EnvSpec, _: DeviceSpec| {
            let spec = NetworkSpec::for_spaces(&env.observation, &env.action)?;
            let (inner, fault) = (CpuNetwork::new(&spec)?, Fault::LoaderHangs(hang.clone()));
            Ok(Box::new(Rigged { inner, fault, passes: 0, _token: Arc::new(()) }) as Box<dyn Network>)
        };
        let stop = StopWhen { time: Some(std::time::Duration::from_millis(50)), ..StopWhen::default() };
        let config = with_stacks(1, 1, small(1));
        Trainer::builder(config).env(cartpole).network(network).build().unwrap().run(stop).unwrap()
    });
    assert_eq!(run.not_joined, ["loader-1"]);
    drop(let_go);
}

#[test]
fn a_device_errs() {
    repeat(|workers, token| {
        check(rigged(workers, token, Fault::DeviceErrs), "learner", &["out of memory", "update 3"]);
    });
}

#[test]
fn a_device_panics() {
    repeat(|workers, token| {
        check(rigged(workers, token, Fault::DevicePanics), "learner", &["out of memory", "update 3"]);
    });
}

#[test]
fn what_cannot_work_with_devices_and_stacks_is_refused_with_the_reason() {
    let cpus = |n| {
        let mut config = small(2);
        config.learner.devices = vec![DeviceSpec::Cpu; n];
        config
    };
    let cases = [
        (with(small(2), |c| c.learner.devices = Vec::new()), "devices", "needs a device"),
        (cpus(3), "train_batch_size", "2 columns"),
        (
            with(cpus(2), |c| c.learner.sgd_minibatch_size = std::num::NonZeroUsize::new(8)),
            "sgd_minibatch_size",
            "1 columns",
        ),
        (with_stacks(1, 1, small(0)), "num_multi_gpu_tower_stacks", "runs without threads"),
        (
            with(with_stacks(2, 1, small(2)), |c| c.learner.minibatch_buffer_size = 3),
            "num_multi_gpu_tower_stacks",
            "hold all stacks",
        ),
        (with_stacks(2, 0, small(2)), "num_data_load_threads", "nothing would load"),
        (with_stacks(2, 3, small(2)), "num_data_load_threads", "would idle"),
        (
            TrainerConfig { model: pronk::config::ModelConfig { burn_in: 2, ..small(2).model }, ..small(2) },
            "model.burn_in",
            "no recurrent state",
        ),
        (
            TrainerConfig {
                model: pronk::config::ModelConfig { burn_in: 8, use_lstm: true, ..small(2).model },
                ..small(2)
            },
            "model.burn_in",
            "no step",
        ),
    ];
    are_refused(cases);
}
