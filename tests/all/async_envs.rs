//! Runs whose environments are behind a network: real connections to a server on this machine.

use std::num::NonZeroUsize;
use std::time::Duration;

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{AsyncEnvs, Gather, StopReason, TrainError};

use crate::fixtures::{iterations, small, with, without_hanging};
use crate::learning;
use crate::remote::{RemoteCartPole, serve};

/// A run that acts for whoever has answered.
fn of_connections(num_envs_per_worker: usize, mut config: TrainerConfig) -> TrainerConfig {
    config.workers.num_envs_per_worker = num_envs_per_worker;
    config.workers.gather = Gather::AtLeast(NonZeroUsize::MIN);
    config.supervision.env_hang_timeout = Some(Duration::from_millis(500));
    config
}

#[test]
fn a_run_learns_from_a_server() {
    let run = without_hanging("learning from a server", || {
        let address = serve(|_, _| Some(Duration::ZERO)).unwrap();
        let config = of_connections(32, learning::config(1, 1));
        let stop = StopWhen { episode_return_mean: Some(200.0), env_steps: Some(10_000_000), ..StopWhen::default() };
        Trainer::new(config, AsyncEnvs::new(move |_: EnvContext| RemoteCartPole::connect(address)))
            .unwrap()
            .run(stop)
            .unwrap()
    });
    assert!(run.reached(), "{}", run.summary());
    assert!(run.ledger_closed() && run.not_joined.is_empty());
    let tasks = run.thread_times.iter().find(|thread| thread.thread == "rollout-1-tasks").unwrap();
    assert!(tasks.states.iter().all(|(_, secs)| *secs > 0.0), "{tasks:?}");
}

#[test]
fn it_goes_on_while_servers_hang_up_or_say_nothing_more() {
    for workers in [0, 1, 2] {
        let run = without_hanging("bad servers", move || {
            // One hangs up and one falls silent, both in the middle of a column; the ones that follow them
            // are good.
            let address = serve(|connection, request| match connection {
                3 if request == 22 => None,
                5 if request == 13 => Some(Duration::from_secs(3600)),
                _ => Some(Duration::ZERO),
            })
            .unwrap();
            let config = of_connections(6, small(workers));
            let mut trainer =
                Trainer::new(config, AsyncEnvs::new(move |_: EnvContext| RemoteCartPole::connect(address))).unwrap();
            let is_over = |steps: &pronk::metrics::StepTotals| {
                ["env_error", "env_hang"].iter().all(|cause| steps.lost.contains_key(*cause))
            };
            for result in trainer.by_ref() {
                let result = result.unwrap();
                assert!(result.ledger_closed(), "{result}");
                if is_over(&result.steps) {
                    break;
                }
            }
            trainer.finish().unwrap()
        });
        assert!(run.ledger_closed() && run.not_joined.is_empty() && run.abandoned.count == 0, "{}", run.summary());
    }
}

#[test]
fn a_run_without_threads_waits_for_all_and_repeats_itself() {
    let returns = || {
        without_hanging("a run that repeats itself", || {
            let address = serve(|_, _| Some(Duration::ZERO)).unwrap();
            let mut config = of_connections(4, small(0));
            config.workers.gather = Gather::All;
            let envs = AsyncEnvs::new(move |_: EnvContext| RemoteCartPole::connect(address));
            let run = Trainer::new(config, envs).unwrap().run(iterations(20)).unwrap();
            assert_eq!(run.reason, Some(StopReason::Iterations));
            run.checkpoints["default_policy"].state.params.values().to_vec()
        })
    };
    let on_thread = without_hanging("the same on one thread", || {
        let mut config = small(0);
        config.workers.num_envs_per_worker = 4;
        let run = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap().run(iterations(20)).unwrap();
        run.checkpoints["default_policy"].state.params.values().to_vec()
    });
    let (first, second) = (returns(), returns());
    assert!(first == second, "two runs differ");
    assert!(first == on_thread, "the server's CartPole is another one");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let refused = |config: TrainerConfig| {
        let address = serve(|_, _| Some(Duration::ZERO)).unwrap();
        match Trainer::new(config, AsyncEnvs::new(move |_: EnvContext| RemoteCartPole::connect(address))) {
            Ok(_) => panic!("it began"),
            Err(error) => error.to_string(),
        }
    };
    let text = refused(with(of_connections(4, small(1)), |c| c.workers.num_env_groups = 2));
    assert!(text.contains("num_env_groups = 2") && text.contains("leave it at 1"), "{text}");
    let text = refused(with(of_connections(4, small(1)), |c| {
        c.workers.gather = Gather::AtLeast(NonZeroUsize::new(5).unwrap())
    }));
    assert!(text.contains("gather.at_least = 5"), "{text}");
    // Nobody listens there.
    let nowhere = AsyncEnvs::new(|_: EnvContext| RemoteCartPole::connect(([127, 0, 0, 1], 1).into()));
    match Trainer::new(of_connections(4, small(1)), nowhere) {
        Err(error @ TrainError::Env(_)) => assert!(error.to_string().contains("refused"), "{error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it began"),
    }
}
