//! Environments that are tasks.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicUsize, Ordering};

use pronk_policy::{ActionSelection, Policy};

use super::*;
use crate::env::{AsyncEnv, EnvError, EnvSpec, EpisodeStat, Step};
use crate::envs::Masked;
use crate::pool::AsyncEnvs;
use crate::run::evaluate;
use crate::worker::NormalizerConfig;

/// Another environment, after the other tasks have had their turn.
pub(super) struct Awaited<E>(pub(super) E);

impl<E: Env> AsyncEnv for Awaited<E> {
    fn spec(&self) -> EnvSpec {
        self.0.spec()
    }

    async fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        tokio::task::yield_now().await;
        self.0.reset(seed, obs)
    }

    async fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        tokio::task::yield_now().await;
        self.0.step(action, obs)
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        self.0.action_mask(mask)
    }
}

/// What a [`Silent`] does in a step of its life.
#[derive(Clone, Copy, PartialEq)]
enum Silence {
    None,
    /// It waits for what never comes.
    Waits,
    /// It keeps the thread.
    Blocks,
}

/// A counter that says nothing more after so many steps; it is counted while it lives.
struct Silent {
    counter: Counter,
    silence: Silence,
    steps_left: u32,
    /// Blocks until the other end is gone.
    let_go: crossbeam_channel::Receiver<()>,
    living: Arc<AtomicUsize>,
}

impl AsyncEnv for Silent {
    fn spec(&self) -> EnvSpec {
        self.counter.spec()
    }

    async fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.counter.reset(seed, obs)
    }

    async fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        match (self.steps_left, self.silence) {
            (0, Silence::Waits) => pending().await,
            (0, Silence::Blocks) => drop(self.let_go.recv()),
            _ => {}
        }
        self.steps_left = self.steps_left.saturating_sub(1);
        self.counter.step(action, obs)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.living.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Environments of which number 2 falls silent in its third step, in its first life; how many live; and what
/// lets a thread go.
fn silent(silence: Silence) -> (Arc<dyn EnvFactory>, Arc<AtomicUsize>, crossbeam_channel::Sender<()>) {
    let (hold, let_go) = crossbeam_channel::bounded(0);
    let living = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&living);
    let factory = AsyncEnvs::new(move |context: EnvContext| {
        counted.fetch_add(1, Ordering::Relaxed);
        let is_silent = context.index == 2 && context.incarnation == 0;
        let silence = if is_silent { silence } else { Silence::None };
        let (let_go, living) = (let_go.clone(), Arc::clone(&counted));
        std::future::ready(Silent { counter: Counter::of_three(), silence, steps_left: 2, let_go, living })
    });
    (Arc::new(factory), living, hold)
}

/// Far longer than any step takes, on a busy machine too.
const TIMEOUT: Option<Duration> = Some(Duration::from_millis(300));

fn worker_of(factory: Arc<dyn EnvFactory>, n_envs: usize, gather: Gather, links: WorkerLinks) -> RolloutWorker {
    worker_within(TIMEOUT, factory, n_envs, gather, links)
}

fn worker_within(
    env_hang_timeout: Option<Duration>,
    factory: Arc<dyn EnvFactory>,
    n_envs: usize,
    gather: Gather,
    links: WorkerLinks,
) -> RolloutWorker {
    let config = GatheringWorkerConfig { env_hang_timeout, ..of_groups(n_envs, 1, gather) };
    RolloutWorker::gathering(config, factory, Box::new(OneWeight::new()), links).unwrap()
}

/// Samples until `n` environments have failed: the failures, and the threads abandoned.
fn failures_of(worker: &mut RolloutWorker, n: usize) -> (Vec<String>, Vec<String>) {
    let began = Instant::now();
    let (mut failures, mut abandoned) = (Vec::new(), Vec::new());
    while failures.len() < n {
        assert!(began.elapsed() < LONG, "{failures:?}");
        fragments(worker, &weights(0, 0.0), 1);
        let collected = worker.take_collected();
        failures.extend(collected.failures.iter().map(ToString::to_string));
        abandoned.extend(collected.abandoned);
    }
    (failures, abandoned)
}

#[test]
fn waiting_for_all_makes_what_one_thread_makes_bit_for_bit() {
    fn compare<E: Env + 'static>(make: impl Fn(&EnvContext) -> E + Copy + Send + Sync + 'static, use_lstm: bool) {
        let spec = make(&EnvContext::default()).spec();
        let mut network = NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap();
        network.lstm = use_lstm.then_some(8);
        let params = network.init_params(3).unwrap();
        let weights = Versioned::new(5, ByPolicy::from([(default_policy(), params)]));
        let cpu = || Box::new(CpuNetwork::new(&network).unwrap());
        let config = of_groups(6, 1, Gather::All);
        let (serial_links, ..) = links();
        let (shutdown, token) = pronk_buffer::shutdown();
        let serial_links = WorkerLinks { token, ..serial_links };
        let mut serial = RolloutWorker::new(config.worker, Arc::new(make), cpu(), serial_links).unwrap();
        let (links, steps, _guard) = links();
        let tasks = AsyncEnvs::new(move |context: EnvContext| async move { Awaited(make(&context)) });
        let mut worker = RolloutWorker::gathering(config, Arc::new(tasks), cpu(), links).unwrap();
        for fragment in 0..30 {
            let [expected, made] = [&mut serial, &mut worker].map(|worker| {
                let fragments = fragments(worker, &weights, 1);
                let mut episodes = worker.take_collected().episodes;
                episodes.sort_by_key(|episode| (episode.index, episode.seed));
                (content(&fragments[0]), episodes)
            });
            assert!(made.0 == expected.0, "{}: fragment {fragment} differs", spec.name);
            assert_eq!(made.1.len(), expected.1.len(), "{}: fragment {fragment}", spec.name);
        }
        drop((worker, shutdown));
        assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight.env == 0, "{:?}", steps.snapshot());
    }
    compare(|_| CartPole::new(), false);
    compare(|_| Counter::new(&[(3, End::Truncated), (5, End::Terminated)]), false);
    compare(|_| Counter::new(&[(9, End::Terminated)]).with_limit(4), false);
    compare(|_| Masked::new(5, 3), false);
    compare(|_| Recall::new(5), true);
}

#[test]
fn a_normalised_environment_is_normalised_as_on_a_thread() {
    let spec = Counter::of_three().spec();
    let network = NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap();
    let weights = ByPolicy::from([(default_policy(), network.init_params(3).unwrap())]);
    let mut weights = Versioned::new(5, weights);
    let cpu = || Box::new(CpuNetwork::new(&network).unwrap());
    let mut config = of_groups(1, 1, Gather::All);
    config.worker.normalize = NormalizerConfig { observations: true, return_gamma: Some(0.9) };
    let make = |_: &EnvContext| Counter::new(&[(9, End::Truncated), (3, End::Terminated)]);
    let tasks = AsyncEnvs::new(move |context: EnvContext| async move { Awaited(make(&context)) });
    let ((links_1, ..), (links_2, ..)) = (links(), links());
    let (_guard, token) = pronk_buffer::shutdown();
    let [links_1, links_2] = [links_1, links_2].map(|links| WorkerLinks { token: token.clone(), ..links });
    let mut on_thread = RolloutWorker::new(config.worker, Arc::new(make), cpu(), links_1).unwrap();
    let mut as_task = RolloutWorker::gathering(config, Arc::new(tasks), cpu(), links_2).unwrap();
    for fragment in 0..20 {
        let [expected, made] = [&mut on_thread, &mut as_task].map(|worker| {
            let mut fragments = fragments(worker, &weights, 1);
            worker.take_collected();
            (content(&fragments[0]), fragments[0].take_moments())
        });
        assert!(made == expected, "fragment {fragment} differs");
        Arc::make_mut(&mut weights.moments).merge(&made.1[0]);
    }
    let returns = weights.moments.returns.as_ref().unwrap();
    assert_eq!(returns.count(), 80, "{returns:?}");
}

#[test]
fn one_that_fails_costs_its_own_column_and_begins_anew() {
    for (fault, cause) in [
        (Fault::StepErr(7), "env_error"),
        (Fault::StepPanic(7), "env_panic"),
        (Fault::StepNanObs(7), "non_finite_observation"),
        (Fault::StepInfReward(7), "non_finite_reward"),
        (Fault::ResetErr(2), "env_error"),
    ] {
        for gather in [Gather::All, at_least(1), Gather::Within(Duration::from_micros(50))] {
            let (links, steps, _guard) = links();
            let factory = AsyncEnvs::new(move |context: EnvContext| async move {
                let fails = context.index == 3 && context.incarnation < 2;
                Awaited(Counter::of_three().with_fault(if fails { fault } else { Fault::Nothing }))
            });
            let mut worker = worker_within(Some(LONG), Arc::new(factory), 6, gather, links);
            let (texts, _) = failures_of(&mut worker, 2);
            assert!(texts[0].starts_with("environment 3 of rollout-1 (Counter, incarnation 0) failed"), "{texts:?}");
            assert!(texts[1].starts_with("environment 3 of rollout-1 (Counter, incarnation 1) failed"), "{texts:?}");
            fragments(&mut worker, &weights(0, 0.0), 20);
            assert!(worker.take_collected().failures.is_empty(), "{fault:?}: the third life is a healthy one");
            assert!(worker.close().is_empty());
            drop(worker);
            let totals = steps.snapshot();
            // A column of four is kept; of the next one two steps were made, or three and none before the
            // reset that fails.
            let lost = if fault == Fault::ResetErr(2) { 3 } else { 2 };
            assert_eq!(totals.lost[cause].env, 2 * lost, "{fault:?} {totals:?}");
            assert!(totals.is_closed() && totals.in_flight.env == 0, "{totals:?}");
        }
    }
}

#[test]
fn one_that_is_silent_is_cancelled_and_keeps_nobody_waiting() {
    let (links, steps, _guard) = links();
    let (factory, living, _hold) = silent(Silence::Waits);
    let mut worker = worker_of(factory, 5, at_least(1), links);
    fragments(&mut worker, &weights(0, 0.0), 20);
    let (failures, abandoned) = failures_of(&mut worker, 1);
    let failure = &failures[0];
    let words = [
        "environment 2 of rollout-1 (Counter, incarnation 0) failed at step 3 of the episode",
        "has not returned for 0.3 s (last observation [1.0, 2.0, ",
    ];
    for word in words {
        assert!(failure.contains(word), "{word}: {failure}");
    }
    assert!(abandoned.is_empty(), "its future was dropped");
    assert_eq!(steps.snapshot().lost["env_hang"].env, 2);
    fragments(&mut worker, &weights(0, 0.0), 5);
    assert_eq!(living.load(Ordering::Relaxed), 5, "the one that was dropped is there again");
    assert!(worker.close().is_empty());
    assert_eq!(living.load(Ordering::Relaxed), 0);
}

#[test]
fn one_that_blocks_the_thread_is_abandoned_with_it_and_the_others_are_rebuilt() {
    for gather in [Gather::All, at_least(1)] {
        let (links, steps, _guard) = links();
        let (factory, living, hold) = silent(Silence::Blocks);
        let mut worker = worker_of(factory, 5, gather, links);
        let (failures, abandoned) = failures_of(&mut worker, 5);
        let is_cause = |text: &&String| text.contains("has not returned for");
        let cause = failures.iter().find(is_cause).unwrap();
        assert!(cause.starts_with("environment 2 of rollout-1 (Counter, incarnation 0) failed at step 3"), "{cause}");
        let lost = "failed in an unknown call: it was lost with its thread, which environment 2 blocked";
        assert_eq!(failures.iter().filter(|text| text.contains(lost)).count(), 4, "{failures:?}");
        assert!(abandoned[0].starts_with("rollout-1-tasks: environment 2"));
        fragments(&mut worker, &weights(0, 0.0), 10);
        assert!(worker.take_collected().failures.is_empty());
        assert_eq!(living.load(Ordering::Relaxed), 10, "the abandoned thread keeps its environments");
        drop(hold);
        until("the end of the abandoned thread", || living.load(Ordering::Relaxed) == 5);
        assert!(worker.close().is_empty());
        drop(worker);
        assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight.env == 0);
    }
}

#[test]
fn a_worker_ends_at_once_and_cancels_what_it_waits_for() {
    let (links, steps, shutdown) = links();
    let (factory, living, _hold) = silent(Silence::Waits);
    let config = of_groups(3, 1, Gather::All);
    let mut worker = RolloutWorker::gathering(config, factory, Box::new(OneWeight::new()), links).unwrap();
    until("all of them", || living.load(Ordering::Relaxed) == 1);
    let sampling = std::thread::spawn(move || {
        let mut clock = clock();
        loop {
            match worker.sample(&weights(0, 0.0), &mut clock) {
                Ok(mut fragment) => fragment.take_ticket().unwrap().trained(),
                Err(SampleError::Closed) => return worker.close(),
                Err(error) => panic!("{error}"),
            }
        }
    });
    until("all of them", || living.load(Ordering::Relaxed) == 3);
    drop(shutdown);
    until("the end of the worker", || sampling.is_finished());
    assert_eq!(sampling.join().unwrap(), Vec::<String>::new());
    assert_eq!(living.load(Ordering::Relaxed), 0);
    assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight.env == 0);
}

#[test]
fn what_cannot_be_made_says_why_and_others_do_not_wait_for_it() {
    let refused = |config, factory: Arc<dyn EnvFactory>| {
        let (links, _steps, _guard) = links();
        match RolloutWorker::gathering(config, factory, Box::new(OneWeight::new()), links) {
            Ok(_) => panic!("it began"),
            Err(error) => error.to_string(),
        }
    };
    let counters = || AsyncEnvs::new(|_: EnvContext| async { Awaited(Counter::of_three()) });
    let text = refused(of_groups(4, 2, Gather::All), Arc::new(counters()));
    assert!(text.contains("num_env_groups = 2") && text.contains("leave it at 1"), "{text}");
    let nobody = AsyncEnvs::new(|_: EnvContext| async { Err::<Awaited<Counter>, _>(EnvError::new("no licence")) });
    let text = refused(of_groups(4, 1, Gather::All), Arc::new(nobody.clone()));
    assert!(text.contains("environment 0 of rollout-1") && text.contains("no licence"), "{text}");
    let text = nobody.check(0).unwrap_err().to_string();
    assert!(text.contains("no licence"), "{text}");

    // The first one is as it should be, the second cannot be made at first, the third is another one, the
    // fourth panics.
    let (links, steps, _guard) = links();
    let mixed = AsyncEnvs::new(|context: EnvContext| async move {
        match (context.index, context.incarnation) {
            (1, 0) => Err(EnvError::new("the server is full")),
            (2, 0) => Ok(Awaited(Counter::of_three().with_limit(7))),
            (3, 0) => panic!("planted"),
            _ => Ok(Awaited(Counter::of_three())),
        }
    });
    let mut worker = worker_within(Some(LONG), Arc::new(mixed), 4, Gather::All, links);
    let (mut failures, _) = failures_of(&mut worker, 3);
    failures.sort();
    for (failure, words) in failures.iter().zip(["the server is full", "must have one spec", "it panicked: planted"]) {
        assert!(failure.contains("failed while it was made") && failure.contains(words), "{words}: {failure}");
    }
    assert_eq!(failures.len(), 3, "{failures:?}");
    fragments(&mut worker, &weights(0, 0.0), 5);
    drop(worker);
    assert!(steps.snapshot().lost.is_empty());
}

#[test]
fn as_a_vector_they_wait_for_each_other_and_play_as_on_one_thread() {
    let make = |_: &EnvContext| CartPole::new();
    let tasks = AsyncEnvs::new(move |context: EnvContext| async move { Awaited(make(&context)) });
    tasks.check(3).unwrap();
    let spec = CartPole::new().spec();
    let network = NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap();
    let policy = || Policy::new(network.clone(), network.init_params(1).unwrap(), &spec.action).unwrap();
    let [expected, played] = [&make as &dyn EnvFactory, &tasks]
        .map(|factory| evaluate(&mut policy(), &mut ActionSelection::Mode, factory, 40, 7).unwrap());
    let sorted = |mut episodes: Vec<EpisodeStat>| {
        episodes.sort_by_key(|episode| (episode.index, episode.seed));
        episodes
    };
    assert_eq!(sorted(played.episodes), sorted(expected.episodes));

    let fails = AsyncEnvs::new(|context: EnvContext| async move {
        let fault = if context.index == 1 { Fault::StepErr(1) } else { Fault::Nothing };
        Awaited(Counter::of_three().with_fault(fault))
    });
    let mut envs = fails.make_vector(&VectorContext::default(), 2, &CallMonitor::new()).unwrap();
    let (mut obs, mut rewards, mut ends) = ([0.0; 6], [0.0; 2], [End::No; 2]);
    let mut final_obs = pronk_buffer::FinalObs::new(pronk_buffer::ObsKind::F32, 3);
    envs.reset_all(ObsMut::F32(&mut obs)).unwrap();
    let mut step = |envs: &mut dyn VectorEnv| {
        let (rewards, ends, final_obs) = (&mut rewards, &mut ends, &mut final_obs);
        let out = VectorStep { t: 0, obs: ObsMut::F32(&mut obs), rewards, ends, final_obs };
        envs.step(ActionRef::Discrete(&[0, 0]), out).unwrap_err().to_string()
    };
    assert!(step(envs.as_mut()).contains("environment 1 of rollout-0 (Counter, incarnation 0) failed at step 1"));
    assert!(step(envs.as_mut()).contains("it failed before"));
    let context = VectorContext::default();
    assert!(
        fails
            .make_vector(&context, 0, &CallMonitor::new())
            .err()
            .unwrap()
            .to_string()
            .contains("at least one environment")
    );
}

/// An environment whose steps are no `async fn`: something happens before there is anything to wait for.
struct Eager {
    counter: Counter,
    panics: bool,
}

impl AsyncEnv for Eager {
    fn spec(&self) -> EnvSpec {
        self.counter.spec()
    }

    async fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.counter.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> impl Future<Output = Result<Step, EnvError>> + Send {
        assert!(!self.panics, "planted before the future");
        std::future::ready(self.counter.step(action, obs))
    }
}

#[test]
fn a_panic_before_there_is_a_future_is_the_environments_own() {
    let (links, steps, _guard) = links();
    let factory = AsyncEnvs::new(|context: EnvContext| async move {
        Eager { counter: Counter::of_three(), panics: (context.index, context.incarnation) == (1, 0) }
    });
    let mut worker = worker_within(Some(LONG), Arc::new(factory), 3, Gather::All, links);
    let failure = failures_of(&mut worker, 1).0.remove(0);
    assert!(failure.contains("environment 1 ") && failure.contains("planted before the future"), "{failure}");
    fragments(&mut worker, &weights(0, 0.0), 5);
    drop(worker);
    assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight.env == 0);
}

/// Wakes itself at once, again and again: nobody else may starve.
struct Busy(Counter);

impl AsyncEnv for Busy {
    fn spec(&self) -> EnvSpec {
        self.0.spec()
    }

    async fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs)
    }

    async fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        // A timer rings only if the runtime has its turn.
        let mut timer = std::pin::pin!(tokio::time::sleep(Duration::from_millis(1)));
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            timer.as_mut().poll(context)
        })
        .await;
        self.0.step(action, obs)
    }
}

#[test]
fn one_that_wakes_itself_all_the_time_lets_timers_ring() {
    let (links, _steps, _guard) = links();
    let factory = AsyncEnvs::new(|_: EnvContext| async { Busy(Counter::of_three()) });
    let mut worker = worker_within(None, Arc::new(factory), 2, Gather::All, links);
    let sampling = std::thread::spawn(move || drop(fragments(&mut worker, &weights(0, 0.0), 3)));
    until("a timer that rings", || sampling.is_finished());
}

#[test]
fn a_server_that_is_gone_is_told_of_and_what_was_made_is_kept() {
    let (links, steps, _guard) = links();
    let gone = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_gone = Arc::clone(&gone);
    let factory = AsyncEnvs::new(move |_: EnvContext| {
        let gone = is_gone.load(Ordering::Relaxed);
        async move {
            if gone {
                Err(EnvError::new("nobody listens"))
            } else {
                Ok(Awaited(Counter::of_three().with_fault(Fault::StepErr(7))))
            }
        }
    });
    let mut worker = worker_within(Some(LONG), Arc::new(factory), 2, Gather::All, links);
    fragments(&mut worker, &weights(0, 0.0), 1);
    gone.store(true, Ordering::Relaxed);
    let mut clock = clock();
    let mut failures = 0;
    for _ in 0..3 {
        assert!(matches!(worker.sample(&weights(0, 0.0), &mut clock), Err(SampleError::AllFailed)));
        failures += worker.take_collected().failures.len();
    }
    assert_eq!(failures, 2 * 3);
    gone.store(false, Ordering::Relaxed);
    fragments(&mut worker, &weights(0, 0.0), 1);
    drop(worker);
    assert!(steps.snapshot().is_closed() && steps.snapshot().in_flight.env == 0);
}
