#![allow(clippy::unwrap_used, clippy::expect_used)]

mod normalized;
mod position;
mod tasks;

use std::time::Duration;

use pronk_buffer::SampleBatch;
use pronk_policy::{CpuNetwork, NetworkSpec};

use super::*;
use crate::env::{ActionRef, CallMonitor, Env, EnvContext, EnvFailure, EpisodeStat, ObsMut, VectorContext};
use crate::envs::{CartPole, Recall};
use crate::testing::{Counter, Fault, Hooked, LONG, Moment, NO_PAUSE, OneWeight, config, links, n, until, weights};
use crate::vector::{VectorEnv, VectorStep};
use crate::worker::{Collected, RolloutWorker};

fn of_groups(n_envs: usize, n_groups: usize, gather: Gather) -> GatheringWorkerConfig {
    GatheringWorkerConfig {
        worker: WorkerConfig { num_envs_per_worker: n(n_envs), ..config(1, 7) },
        num_env_groups: n(n_groups),
        gather,
        env_hang_timeout: None,
        restart: NO_PAUSE,
        waits_for_restarts: false,
    }
}

fn clock() -> StateClock<WorkerState> {
    StateClock::new("rollout-1", WorkerState::Starting)
}

fn at_least(groups: usize) -> Gather {
    Gather::AtLeast(n(groups))
}

/// Everything in a batch, bit for bit, but for what would follow an episode that ends with the last step:
/// nobody looks at it.
fn content(fragment: &MultiAgentBatch) -> impl PartialEq + use<> {
    let batch = only(fragment);
    let BatchShape { steps, columns, obs_len, .. } = *batch.shape();
    let ended = |b: usize| batch.ends()[(steps - 1) * columns + b] != End::No;
    let bits = |values: &[f32]| {
        let (last, row_len) = match values.len() / columns {
            rows if rows == (steps + 1) * obs_len => (steps * columns * obs_len, obs_len),
            rows if rows == steps + 1 => (steps * columns, 1),
            _ => (usize::MAX, 1),
        };
        let counts = |i: usize| i < last || !ended((i - last) / row_len);
        let bits = values.iter().enumerate().map(|(i, value)| if counts(i) { value.to_bits() } else { 0 });
        bits.collect::<Vec<_>>()
    };
    let finals: Vec<_> = batch.final_obs().iter().map(|(t, b, row)| (t, b, bits(row.as_f32().unwrap()))).collect();
    (
        (bits(batch.obs().as_f32().unwrap()), format!("{:?}", batch.actions()), bits(batch.rewards())),
        (batch.ends().to_vec(), finals, bits(batch.behaviour_logp()), bits(batch.behaviour_inputs())),
        (bits(batch.behaviour_values()), bits(batch.state_in()), batch.tags().to_vec()),
    )
}

/// Fragments of a worker, with the same weights all the time.
fn fragments(worker: &mut RolloutWorker, weights: &Versioned<ByPolicy<Params>>, n: usize) -> Vec<MultiAgentBatch> {
    let mut clock = clock();
    (0..n)
        .map(|_| {
            let mut fragment = loop {
                match worker.sample(weights, &mut clock) {
                    Err(SampleError::AllFailed) => {}
                    made => break made.unwrap(),
                }
            };
            fragment.take_ticket().unwrap().trained();
            fragment
        })
        .collect()
}

fn only(fragment: &MultiAgentBatch) -> &SampleBatch {
    fragment.get("default_policy").unwrap()
}

#[test]
fn there_is_a_moment_for_other_work_whenever_it_would_wait_for_groups() {
    let (links, _steps, _guard) = links();
    let groups = of_groups(4, 2, Gather::All);
    let make = |_: &EnvContext| Counter::of_three();
    let mut worker = RolloutWorker::gathering(groups, Arc::new(make), Box::new(OneWeight::new()), links).unwrap();
    let mut moments = 0;
    drop(worker.sample_and(&weights(0, 0.5), &mut clock(), &mut |_| moments += 1).unwrap());
    // The environments are reset, then make four steps.
    assert_eq!(moments, 5);
}

#[test]
fn waiting_for_all_or_in_turn_makes_what_one_thread_makes_bit_for_bit() {
    fn compare<E: Env + 'static>(make: impl Fn(&EnvContext) -> E + Copy + Send + Sync + 'static, use_lstm: bool) {
        let spec = make(&EnvContext::default()).spec();
        let mut network = NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap();
        if use_lstm {
            network.lstm = Some(8);
        }
        let params = network.init_params(3).unwrap();
        let weights = Versioned::new(5, ByPolicy::from([(default_policy(), params)]));
        let cpu = || Box::new(CpuNetwork::new(&network).unwrap());
        let (serial_links, _, _guard) = links();
        let of_serial = of_groups(6, 1, Gather::All).worker;
        let mut serial = RolloutWorker::new(of_serial, Arc::new(make), cpu(), serial_links).unwrap();
        let expected: Vec<_> = fragments(&mut serial, &weights, 30).iter().map(content).collect();
        for (n_groups, gather) in [(1, Gather::All), (3, Gather::All), (2, Gather::InTurn), (6, Gather::InTurn)] {
            let (links, steps, _guard) = links();
            let config = of_groups(6, n_groups, gather);
            let mut worker = RolloutWorker::gathering(config, Arc::new(make), cpu(), links).unwrap();
            let made: Vec<_> = fragments(&mut worker, &weights, 30).iter().map(content).collect();
            let same = made.iter().zip(&expected).take_while(|(made, expected)| made == expected).count();
            assert_eq!(same, 30, "{} in {n_groups} groups, {gather:?}: fragments that are the same", spec.name);
            drop(worker);
            assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight.env == 0, "{:?}", steps.snapshot());
        }
    }
    compare(|_| CartPole::new(), false);
    compare(|_| Counter::new(&[(3, End::Truncated), (5, End::Terminated)]), false);
    compare(|_| Recall::new(5), true);
}

#[test]
fn every_rule_fills_whole_columns_and_books_every_step() {
    for gather in [
        at_least(1),
        at_least(2),
        Gather::Within(Duration::from_micros(50)),
        Gather::EachWithin(Duration::from_micros(10)),
        Gather::Adaptive,
    ] {
        let (links, steps, _guard) = links();
        let factory = |_: &EnvContext| Counter::new(&[(3, End::Truncated), (5, End::Terminated)]);
        let network = Box::new(OneWeight::new());
        let mut worker = RolloutWorker::gathering(of_groups(8, 4, gather), Arc::new(factory), network, links).unwrap();
        let mut episodes = 0;
        for fragment in fragments(&mut worker, &weights(2, 0.5), 40) {
            let batch = only(&fragment);
            assert_eq!((batch.shape().steps, batch.shape().columns), (4, 8), "{gather:?}");
            batch.check_ends().unwrap();
            assert!(batch.versions().iter().all(|version| *version == 2));
            // An observation is [episode, step of the episode, noise]: every column is one time line.
            let obs = batch.obs().as_f32().unwrap();
            for b in 0..8 {
                let at = |t: usize| (obs[(t * 8 + b) * 3], obs[(t * 8 + b) * 3 + 1]);
                for t in 0..4 {
                    let (episode, step) = at(t);
                    let follows = match batch.ends()[t * 8 + b] {
                        End::No => (episode, step + 1.0),
                        // Nothing follows the last step of a column that ends with an episode.
                        _ if t == 3 => (0.0, 0.0),
                        _ => (episode + 1.0, 0.0),
                    };
                    assert_eq!(at(t + 1), follows, "{gather:?}");
                    assert_eq!(batch.rewards()[t * 8 + b], step + 1.0);
                }
            }
            episodes += worker.take_collected().episodes.len();
        }
        assert!(episodes > 100, "{gather:?}: {episodes}");
        let trained = steps.snapshot().trained_once.env;
        drop(worker);
        let totals = steps.snapshot();
        assert_eq!((trained, totals.in_flight.env), (40 * 4 * 8, 0));
        assert!(
            totals.is_closed()
                && totals.trained_once.env + totals.dropped.get("shutdown").map_or(0, |steps| steps.env)
                    == totals.sampled.env
        );
    }
}

#[test]
fn a_slow_group_keeps_nobody_waiting() {
    let (step, may_step) = crossbeam_channel::bounded::<()>(0);
    let (links, steps, shutdown) = links();
    let factory = move |context: &EnvContext| {
        let gate = (context.index == 0).then(|| may_step.clone());
        Hooked::before(move |moment| {
            if let (Moment::Step, Some(gate)) = (moment, &gate) {
                let _ = gate.recv();
            }
        })
    };
    let network = Box::new(OneWeight::new());
    let mut worker = RolloutWorker::gathering(of_groups(4, 4, at_least(1)), Arc::new(factory), network, links).unwrap();
    fragments(&mut worker, &weights(0, 0.0), 20);
    assert_eq!(steps.snapshot().trained_once.env, 20 * 16, "three groups fill all of them");
    // Its own columns come as slowly as it steps, and nothing is lost. It may not have been told to step
    // before.
    let slow = std::thread::spawn(move || (0..8).for_each(|_| step.send(()).unwrap()));
    let began = Instant::now();
    while !slow.is_finished() {
        assert!(began.elapsed() < LONG);
        fragments(&mut worker, &weights(0, 0.0), 1);
    }
    slow.join().unwrap();
    drop(shutdown);
    assert!(matches!(worker.sample(&weights(0, 0.0), &mut clock()), Err(SampleError::Closed)));
    assert!(worker.close().is_empty());
    assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight.env == 0);
}

#[test]
fn a_group_that_fails_costs_its_own_columns_and_begins_anew() {
    for (fault, cause) in [
        (Fault::StepErr(7), "env_error"),
        (Fault::StepPanic(7), "env_panic"),
        (Fault::StepNanObs(7), "non_finite_observation"),
        (Fault::ResetErr(2), "env_error"),
    ] {
        for gather in [Gather::All, Gather::InTurn, at_least(1)] {
            let (links, steps, _guard) = links();
            // The second environment of the second group fails, twice.
            let factory = move |context: &EnvContext| {
                let fails = context.index == 3 && context.incarnation < 2;
                Counter::of_three().with_fault(if fails { fault } else { Fault::Nothing })
            };
            let network = Box::new(OneWeight::new());
            let mut worker =
                RolloutWorker::gathering(of_groups(6, 3, gather), Arc::new(factory), network, links).unwrap();
            let began = Instant::now();
            let mut failures = Vec::new();
            while failures.len() < 2 {
                assert!(began.elapsed() < LONG, "{fault:?}");
                fragments(&mut worker, &weights(0, 0.0), 1);
                failures.extend(worker.take_collected().failures);
                assert!(steps.snapshot().is_closed());
            }
            fragments(&mut worker, &weights(0, 0.0), 20);
            let Collected { failures: later, abandoned, .. } = worker.take_collected();
            assert!(later.is_empty() && abandoned.is_empty(), "{fault:?}: the third life is a healthy one");
            let text = failures[1].to_string();
            assert!(text.starts_with("environment 3 of rollout-1 (Counter, incarnation 1) failed"), "{text}");
            drop(worker);
            let totals = steps.snapshot();
            // The column of four that came before is kept. Of the next one, both environments had made two
            // steps, and of the third one or both.
            let lost = match fault {
                Fault::ResetErr(_) => 2 * 2 + 2,
                _ => 2 * 2 + 1,
            };
            assert_eq!(totals.lost[cause].env, 2 * lost, "{fault:?} {totals:?}");
            assert!(totals.is_closed() && totals.in_flight.env == 0, "{totals:?}");
        }
    }
}

#[test]
fn a_group_that_hangs_is_abandoned_named_and_replaced() {
    // Found while others go on answering, too.
    for gather in [Gather::All, at_least(1)] {
        let (let_go, hang) = crossbeam_channel::bounded::<()>(0);
        let (links, steps, _guard) = links();
        let factory = move |context: &EnvContext| {
            let hang = (context.index == 2 && context.incarnation == 0).then(|| hang.clone());
            let mut n_steps = 0;
            Hooked::before(move |moment| {
                n_steps += u32::from(moment == Moment::Step);
                if let (2, Moment::Step, Some(hang)) = (n_steps, moment, &hang) {
                    let _ = hang.recv();
                }
            })
        };
        // Far longer than any step takes, on a busy machine too.
        let env_hang_timeout = Some(Duration::from_millis(300));
        let config = GatheringWorkerConfig { env_hang_timeout, ..of_groups(4, 2, gather) };
        let mut worker =
            RolloutWorker::gathering(config, Arc::new(factory), Box::new(OneWeight::new()), links).unwrap();
        let began = Instant::now();
        let (mut failures, mut abandoned) = (Vec::new(), Vec::new());
        while failures.is_empty() {
            assert!(began.elapsed() < LONG);
            fragments(&mut worker, &weights(0, 0.0), 1);
            Collected { failures, abandoned, .. } = worker.take_collected();
        }
        let words = [
            "rollout-1-envs-1: environment 2 of rollout-1 (Counter, incarnation 0) failed at step 2 of the episode",
            "has not returned for",
            "last observation [1.0, 1.0, ",
        ];
        for word in words {
            assert!(abandoned[0].contains(word), "{word}: {abandoned:?}");
        }
        assert_eq!(steps.snapshot().lost["env_hang"].env, 2, "both environments of the group had made one step");
        fragments(&mut worker, &weights(0, 0.0), 5);
        drop(let_go);
        assert!(worker.close().is_empty());
        drop(worker);
        assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight.env == 0);
    }
}

#[test]
fn a_group_that_hangs_while_dropped_is_abandoned_too() {
    struct Blocks(Option<crossbeam_channel::Receiver<()>>);
    impl Drop for Blocks {
        fn drop(&mut self) {
            let _ = self.0.as_ref().map(crossbeam_channel::Receiver::recv);
        }
    }
    let (let_go, hold) = crossbeam_channel::bounded::<()>(0);
    let (links, steps, _guard) = links();
    let factory = move |context: &EnvContext| {
        let fails = context.index == 2 && context.incarnation == 0;
        let blocks = Blocks(fails.then(|| hold.clone()));
        Hooked::before(move |moment| {
            assert!(moment != Moment::Step || blocks.0.is_none(), "planted");
        })
    };
    let env_hang_timeout = Some(Duration::from_millis(300));
    let config = GatheringWorkerConfig { env_hang_timeout, ..of_groups(4, 2, at_least(1)) };
    let mut worker = RolloutWorker::gathering(config, Arc::new(factory), Box::new(OneWeight::new()), links).unwrap();
    let began = Instant::now();
    let mut abandoned = Vec::new();
    while abandoned.is_empty() {
        assert!(began.elapsed() < LONG);
        fragments(&mut worker, &weights(0, 0.0), 1);
        abandoned = worker.take_collected().abandoned;
    }
    assert!(abandoned[0].starts_with("rollout-1-envs-1: environment 2 of rollout-1"), "{abandoned:?}");
    fragments(&mut worker, &weights(0, 0.0), 5);
    drop(let_go);
    assert!(worker.close().is_empty());
    drop(worker);
    assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight.env == 0);
}

#[test]
fn an_environment_that_hangs_as_it_is_made_is_named() {
    let (let_go, hold) = crossbeam_channel::bounded::<()>(0);
    let (links, _steps, _guard) = links();
    let factory = move |context: &EnvContext| {
        if context.index == 3 {
            let _ = hold.recv();
        }
        Counter::of_three()
    };
    let env_hang_timeout = Some(Duration::from_millis(300));
    let config = GatheringWorkerConfig { env_hang_timeout, ..of_groups(4, 2, Gather::All) };
    let made = RolloutWorker::gathering(config, Arc::new(factory), Box::new(OneWeight::new()), links);
    let text = made.err().unwrap().to_string();
    drop(let_go);
    let words = ["environment 3 of rollout-1", "while it was made", "has not returned for"];
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn a_worker_ends_at_once_though_an_environment_hangs_and_names_its_thread() {
    let (let_go, hang) = crossbeam_channel::bounded::<()>(0);
    let (entering, entered) = crossbeam_channel::bounded(1);
    let (links, _steps, shutdown) = links();
    let factory = move |context: &EnvContext| {
        let hang = (context.index == 0).then(|| (entering.clone(), hang.clone()));
        Hooked::before(move |moment| {
            if let (Moment::Step, Some((entering, hang))) = (moment, &hang) {
                let _ = entering.try_send(());
                let _ = hang.recv();
            }
        })
    };
    let network = Box::new(OneWeight::new());
    let mut worker = RolloutWorker::gathering(of_groups(2, 2, Gather::All), Arc::new(factory), network, links).unwrap();
    let sampling = std::thread::spawn(move || {
        let closed = matches!(worker.sample(&weights(0, 0.0), &mut clock()), Err(SampleError::Closed));
        (closed, worker.close())
    });
    entered.recv_timeout(LONG).unwrap();
    drop(shutdown);
    until("the end of the worker", || sampling.is_finished());
    assert_eq!(sampling.join().unwrap(), (true, vec!["rollout-1-envs-0".to_owned()]));
    drop(let_go);
}

#[test]
fn what_cannot_begin_says_why() {
    let new = |config, factory: Arc<dyn EnvFactory>| {
        let (links, _steps, _guard) = links();
        match RolloutWorker::gathering(config, factory, Box::new(OneWeight::new()), links) {
            Ok(_) => panic!("it began"),
            Err(error) => error.to_string(),
        }
    };
    let text = new(of_groups(7, 2, Gather::All), Arc::new(|_: &EnvContext| Counter::of_three()));
    assert!(text.contains("num_envs_per_worker = 7") && text.contains("num_env_groups = 2"), "{text}");
    let text = new(
        of_groups(4, 2, Gather::All),
        Arc::new(|context: &EnvContext| match context.index {
            3 => Err(crate::env::EnvError::new("no licence")),
            _ => Ok(Counter::of_three()),
        }),
    );
    assert!(text.contains("environment 3 of rollout-1") && text.contains("no licence"), "{text}");
    let text = new(of_groups(4, 2, Gather::All), Arc::new(|_: &EnvContext| CartPole::new()));
    assert!(text.contains("the network does not fit"), "{text}");
}

/// A vector that panics where nobody looks after its environments one by one.
struct Careless {
    inner: Box<dyn VectorEnv>,
    panics: bool,
}

impl VectorEnv for Careless {
    fn spec(&self) -> &EnvSpec {
        self.inner.spec()
    }

    fn n_envs(&self) -> usize {
        self.inner.n_envs()
    }

    fn reset_all(&mut self, obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        self.inner.reset_all(obs)
    }

    fn step(&mut self, actions: ActionRef<'_>, out: VectorStep<'_>) -> Result<(), EnvFailure> {
        assert!(!self.panics, "planted in the vector");
        self.inner.step(actions, out)
    }

    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>) {
        assert!(!self.panics, "planted once more");
        self.inner.drain_episodes(into);
    }
}

struct CarelessFactory;

impl EnvFactory for CarelessFactory {
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        let inner = (|_: &EnvContext| Counter::of_three()).make_vector(context, n_envs, monitor)?;
        Ok(Box::new(Careless { inner, panics: (context.first_env, context.incarnation) == (2, 0) }))
    }
}

#[test]
fn a_vector_that_panics_costs_its_group() {
    let (links, steps, _guard) = links();
    let network = Box::new(OneWeight::new());
    let config = of_groups(4, 2, Gather::All);
    let mut worker = RolloutWorker::gathering(config, Arc::new(CarelessFactory), network, links).unwrap();
    fragments(&mut worker, &weights(0, 0.0), 5);
    let failures = worker.take_collected().failures;
    let text = failures[0].to_string();
    assert!(failures.len() == 1 && text.contains("planted in the vector"), "{text}");
    drop(worker);
    assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight.env == 0);
}
