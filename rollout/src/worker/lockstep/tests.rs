#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use pronk_buffer::{ActionView, End, ObsRows, Tag};
use pronk_metrics::StateClock;
use pronk_policy::{CpuNetwork, Network, NetworkSpec, Space};

use super::*;
use crate::act::{PolicyFault, convert};
use crate::env::{
    ActionRef, CallMonitor, Env, EnvContext, EnvError, EnvFailure, EpisodeStat, ObsMut, Step, VectorContext,
};
use crate::envs::{CartPole, Masked};
use crate::testing::{
    Constant, Counter, Fault, Hooked, MaskFault, Masks, Moment, N_ACTIONS, OneWeight, Watched, config, links, n,
    of_default, weights,
};
use crate::worker::{NormalizerConfig, RolloutWorker, WorkerLinks};

mod position;

fn clock() -> StateClock<WorkerState> {
    StateClock::new("rollout-1", WorkerState::Starting)
}

fn worker(factory: impl EnvFactory + 'static, config: WorkerConfig, links: WorkerLinks) -> RolloutWorker {
    RolloutWorker::new(config, Arc::new(factory), Box::new(OneWeight::new()), links).unwrap()
}

fn f32s(obs: ObsRows<'_>) -> Vec<f32> {
    obs.as_f32().unwrap().to_vec()
}

/// Everything of a fragment that the seed and the weights decide.
#[derive(Debug, PartialEq)]
struct Traced {
    obs: Vec<f32>,
    actions: Vec<u32>,
    logp: Vec<f32>,
    values: Vec<f32>,
    ends: Vec<End>,
}

/// The first `n` fragments, each with the next version.
fn trace(worker: &mut RolloutWorker, n: u64) -> Vec<Traced> {
    let mut clock = clock();
    let fragments = (0..n).map(|version| worker.sample(&weights(version, 0.5), &mut clock).unwrap());
    fragments
        .map(|fragment| {
            let batch = fragment.get("default_policy").unwrap();
            let ActionView::U32(actions) = batch.actions() else { panic!("discrete actions") };
            Traced {
                obs: f32s(batch.obs()),
                actions: actions.to_vec(),
                logp: batch.behaviour_logp().to_vec(),
                values: batch.behaviour_values().to_vec(),
                ends: batch.ends().to_vec(),
            }
        })
        .collect()
}

#[test]
fn there_is_a_moment_for_other_work_before_every_step() {
    let (links, _steps, _guard) = links();
    let mut worker = worker(|_: &EnvContext| Counter::of_three(), config(1, 0), links);
    let mut made = Vec::new();
    for _ in 0..2 {
        let mut moments = 0;
        made.push(worker.sample_and(&weights(0, 0.5), &mut clock(), &mut |_| moments += 1).unwrap());
        assert_eq!(moments, 4);
    }
}

#[test]
fn a_fragment_holds_what_was_seen_done_and_thought() {
    let (links, steps, _guard) = links();
    let mut worker = worker(|_: &EnvContext| Counter::new(&[(3, End::Truncated)]), config(2, 0), links);
    let fragment = worker.sample(&weights(17, 0.25), &mut clock()).unwrap();
    let batch = fragment.get("default_policy").unwrap();
    assert_eq!((batch.shape().steps, batch.shape().columns), (4, 2));
    assert_eq!(batch.tags(), [Tag { worker: 2, version: 17, ..Tag::default() }]);
    assert_eq!(batch.versions(), [17; 8]);

    // Row 3 is already the second episode's first observation, what it cut off is in final_obs.
    let places: Vec<_> = (0..5).map(|t| (f32s(batch.obs_row(t))[0], f32s(batch.obs_row(t))[1])).collect();
    assert_eq!(places, [(1.0, 0.0), (1.0, 1.0), (1.0, 2.0), (2.0, 0.0), (2.0, 1.0)]);
    assert_eq!(batch.rewards(), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 1.0, 1.0]);
    assert_eq!(batch.ends()[4..6], [End::Truncated; 2]);
    assert_eq!(batch.final_obs().index(), [(2, 0), (2, 1)]);

    // The network's value is the weight plus the sum of the row; row T has one too.
    for t in 0..5 {
        for (b, row) in f32s(batch.obs_row(t)).chunks(3).enumerate() {
            assert_eq!(batch.behaviour_values()[2 * t + b], 0.25 + row.iter().sum::<f32>());
        }
    }
    assert_eq!(batch.behaviour_inputs(), [0.0; 16]);
    assert!(batch.behaviour_logp().iter().all(|logp| (logp - 0.5_f32.ln()).abs() < 1e-6));
    batch.check_finite().unwrap();
    batch.check_ends().unwrap();

    assert_eq!((fragment.env_steps(), fragment.agent_steps()), (8, 8));
    assert_eq!(steps.snapshot().in_flight, fragment.steps());
    let episodes = worker.take_collected().episodes;
    assert_eq!(episodes.iter().map(|episode| episode.episode_return).collect::<Vec<_>>(), [6.0, 6.0]);
    assert!(worker.take_collected().episodes.is_empty());
}

#[test]
fn a_fragment_begins_with_what_the_one_before_ended_with() {
    let (links, _steps, _guard) = links();
    let mut worker = worker(|_: &EnvContext| Counter::new(&[(5, End::Terminated)]), config(1, 0), links);
    let mut clock = clock();
    let mut before = None;
    for slot in 0..6 {
        let fragment = worker.sample(&weights(10 + slot, 0.0), &mut clock).unwrap();
        let batch = fragment.get("default_policy").unwrap();
        assert_eq!((batch.tags()[0].slot, batch.tags()[0].version), (slot, 10 + slot));
        if let Some(before) = before {
            assert_eq!(f32s(batch.obs_row(0)), before);
        }
        before = Some(f32s(batch.obs_row(4)));
    }
}

#[test]
fn every_row_of_a_fragment_is_on_that_fragments_scale() {
    let spec = Constant.spec();
    let network = NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap();
    let mut weights = Versioned::new(0, of_default(network.init_params(1).unwrap()));
    let normalize = NormalizerConfig { observations: true, return_gamma: None };
    let (links, _steps, _guard) = links();
    let network = Box::new(CpuNetwork::new(&network).unwrap());
    let config = WorkerConfig { normalize, ..config(1, 0) };
    let mut worker = RolloutWorker::new(config, Arc::new(|_: &EnvContext| Constant), network, links).unwrap();
    let mut clock = clock();
    // Clipped until the weights come with something known of them; at the mean from then on.
    for (expected, learns) in [(10.0, false), (10.0, true), (0.0, true), (0.0, true)] {
        let mut fragment = worker.sample(&weights, &mut clock).unwrap();
        let batch = fragment.get("default_policy").unwrap();
        assert_eq!(f32s(batch.obs()), [expected; 5 * 2]);
        let moments = fragment.take_moments();
        assert_eq!(moments.len(), 1);
        if learns {
            Arc::make_mut(&mut weights.moments).merge(&moments[0]);
        }
    }
    // The first fragment's were left out: 4 steps of 2 environments in each of the others.
    assert_eq!(weights.moments.observations.as_ref().unwrap().count(), 3 * 8);
}

#[test]
fn a_seed_decides_every_bit_and_another_worker_or_seed_makes_something_else() {
    let traced = |number, seed| {
        let (links, _steps, _guard) = links();
        trace(&mut worker(|_: &EnvContext| Counter::of_three(), config(number, seed), links), 5)
    };
    let first = traced(1, 0);
    assert_eq!(first, traced(1, 0), "0 is a seed");
    for other in [traced(2, 0), traced(1, 1)] {
        assert_ne!(first[0].obs, other[0].obs, "other episodes");
        let actions = |traced: &[Traced]| traced.iter().flat_map(|made| made.actions.clone()).collect::<Vec<_>>();
        assert_ne!(actions(&first), actions(&other), "other actions");
    }
}

#[test]
fn environments_of_one_worker_play_different_episodes() {
    let (links, _steps, _guard) = links();
    let traced = trace(&mut worker(|_: &EnvContext| Counter::of_three(), config(1, 0), links), 1);
    let noise = &traced[0].obs;
    assert_ne!(noise[2], noise[5]);
}

#[test]
fn a_steady_worker_reuses_its_storage() {
    let (links, _steps, _guard) = links();
    let pool = links.pool.clone();
    let mut worker = worker(|_: &EnvContext| Counter::of_three(), config(1, 0), links);
    let mut clock = clock();
    let mut address = || {
        let fragment = worker.sample(&weights(0, 0.0), &mut clock).unwrap();
        fragment.get("default_policy").unwrap().rewards().as_ptr()
    };
    let first = address();
    assert_eq!(pool.idle(), 1);
    assert!((0..10).all(|_| address() == first));
}

#[test]
fn every_kind_of_failure_loses_the_steps_made_and_the_next_fragment_begins_anew() {
    for (fault, key, made) in [
        // The second of two environments fails in its sixth step, the second of the second fragment, after
        // its neighbour has made its step: 2 + 1.
        (Fault::StepErr(6), "env_error", 3),
        (Fault::StepPanic(6), "env_panic", 3),
        (Fault::StepNanObs(6), "non_finite_observation", 3),
        (Fault::StepInfReward(6), "non_finite_reward", 3),
        // The third episode begins after the sixth step, which was made.
        (Fault::ResetErr(3), "env_error", 4),
        (Fault::ResetPanic(3), "env_panic", 4),
        (Fault::ResetNanObs(3), "non_finite_observation", 4),
    ] {
        let (links, steps, _guard) = links();
        let planted = move |context: &EnvContext| {
            let at_fault = context.index == 1 && context.incarnation == 0;
            Counter::of_three().with_fault(if at_fault { fault } else { Fault::Nothing })
        };
        let (mut worker, mut clock) = (worker(planted, config(1, 0), links), clock());
        let mut first = worker.sample(&weights(0, 0.0), &mut clock).unwrap();
        first.take_ticket().unwrap().trained();

        let error = worker.sample(&weights(0, 0.0), &mut clock).expect_err("the fault shows");
        let SampleError::Environment(failure) = &error else { panic!("{fault:?}: {error}") };
        assert_eq!((failure.index, failure.cause.key()), (1, key), "{error}");
        let totals = steps.snapshot();
        assert_eq!((totals.lost[key].env, totals.lost[key].agent), (made, made), "{fault:?}");
        assert_eq!((totals.sampled.env, totals.in_flight.env), (8 + made, 0));
        assert!(totals.is_closed());
        assert_eq!(
            worker.take_collected().episodes.len() as u64,
            2 + (made - 2),
            "finished episodes are not forgotten"
        );

        let next = worker.sample(&weights(0, 0.0), &mut clock).unwrap();
        let batch = next.get("default_policy").unwrap();
        assert_eq!(batch.tags(), [Tag { worker: 1, incarnation: 1, slot: 1, ..Tag::default() }]);
        assert_eq!(f32s(batch.obs_row(0))[..2], [1.0, 0.0], "new environments begin with a reset");
        assert_ne!(f32s(batch.obs_row(0)), f32s(first.get("default_policy").unwrap().obs_row(0)), "and another seed");
    }
}

#[test]
fn what_an_incarnation_makes_does_not_depend_on_how_far_the_one_before_came_in_the_fragment() {
    let second_life = |failing_step| {
        let (links, _steps, _guard) = links();
        let failing_once = move |context: &EnvContext| match context.incarnation {
            0 => Counter::of_three().with_fault(Fault::StepErr(failing_step)),
            _ => Counter::of_three(),
        };
        let mut worker = worker(failing_once, config(1, 0), links);
        let mut clock = clock();
        while worker.sample(&weights(0, 0.5), &mut clock).is_ok() {}
        trace(&mut worker, 3)
    };
    // Both fail in their second fragment: of two columns, each with four steps.
    assert_eq!(second_life(5), second_life(7));
}

#[test]
fn the_actions_of_a_fragment_come_from_its_own_stream_which_no_restart_loses() {
    let actions = |slots_before: u64, fragments: u64| {
        let (links, _steps, _guard) = links();
        links.slots.store(slots_before, Ordering::Relaxed);
        // All actions are equally likely, whatever is observed.
        let traced = trace(&mut worker(|_: &EnvContext| Counter::of_three(), config(1, 0), links), fragments);
        traced.into_iter().map(|traced| traced.actions).collect::<Vec<_>>()
    };
    let all = actions(0, 3);
    assert!(all[0] != all[1] && all[1] != all[2], "{all:?}");
    assert_eq!(actions(1, 2), all[1..]);
}

#[test]
fn a_failure_while_rebuilding_is_a_failure_like_any_other() {
    let (links, steps, _guard) = links();
    let factory = |context: &EnvContext| match context.incarnation {
        0 => Ok(Counter::of_three().with_fault(Fault::StepErr(1))),
        1 => Err(EnvError::new("the port is still taken")),
        2 => panic!("planted make panic"),
        3 => Ok(Counter::of_three().with_limit(9)),
        _ => Ok(Counter::of_three()),
    };
    let (mut worker, mut clock) = (worker(factory, config(1, 0), links), clock());
    let mut fail = || worker.sample(&weights(0, 0.0), &mut clock).expect_err("planted").to_string();
    assert!(fail().contains("planted step error"));
    assert!(
        fail().contains("environment 0 of rollout-1 (incarnation 1) failed while it was made: the port is still taken")
    );
    assert!(fail().contains("planted make panic"));
    assert_eq!(steps.snapshot().sampled.env, 0, "no step was made");
    assert_eq!(
        worker.sample(&weights(0, 0.0), &mut clock).unwrap().env_steps(),
        8,
        "another time limit is no other space"
    );
    assert_eq!(worker.incarnation(), 3);
}

#[test]
fn a_fragment_unfinished_at_shutdown_is_booked_as_dropped() {
    let (links, steps, shutdown) = links();
    let shutdown = Arc::new(Mutex::new(Some(shutdown)));
    let ends_the_run_in_its_third_step = move |_: &EnvContext| {
        let (shutdown, mut step) = (Arc::clone(&shutdown), 0);
        Hooked::before(move |moment| {
            step += u32::from(moment == Moment::Step);
            if step == 3 {
                *shutdown.lock().unwrap() = None;
            }
        })
    };
    let one_env = WorkerConfig { num_envs_per_worker: n(1), ..config(1, 0) };
    let mut worker = worker(ends_the_run_in_its_third_step, one_env, links);
    let error = worker.sample(&weights(0, 0.0), &mut clock()).expect_err("the run ends");
    assert!(matches!(error, SampleError::Closed));
    let totals = steps.snapshot();
    assert_eq!((totals.dropped["shutdown"].env, totals.sampled.env, totals.in_flight.env), (3, 3, 0));
}

/// A worker in [`Watched`] environments, with a network whose logits differ.
fn masked_worker(factory: impl EnvFactory + 'static, config: WorkerConfig, links: WorkerLinks) -> MaskedWorker {
    let spec = Watched::new(&Masks::default()).spec();
    let network = NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap();
    let mut weights = network.init_params(1).unwrap();
    // Far from uniform, so that a mask changes much.
    weights.values_mut().iter_mut().for_each(|weight| *weight *= 3.0);
    let network = Box::new(CpuNetwork::new(&network).unwrap());
    let worker = RolloutWorker::new(config, Arc::new(factory), network, links).unwrap();
    MaskedWorker { worker, weights: Versioned::new(0, of_default(weights)), clock: clock() }
}

struct MaskedWorker {
    worker: RolloutWorker,
    weights: Versioned<ByPolicy<Params>>,
    clock: StateClock<WorkerState>,
}

impl MaskedWorker {
    fn sample(&mut self) -> Result<MultiAgentBatch, SampleError> {
        self.worker.sample(&self.weights, &mut self.clock)
    }
}

#[test]
fn thousands_of_steps_take_no_impossible_action() {
    let (links, steps, _guard) = links();
    let big = WorkerConfig { num_envs_per_worker: n(8), rollout_fragment_length: n(50), ..config(1, 0) };
    let mut worker = masked_worker(|_: &EnvContext| Masked::new(N_ACTIONS, 7), big, links);
    for _ in 0..12 {
        // An impossible action is an error of the environment.
        let fragment = worker.sample().unwrap();
        fragment.get("default_policy").unwrap().check_finite().unwrap();
    }
    assert_eq!(steps.snapshot().sampled.env, 12 * 8 * 50);
}

#[test]
fn behaviour_inputs_are_minus_infinity_where_masked_and_logp_is_of_the_masked_distribution() {
    let (given, (links, _steps, _guard)) = (Masks::default(), links());
    let seen = Masks::clone(&given);
    let mut worker = masked_worker(move |_: &EnvContext| Watched::new(&given), config(1, 0), links);
    let (mut n_ruled_out, mut n_rows) = (0, 0);
    for _ in 0..20 {
        let fragment = worker.sample().unwrap();
        let batch = fragment.get("default_policy").unwrap();
        let ActionView::U32(actions) = batch.actions() else { panic!("discrete actions") };
        // One mask for each step of each environment, in the order of the batch.
        let masks = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(masks.len(), actions.len());
        for (row, mask) in masks.iter().enumerate() {
            let logits = &batch.behaviour_inputs()[row * N_ACTIONS..][..N_ACTIONS];
            let ruled_out: Vec<bool> = logits.iter().map(|logit| *logit != f32::NEG_INFINITY).collect();
            assert_eq!(&ruled_out, mask);
            n_ruled_out += mask.iter().filter(|possible| !**possible).count();

            let weight = |action: usize| if mask[action] { f64::from(logits[action]).exp() } else { 0.0 };
            let logp = (weight(actions[row] as usize) / (0..N_ACTIONS).map(weight).sum::<f64>()).ln();
            assert!((f64::from(batch.behaviour_logp()[row]) - logp).abs() < 1e-5, "row {row}");
            n_rows += 1;
        }
    }
    assert!(n_ruled_out > n_rows, "of five actions, two are impossible on average");
}

#[test]
fn a_state_without_a_way_costs_the_fragment_and_not_the_worker() {
    let (links, steps, _guard) = links();
    let failing_once = |context: &EnvContext| match (context.index, context.incarnation) {
        (1, 0) => Watched::with_fault(MaskFault::AllFalse),
        _ => Watched::with_fault(MaskFault::Nothing),
    };
    let mut worker = masked_worker(failing_once, config(3, 0), links);
    worker.sample().unwrap().take_ticket().unwrap().trained();
    let error = worker.sample().expect_err("after its fourth step").to_string();
    assert!(error.starts_with("environment 1 of rollout-3 (Masked, incarnation 0) failed in action_mask"), "{error}");
    let again = worker.sample().unwrap();
    assert_eq!(again.env_steps(), 8);
    assert_eq!((steps.snapshot().sampled.env, steps.snapshot().in_flight.env), (16, 8), "no step was made in between");
}

#[test]
fn a_vector_environment_of_another_kind_cannot_make_a_policy_do_the_impossible() {
    struct Walled(Box<dyn VectorEnv>);
    impl VectorEnv for Walled {
        fn spec(&self) -> &EnvSpec {
            self.0.spec()
        }
        fn n_envs(&self) -> usize {
            self.0.n_envs()
        }
        fn reset_all(&mut self, obs: ObsMut<'_>) -> Result<(), EnvFailure> {
            self.0.reset_all(obs)
        }
        fn step(&mut self, _: ActionRef<'_>, _: VectorStep<'_>) -> Result<(), EnvFailure> {
            panic!("no action was possible")
        }
        fn action_masks(&mut self, masks: &mut [bool]) -> Result<(), EnvFailure> {
            masks[..N_ACTIONS].fill(true);
            masks[N_ACTIONS..].fill(false);
            Ok(())
        }
        fn drain_episodes(&mut self, _: &mut Vec<EpisodeStat>) {}
    }
    struct Walls;
    impl EnvFactory for Walls {
        fn make_vector(
            &self,
            context: &VectorContext,
            n_envs: usize,
            monitor: &CallMonitor,
        ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
            let make = |_: &EnvContext| Masked::new(N_ACTIONS, 3);
            Ok(Box::new(Walled(make.make_vector(context, n_envs, monitor)?)))
        }
    }
    let (links, _steps, _guard) = links();
    let error = masked_worker(Walls, config(1, 0), links).sample().expect_err("nothing to do");
    let SampleError::Policy(PolicyFault::Distribution { source }) = error else { panic!("{error}") };
    assert!(source.to_string().starts_with("the mask of row 1 forbids every action"), "{source}");
}

#[test]
fn weights_that_are_not_finite_never_act() {
    let (links, steps, _guard) = links();
    let mut worker = worker(|_: &EnvContext| Counter::of_three(), config(1, 0), links);
    let error = worker.sample(&weights(4, f32::NAN), &mut clock()).expect_err("NaN weights");
    assert_eq!(error.to_string(), "version 4 of the weights gives NaN values for environment 0");
    assert_eq!(steps.snapshot().sampled.env, 0);
}

#[test]
fn without_weights_of_the_default_policy_a_worker_says_so() {
    let (links, _steps, _guard) = links();
    let mut worker = worker(|_: &EnvContext| Counter::of_three(), config(1, 0), links);
    let of_another = ByPolicy::from([("another".into(), crate::testing::params(0.0))]);
    let error = worker.sample(&Versioned::new(3, of_another), &mut clock()).expect_err("no weights");
    assert_eq!(error.to_string(), "version 3 of the weights holds none of policy `default_policy`");
}

#[test]
fn a_network_for_other_spaces_is_refused() {
    let (links, _steps, _guard) = links();
    let wide = |_: &EnvContext| Hooked::with_spec(|spec| spec.action = Space::Discrete { n: 5 });
    let factory = Arc::new(wide);
    let made = RolloutWorker::new(config(1, 0), factory, Box::new(OneWeight::new()), links);
    let Err(error) = made else { panic!("refused") };
    let text = error.to_string();
    assert!(text.contains("returns 2 logits") && text.contains("Discrete(5) need 5"), "{text}");
}

#[test]
fn the_clock_shows_stepping_and_inferring_and_closes() {
    let (links, _steps, _guard) = links();
    let mut worker = worker(|_: &EnvContext| Counter::of_three(), config(1, 0), links);
    let mut clock = clock();
    let _ = worker.sample(&weights(0, 0.0), &mut clock).unwrap();
    let time = clock.reader().read();
    let secs = |name| time.states.iter().find(|(state, _)| *state == name).unwrap().1;
    assert!(secs("stepping") > 0.0 && secs("inferring") > 0.0);
    assert!(time.is_closed());
}

#[test]
fn memory_goes_from_fragment_to_fragment_and_is_emptied_where_episodes_end() {
    let spec = CartPole::new().spec();
    let network = NetworkSpec { lstm: Some(6), ..NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap() };
    let params = network.init_params(1).unwrap();
    let weights = Versioned::new(0, of_default(params.clone()));
    let (links, _steps, _guard) = links();
    let config = WorkerConfig { rollout_fragment_length: n(25), ..config(1, 3) };
    let acting = Box::new(CpuNetwork::new(&network).unwrap());
    let make = Arc::new(|_: &EnvContext| CartPole::new());
    let mut worker = RolloutWorker::new(config, make, acting, links).unwrap();

    let mut alone = CpuNetwork::new(&network).unwrap();
    let (mut state, mut ended) = (vec![0.0; 2 * network.state_len()], 0);
    let mut out = pronk_policy::Outputs::default();
    for _ in 0..4 {
        let fragment = worker.sample(&weights, &mut clock()).unwrap();
        let batch = fragment.get("default_policy").unwrap();
        assert_eq!(batch.state_in(), state, "the next fragment begins with what the last one remembered");
        for t in 0..=25 {
            let memory = pronk_policy::Memory { state: &state, starts: &[false; 2] };
            let obs = convert::observations(batch.obs_row(t).apart().unwrap());
            alone.forward(&params, &pronk_policy::Input::new(obs, 2).with_memory(memory), &mut out).unwrap();
            assert_eq!(batch.behaviour_values()[2 * t..2 * t + 2], out.values, "step {t}");
            // What follows the last step is looked at, and remembered with the first step of the next
            // fragment.
            if t == 25 {
                break;
            }
            assert_eq!(batch.behaviour_inputs()[4 * t..4 * t + 4], out.logits, "step {t}");
            state.copy_from_slice(&out.state);
            for (state, end) in state.chunks_mut(network.state_len()).zip(&batch.ends()[2 * t..2 * t + 2]) {
                if *end != End::No {
                    state.fill(0.0);
                    ended += 1;
                }
            }
        }
    }
    assert!(ended > 3, "{ended} episodes ended");
}

/// Stacks of three frames of two pixels, the number of the step; an episode has three steps.
struct Film {
    frames: [u8; 3],
}

impl Film {
    fn show(&self, obs: ObsMut<'_>) -> Result<(), EnvError> {
        let pixels = self.frames.iter().flat_map(|&frame| [frame; 2]);
        obs.u8()?.iter_mut().zip(pixels).for_each(|(to, pixel)| *to = pixel);
        Ok(())
    }
}

impl Env for Film {
    fn spec(&self) -> EnvSpec {
        EnvSpec { observation: Space::bytes(vec![3, 1, 2]).unwrap(), ..CartPole::new().spec() }
    }

    fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.frames = [1; 3];
        self.show(obs)
    }

    fn step(&mut self, _action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let [_, before, last] = self.frames;
        self.frames = [before, last, last + 1];
        self.show(obs)?;
        Ok(Step { reward: 1.0, end: if last == 3 { End::Terminated } else { End::No } })
    }
}

#[test]
fn frames_of_stacked_images_are_stored_once() {
    let spec = NetworkSpec::for_spaces(&Film { frames: [0; 3] }.spec().observation, &Space::discrete(2).unwrap());
    let spec = NetworkSpec {
        encoder: pronk_policy::Encoder::Mlp { hidden: vec![4], activation: pronk_policy::Activation::Tanh },
        ..spec.unwrap()
    };
    let (links, _steps, _guard) = links();
    let factory = Arc::new(|_: &EnvContext| Film { frames: [0; 3] });
    let network = Box::new(CpuNetwork::new(&spec).unwrap());
    let mut worker = RolloutWorker::new(config(1, 0), factory, network, links).unwrap();
    let weights = Versioned::new(0, of_default(spec.init_params(0).unwrap()));
    let first = [[1, 1, 1], [1, 1, 2], [1, 2, 3], [1, 1, 1], [1, 1, 2]];
    let second = [[1, 1, 2], [1, 2, 3], [1, 1, 1], [1, 1, 2], [1, 2, 3]];
    // Of each column two whole stacks, the first and that of a new episode, and three frames more.
    for seen in [first, second] {
        let fragment = worker.sample(&weights, &mut clock()).unwrap();
        let batch = fragment.get("default_policy").unwrap();
        for (i, frames) in (0..10).map(|i| (i, seen[i / 2])) {
            let pixels: Vec<u8> = frames.into_iter().flat_map(|frame| [frame; 2]).collect();
            assert_eq!(batch.obs().row(i).as_u8(), Some(&pixels[..]), "row {i}");
        }
        assert_eq!(batch.obs().shared().unwrap().0.len(), 2 * (2 * 3 + 3) * 2);
    }
}
