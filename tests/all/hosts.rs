//! Workers on other machines, here on a network without sockets.

mod refused;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pronk::buffer::{ShutdownGuard, shutdown};
use pronk::envs::{CartPole, TicTacToe};
use pronk::hosts::{JoinError, MemoryNetwork, Refusal, Relay, Terms, Toll};
use pronk::learner::Impala;
use pronk::prelude::*;
use pronk::{
    ActingError, ActingOutcome, EnvFactory, ImpalaConfig, MultiAgentConfig, Recording, Replay, Resume, Run, TrainError,
};

use crate::fixtures::{Before, has_words, iterations, small, with, without_hanging};

/// A lease that ends in tests, and beats that fit it.
fn terms() -> Terms {
    Terms { lease: Duration::from_secs(2), beat: Duration::from_millis(50), ..Terms::default() }
}

/// A run with no workers of its own.
fn learner() -> TrainerConfig {
    with(small(0), |config| {
        config.results.min_time_s_per_iteration = 0.01;
        // There is a result after a second without any fragment.
        config.learner.learner_queue_timeout = Duration::from_millis(100);
    })
}

fn env_steps(n: u64) -> StopWhen {
    StopWhen { env_steps: Some(n), ..StopWhen::default() }
}

fn listen(network: &MemoryNetwork, config: TrainerConfig) -> Trainer {
    listen_with(network, config, terms())
}

fn listen_with(network: &MemoryNetwork, config: TrainerConfig, terms: Terms) -> Trainer {
    let run = Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
    run.listen(network.listen(), terms).build().unwrap()
}

/// A host on a thread of its own, until its guard is dropped.
struct OnThread {
    thread: JoinHandle<Result<ActingOutcome, ActingError>>,
    guard: ShutdownGuard,
}

impl OnThread {
    fn start(network: &MemoryNetwork, name: &str, workers: u32) -> Self {
        Self::of(network, name, workers, |_: &EnvContext| CartPole::new())
    }

    fn of(network: &MemoryNetwork, name: &str, workers: u32, env: impl EnvFactory + 'static) -> Self {
        let host = Trainer::builder(TrainerConfig::default()).env(env).connect(network.dial(name));
        let (guard, token) = shutdown();
        let host = host.workers(workers).patience(Duration::from_secs(20)).until(token);
        // A test that waits for what a host does would not see why it has left.
        let run = || host.run().inspect_err(|error| println!("{error}"));
        Self { thread: std::thread::spawn(run), guard }
    }

    /// What it did in a run that has ended by itself.
    fn join(self) -> ActingOutcome {
        self.thread.join().unwrap().unwrap()
    }

    fn stop(self) -> ActingOutcome {
        drop(self.guard);
        self.thread.join().unwrap().unwrap()
    }
}

fn assert_closed(run: &Run) {
    assert!(run.ledger_closed(), "{:?} {:?}", run.steps, run.thread_times);
}

#[test]
fn a_run_with_remote_workers_only_has_every_step_in_its_ledger_once() {
    without_hanging("remote workers", || {
        let network = MemoryNetwork::new();
        let trainer = listen(&network, learner());
        let hosts: Vec<_> = ["a", "b"].map(|name| OnThread::start(&network, name, 2)).into();
        let run = trainer.run(env_steps(20_000)).unwrap();
        assert_closed(&run);
        assert!(run.steps.sampled.env >= 20_000, "{:?}", run.steps);
        let arrived: u64 = hosts.into_iter().map(|host| host.join().env_steps).sum();
        assert_eq!(run.steps.trained_once.env + run.steps.dropped.values().map(|it| it.env).sum::<u64>(), arrived);
        assert!(run.steps.lost.is_empty(), "{:?}", run.steps);
        assert!(run.result.episode_return_mean.is_some());
    });
}

#[test]
fn remote_workers_sample_beside_local_ones() {
    without_hanging("both", || {
        let network = MemoryNetwork::new();
        let mut trainer = listen(&network, with(learner(), |config| config.workers.num_rollout_workers = 1));
        let host = OnThread::start(&network, "a", 1);
        let both = trainer.by_ref().find(|result| {
            let dict = &result.as_ref().unwrap().dict;
            dict.number("hosts.by_name.a.fragments").is_some_and(|fragments| fragments > 10.0)
        });
        let both = both.unwrap().unwrap();
        assert!(both.ledger_closed());
        assert_eq!(both.dict.number("hosts.workers"), Some(1.0));
        assert!(both.time.iter().any(|time| time.thread == "a/rollout"), "{:?}", both.time);
        assert!(both.time.iter().any(|time| time.thread == "rollout-1"));
        let run = trainer.finish().unwrap();
        assert_closed(&run);
        assert!(!host.join().stopped);
    });
}

#[test]
fn hosts_come_and_go_and_what_they_take_with_them_has_a_name() {
    without_hanging("elastic", || {
        let network = MemoryNetwork::new();
        let mut trainer = listen(&network, learner());
        // None is needed at the start.
        let first = OnThread::start(&network, "a", 2);
        until(&mut trainer, |result| result.env_steps_sampled > 2_000);
        let second = OnThread::start(&network, "b", 1);
        assert!(first.stop().stopped);
        until(&mut trainer, |result| result.dict.number("hosts.by_name.b.env_steps").unwrap_or(0.0) > 2_000.0);
        let last = trainer.by_ref().next().unwrap().unwrap();
        assert_eq!(last.dict.number("hosts.joined"), Some(2.0));
        assert_eq!(last.dict.number("hosts.lost"), Some(0.0), "it has said that it leaves");
        let run = trainer.finish().unwrap();
        assert_closed(&run);
        // What the learner had not yet taken when the first host left, if anything.
        assert!(run.steps.lost.keys().all(|cause| &**cause == "host_lost"), "{:?}", run.steps);
        second.join();
    });
}

#[test]
fn a_host_that_is_cut_off_loses_its_lease_and_joins_anew() {
    without_hanging("cut off", || {
        let network = MemoryNetwork::new();
        let mut trainer = listen(&network, learner());
        let host = OnThread::start(&network, "a", 2);
        until(&mut trainer, |result| result.env_steps_sampled > 1_000);
        network.cut("a", true);
        until(&mut trainer, |result| result.dict.number("hosts.lost") == Some(1.0));
        network.cut("a", false);
        let before = trainer.by_ref().next().unwrap().unwrap().env_steps_sampled;
        until(&mut trainer, |result| result.env_steps_sampled > before + 1_000);
        let run = trainer.finish().unwrap();
        assert_closed(&run);
        assert_eq!(host.join().stays, 2);
    });
}

#[test]
fn a_cut_that_is_shorter_than_the_lease_costs_no_step() {
    without_hanging("short cut", || {
        let network = MemoryNetwork::new();
        let patient = Terms { lease: Duration::from_secs(60), ..terms() };
        let mut trainer = listen_with(&network, learner(), patient);
        let host = OnThread::start(&network, "a", 2);
        for _ in 0..2 {
            let before = trainer.by_ref().next().unwrap().unwrap().env_steps_sampled;
            until(&mut trainer, |result| result.env_steps_sampled > before + 1_000);
            network.cut("a", true);
            let cut = Instant::now();
            until(&mut trainer, |_| cut.elapsed() > Duration::from_millis(200));
            network.cut("a", false);
        }
        // Couriers pause before they ask again; the run then drains.
        let before = trainer.by_ref().next().unwrap().unwrap().env_steps_sampled;
        until(&mut trainer, |result| result.env_steps_sampled > before + 1_000);
        let run = trainer.run(env_steps(before + 100_000)).unwrap();
        assert_closed(&run);
        assert!(run.steps.lost.is_empty(), "{:?}", run.steps);
        assert_eq!(host.join().stays, 1);
    });
}

#[test]
fn what_is_lost_repeated_damaged_and_delayed_is_booked_once() {
    for seed in 0..4 {
        without_hanging("toll", move || {
            let network = MemoryNetwork::with_toll(Toll {
                seed,
                lose_requests: 0.05,
                lose_replies: 0.05,
                repeat: 0.1,
                damage: 0.001,
                delay: Duration::from_micros(200),
            });
            let trainer = listen(&network, learner());
            let hosts: Vec<_> = ["a", "b"].map(|name| OnThread::start(&network, name, 2)).into();
            let run = trainer.run(env_steps(20_000)).unwrap();
            assert_closed(&run);
            let arrived: u64 = hosts.into_iter().map(|host| host.join().env_steps).sum();
            let ended = run.steps.trained_once.env + run.steps.dropped.values().map(|it| it.env).sum::<u64>();
            // A host whose last acknowledgement was lost does not know of it.
            assert!(ended >= arrived, "{ended} {arrived} {:?}", run.steps);
            assert!(run.steps.sampled.env < 40_000, "{:?}", run.steps);
        });
    }
}

#[test]
fn hosts_follow_a_learner_that_was_killed_and_resumed() {
    without_hanging("resumed", || {
        let network = MemoryNetwork::new();
        let folder = tempfile::tempdir().unwrap();
        let start = || {
            let run = Trainer::builder(learner()).env(|_: &EnvContext| CartPole::new());
            let run = run.checkpoints(folder.path()).resume(Resume::auto());
            run.listen(network.listen(), terms()).build().unwrap()
        };
        let mut trainer = start();
        let host = OnThread::start(&network, "a", 2);
        until(&mut trainer, |result| result.env_steps_sampled > 2_000 && result.iteration > 3);
        drop(trainer);
        let mut trainer = start();
        let first = trainer.by_ref().next().unwrap().unwrap();
        assert!(first.env_steps_sampled > 0);
        let run = trainer.run(env_steps(first.env_steps_sampled + 5_000)).unwrap();
        assert_closed(&run);
        assert_eq!(run.checkpoints["default_policy"].life, 1);
        assert!(host.join().stays >= 2);
    });
}

#[test]
fn several_agents_with_a_frozen_policy_act_on_hosts_too() {
    without_hanging("agents", || {
        let network = MemoryNetwork::new();
        let agents = || MultiAgentConfig {
            policies_to_train: Some(["crosses".into()].into()),
            ..MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")])
        };
        let run = |config| Trainer::builder(config).multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents());
        let trainer = run(learner()).listen(network.listen(), terms()).build().unwrap();
        let host = run(TrainerConfig::default()).connect(network.dial("a")).workers(2);
        let host = std::thread::spawn(|| host.run());
        let run = trainer.run(env_steps(10_000)).unwrap();
        assert_closed(&run);
        assert!(run.steps.dropped.contains_key("not_trained"), "{:?}", run.steps);
        host.join().unwrap().unwrap();
    });
}

#[test]
fn the_record_of_a_run_with_hosts_is_replayed_from_its_fragments_only() {
    without_hanging("record", || {
        let (network, folder) = (MemoryNetwork::new(), tempfile::tempdir().unwrap());
        let path = folder.path().join("run.rec");
        let run = |config| Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
        let config = with(learner(), |config| config.workers.num_rollout_workers = 1);
        let recording = Recording::to(&path).with_fragments();
        let trainer = run(config).record(recording).listen(network.listen(), terms()).build().unwrap();
        let host = OnThread::start(&network, "a", 2);
        let recorded = trainer.run(env_steps(20_000)).unwrap();
        host.join();
        let replay = || Replay::open(&path).unwrap();
        let config = replay().config().clone();
        let refused = run(config.clone()).replay(replay()).build().map(drop).unwrap_err();
        assert!(refused.to_string().contains("workers of other machines sampled for it"), "{refused}");
        let replayed = run(config).replay(replay().from_fragments()).build().unwrap();
        let replayed = replayed.run(StopWhen::default()).unwrap();
        assert_eq!(replayed.weights_digest(), recorded.weights_digest());
    });
}

#[test]
fn a_host_whose_workers_have_all_given_up_leaves_and_the_run_goes_on() {
    without_hanging("gave up", || {
        let network = MemoryNetwork::new();
        let mut trainer = listen(&network, learner());
        let broken = OnThread::of(&network, "broken", 1, |_: &EnvContext| {
            crate::fixtures::Faulty::new(crate::fixtures::Fault::Error, 1)
        });
        let gave_up = loop {
            if broken.thread.is_finished() {
                break broken.thread.join().unwrap();
            }
            trainer.by_ref().next().unwrap().unwrap();
        };
        assert!(matches!(gave_up, Err(ActingError::Workers(_))), "{gave_up:?}");
        let host = OnThread::start(&network, "a", 1);
        let run = trainer.run(env_steps(2_000)).unwrap();
        assert_closed(&run);
        assert!(run.steps.lost.contains_key("env_error"), "{:?}", run.steps);
        host.join();
    });
}

#[test]
fn a_run_without_hosts_waits_and_says_so() {
    without_hanging("waits", || {
        let network = MemoryNetwork::new();
        // Long before the learner counts as starved.
        let patient = |config: &mut TrainerConfig| config.learner.learner_queue_timeout = Duration::from_secs(100_000);
        let mut trainer = listen(&network, with(learner(), patient));
        let result = trainer.by_ref().next().unwrap().unwrap();
        assert_eq!(result.dict.number("hosts.connected"), Some(0.0));
        assert!(result.ledger_closed());
        let host = OnThread::start(&network, "a", 1);
        let run = trainer.run(iterations(result.iteration + 3)).unwrap();
        assert_closed(&run);
        host.join();
    });
}

#[test]
fn a_run_that_finishes_while_hosts_sample_loses_nothing_of_theirs() {
    without_hanging("finishes", || {
        let network = MemoryNetwork::new();
        let mut trainer = listen(&network, learner());
        let hosts: Vec<_> = ["a", "b"].map(|name| OnThread::start(&network, name, 2)).into();
        // One that joins too late finds no learner.
        let mut begun = 0;
        until(&mut trainer, |result| {
            begun = result.iteration;
            result.dict.number("hosts.connected") == Some(2.0)
        });
        let run = trainer.run(iterations(begun + 20)).unwrap();
        assert_closed(&run);
        assert!(run.steps.lost.is_empty(), "{:?}", run.steps);
        hosts.into_iter().for_each(|host| assert!(!host.join().stopped));
    });
}

#[test]
fn a_limit_of_env_steps_is_overshot_by_what_is_on_its_way_and_no_beat_more() {
    without_hanging("limit", || {
        let network = MemoryNetwork::new();
        // Only acknowledgements tell of the limit in time.
        let seldom = Terms { lease: Duration::from_secs(40), beat: Duration::from_secs(10), ..terms() };
        let trainer = listen_with(&network, learner(), seldom);
        let host = OnThread::start(&network, "a", 2);
        let run = trainer.run(env_steps(20_000)).unwrap();
        assert_closed(&run);
        // Those of two workers that are being made, in the host's queue, and with its couriers.
        let fragment = (learner().workers.num_envs_per_worker * learner().workers.rollout_fragment_length) as u64;
        let over = run.steps.sampled.env - 20_000;
        assert!(over <= 12 * fragment, "{over} where a fragment has {fragment}");
        host.join();
    });
}

#[test]
fn a_draining_run_waits_for_a_host_that_is_cut_off_although_its_learner_starves() {
    without_hanging("drains", || {
        let network = MemoryNetwork::new();
        let mut trainer = listen_with(&network, learner(), Terms { lease: Duration::from_secs(20), ..terms() });
        let hosts = ["a", "b"].map(|name| OnThread::start(&network, name, 1));
        until(&mut trainer, |result| result.dict.number("hosts.by_name.a.env_steps") > Some(0.0));
        network.cut("a", true);
        let limit = trainer.by_ref().next().unwrap().unwrap().env_steps_sampled + 1000;
        // The learner may starve for a tenth of this.
        let heals = after(Duration::from_secs(1), move || network.cut("a", false));
        let run = trainer.run(env_steps(limit)).unwrap();
        assert_closed(&run);
        heals.join().unwrap();
        let made: u64 = hosts.into_iter().map(|host| host.join().env_steps).sum();
        assert_eq!((run.steps.sampled.env, run.steps.lost.len()), (made, 0), "{:?}", run.steps);
    });
}

#[test]
fn a_run_that_has_enough_drains_what_its_books_do_not_know_yet() {
    without_hanging("unknown", || {
        let network = MemoryNetwork::new();
        let mut trainer = listen_with(&network, learner(), Terms { lease: Duration::from_secs(20), ..terms() });
        let halts = Arc::new(AtomicBool::new(false));
        let in_envs = Arc::clone(&halts);
        let host = OnThread::of(&network, "a", 1, move |_: &EnvContext| {
            let halts = Arc::clone(&in_envs);
            let stands_still = move || {
                while halts.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                Ok(())
            };
            Before(CartPole::new(), stands_still)
        });
        until(&mut trainer, |result| result.env_steps_sampled > 0);
        halts.store(true, Ordering::Release);
        until(&mut trainer, |result| result.dict.number("ledger.steps.in_flight.env") == Some(0.0));
        // In the middle of a fragment, and with no way to tell of it.
        network.cut("a", true);
        halts.store(false, Ordering::Release);
        let sampled = trainer.by_ref().next().unwrap().unwrap().env_steps_sampled;
        let heals = after(Duration::from_secs(1), move || network.cut("a", false));
        let run = trainer.run(env_steps(sampled)).unwrap();
        assert_closed(&run);
        heals.join().unwrap();
        assert_eq!(run.steps.trained_once.env, host.join().env_steps);
        assert!(run.steps.trained_once.env > sampled && run.steps.trained_once == run.steps.sampled, "{:?}", run.steps);
    });
}

/// Does something later.
fn after(time: Duration, what: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    #[allow(clippy::disallowed_methods)] // What happens at some time is what is tested.
    std::thread::spawn(move || {
        std::thread::sleep(time);
        what();
    })
}

#[test]
fn weights_come_through_a_relay_and_from_the_learner_where_it_is_gone() {
    without_hanging("relay", || {
        let (network, near) = (MemoryNetwork::new(), MemoryNetwork::new());
        let mut trainer = listen(&network, learner());
        let relay = Relay::open(Box::new(near.listen()), Box::new(network.dial("relay")), 8).unwrap();
        let hosts: Vec<_> = ["a", "b", "c"]
            .map(|name| {
                let host = Trainer::builder(TrainerConfig::default()).env(|_: &EnvContext| CartPole::new());
                let host = host.connect(network.dial(name)).weights_from(near.dial(name)).workers(1);
                std::thread::spawn(|| host.run())
            })
            .into();
        until(&mut trainer, |result| result.env_steps_sampled > 20_000);
        let status = relay.status();
        assert!(status.versions > 3 && status.pieces > status.versions, "{status:?}");
        let weights = |result: &pronk::TrainResult| -> f64 {
            let of = |name: &&str| result.dict.number(&format!("hosts.by_name.{name}.weights_bytes"));
            ["a", "b", "c"].iter().filter_map(of).sum()
        };
        let last = trainer.by_ref().next().unwrap().unwrap();
        // It asks in their names, once for all of them.
        let fetched = relay.status().fetched_bytes as f64;
        assert!(weights(&last) < 1.5 * fetched, "{} {fetched}", weights(&last));
        drop((relay, near));
        let before = (last.env_steps_sampled, weights(&last));
        until(&mut trainer, |result| {
            result.env_steps_sampled > before.0 + 20_000 && weights(result) > before.1 + 10_000.0
        });
        let run = trainer.finish().unwrap();
        assert_closed(&run);
        hosts.into_iter().for_each(|host| assert_eq!(host.join().unwrap().unwrap().stays, 1));
    });
}

/// Results until one fulfils the condition.
fn until(trainer: &mut Trainer, mut is_met: impl FnMut(&pronk::TrainResult) -> bool) {
    let found = trainer.by_ref().map(Result::unwrap).find(|result| is_met(result));
    assert!(found.is_some());
}
