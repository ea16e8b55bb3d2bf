#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::thread::scope;
use std::time::Duration;

use pronk_buffer::{ShutdownGuard, Versioned, WeightPublisher, shutdown, weight_cell};
use pronk_metrics::{ByPolicy, StateClock, TimeLedger, default_policy};
use pronk_policy::{CpuNetwork, NetworkSpec};

use super::*;
use crate::act::InferenceThread;
use crate::env::{Env, EnvContext};
use crate::envs::{CartPole, Recall};
use crate::testing::{LONG, OneWeight, config, links, of_default, params};
use crate::worker::{RolloutWorker, SampleError, WorkerState};

struct Run {
    publisher: WeightPublisher<ByPolicy<Params>>,
    thread: InferenceThread,
    port: InferencePort,
    shutdown: ShutdownGuard,
    time: TimeLedger,
}

fn start(network: Box<dyn Network>, first: Params) -> Run {
    let (publisher, weights) = weight_cell(of_default(first));
    let (shutdown, token) = shutdown();
    let time = TimeLedger::new();
    let (thread, port) = InferenceThread::start(network, weights, &token, &time).unwrap();
    Run { publisher, thread, port, shutdown, time }
}

#[test]
fn workers_that_share_a_thread_make_what_they_make_by_themselves() {
    fn compare<E: Env + 'static>(make: impl Fn(&EnvContext) -> E + Copy + Send + Sync + 'static, lstm: Option<usize>) {
        let spec = make(&EnvContext::default()).spec();
        let network = NetworkSpec { lstm, ..NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap() };
        let first = network.init_params(3).unwrap();
        let cpu = || Box::new(CpuNetwork::new(&network).unwrap());
        let run = start(cpu(), first.clone());
        let weights = Versioned::new(0, ByPolicy::from([(default_policy(), first)]));
        let sample = |worker: u32, inference: Inference| {
            let (links, _steps, _guard) = links();
            let mut worker = RolloutWorker::new(config(worker, 7), Arc::new(make), inference, links).unwrap();
            let mut clock = StateClock::new("rollout", WorkerState::Starting);
            let mut fragment = || {
                let fragment = worker.sample(&weights, &mut clock).unwrap();
                let batch = fragment.get("default_policy").unwrap();
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert!(batch.versions().iter().all(|version| *version == 0));
                (bits(batch.obs().as_f32().unwrap()), bits(batch.behaviour_logp()), bits(batch.behaviour_values()))
            };
            (0..20).map(|_| fragment()).collect::<Vec<_>>()
        };
        let together = scope(|scope| {
            let sample = &sample;
            let workers: Vec<_> = (1..=4)
                .map(|worker| {
                    let client = run.port.client();
                    scope.spawn(move || sample(worker, client.into()))
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
        });
        for (worker, made) in (1..).zip(together) {
            assert!(made == sample(worker, cpu().into()), "worker {worker} in {}", spec.name);
        }
        drop(run.port);
        run.thread.join(LONG).expect("it ends with its clients");
        assert!(run.time.is_closed());
    }
    compare(|_| CartPole::new(), None);
    compare(|_| Recall::new(5), Some(8));
}

#[test]
fn weights_change_between_batches_and_every_step_says_which_decided_it() {
    let mut run = start(Box::new(OneWeight::new()), params(0.0));
    let mut client = Inference::from(run.port.client());
    let old = params(0.0);
    let (obs, mut out) = ([1.0, 2.0, 3.0], Outputs::default());
    let mut value = || {
        let version = client.forward((&old, 99), (ObsView::F32(&obs), 1), None, &mut out).unwrap();
        (version, out.values[0])
    };
    assert_eq!(value(), (0, 6.0), "whatever the worker itself was handed");
    run.publisher.publish(of_default(params(10.0)));
    assert_eq!(value(), (1, 16.0));
}

#[test]
fn what_goes_wrong_on_the_thread_comes_back_to_everybody_who_asked() {
    let mut run = start(Box::new(OneWeight::new()), params(0.0));
    run.publisher.publish(of_default(params(OneWeight::PANIC)));
    let (links, steps, shutdown) = links();
    let factory = Arc::new(|_: &EnvContext| crate::testing::Counter::of_three());
    let mut worker = RolloutWorker::new(config(1, 0), factory, run.port.client(), links).unwrap();
    let mut clock = StateClock::new("rollout-1", WorkerState::Starting);
    let weights = crate::testing::weights(0, 0.0);
    let error = worker.sample(&weights, &mut clock).map(drop).expect_err("the network panics");
    assert!(error.to_string().contains("on the inference thread: the network panicked: "), "{error}");
    // It goes on with other weights.
    run.publisher.publish(of_default(params(1.0)));
    worker.sample(&weights, &mut clock).unwrap();
    drop(run.shutdown);
    run.thread.join(LONG).expect("it ends with the run");
    let error = worker.sample(&weights, &mut clock).map(drop).expect_err("the thread is gone");
    assert_eq!(error.to_string(), "the inference thread has ended");
    // Where it is the worker's own run that ends, nothing has failed.
    drop(shutdown);
    let ended = worker.sample(&weights, &mut clock);
    assert!(matches!(ended, Err(SampleError::Closed)));
    assert!(steps.snapshot().is_closed());
}

#[test]
fn a_thread_that_has_not_ended_is_named() {
    let run = start(Box::new(OneWeight::new()), params(0.0));
    assert_eq!(run.thread.join(Duration::from_millis(10)), Err("inference".to_owned()));
}
