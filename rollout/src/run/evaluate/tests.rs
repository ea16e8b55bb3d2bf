#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agents;

use std::ops::ControlFlow;
use std::sync::Mutex;

use pronk_buffer::End;
use pronk_policy::{NetworkSpec, Rng};

use super::*;
use crate::env::{ActionRef, Env, EnvContext, EnvError, EnvFailure, EnvSpec, EpisodeStat, Frame, ObsMut, Step};
use crate::envs::Masked;
use crate::testing::{Counter, Fault, MaskFault, Watched};
use crate::vector::{VectorEnv, VectorStep};

/// Environment `i` plays episodes of `i + 1` steps.
fn longer_and_longer(context: &EnvContext) -> Counter {
    Counter::new(&[(1 + context.index, End::Terminated)])
}

fn play(factory: &dyn EnvFactory, n_episodes: usize, seed: u64) -> Result<Evaluation, EvaluateError> {
    let env = Counter::of_three().spec();
    let spec = NetworkSpec::for_spaces(&env.observation, &env.action).unwrap();
    let params = spec.init_params(0).unwrap();
    let mut policy = Policy::new(spec, params, &env.action).unwrap();
    evaluate(&mut policy, &mut ActionSelection::Mode, factory, n_episodes, seed)
}

#[test]
fn short_episodes_are_not_preferred() {
    let evaluation = play(&longer_and_longer, MAX_ENVS + 5, 0).unwrap();
    assert_eq!(evaluation.episodes.len(), MAX_ENVS + 5);
    for env in 0..MAX_ENVS as u32 {
        let lens: Vec<_> = (evaluation.episodes.iter())
            .filter(|episode| episode.index == env)
            .map(|episode| episode.episode_len)
            .collect();
        // In the time of the longest episode, environment 0 could have played all of them.
        let quota = if env < 5 { 2 } else { 1 };
        assert_eq!(lens, vec![env + 1; quota], "environment {env}");
    }
}

#[test]
fn fewer_episodes_than_environments_are_one_each() {
    let evaluation = play(&longer_and_longer, 3, 0).unwrap();
    let played: Vec<_> = (evaluation.episodes.iter())
        .map(|episode| (episode.index, episode.episode_len, episode.episode_return))
        .collect();
    assert_eq!(played, [(0, 1, 1.0), (1, 2, 3.0), (2, 3, 6.0)]);
    assert_eq!(evaluation.len_mean(), Some(2.0));
    assert_eq!(evaluation.return_mean(), Some(10.0 / 3.0));
}

/// The pixels of the frames of an evaluation, of which the spectator looks at no more than `most`.
fn frames_of(factory: &dyn EnvFactory, n_episodes: usize, most: usize) -> (Evaluation, Vec<Vec<u8>>) {
    let env = Counter::of_three().spec();
    let spec = NetworkSpec::for_spaces(&env.observation, &env.action).unwrap();
    let params = spec.init_params(0).unwrap();
    let mut policy = Policy::new(spec, params, &env.action).unwrap();
    let mut frames = Vec::new();
    let mut on_frame = |frame: Frame| {
        frames.push(frame.rgb().to_vec());
        if frames.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let played = evaluate_and_render(&mut policy, &mut ActionSelection::Mode, factory, n_episodes, 0, &mut on_frame);
    (played.unwrap(), frames)
}

/// The frames of a counter's first episode up to this step, each drawn once.
fn up_to(step: u8) -> Vec<Vec<u8>> {
    (0..=step).map(|step| vec![1, step, step + 1]).collect()
}

#[test]
fn frames_are_those_of_the_first_episode_from_its_reset_to_its_end() {
    let terminated = |_: &EnvContext| Counter::of_three();
    let truncated = |_: &EnvContext| Counter::new(&[(9, End::Terminated)]).with_limit(4);
    for (factory, len) in [(&terminated as &dyn EnvFactory, 3), (&truncated, 4)] {
        for n_episodes in [1, 5, MAX_ENVS + 5] {
            let (evaluation, frames) = frames_of(factory, n_episodes, 100);
            assert_eq!(frames, up_to(len), "{n_episodes}");
            assert_eq!(evaluation, play(factory, n_episodes, 0).unwrap(), "drawing changes no episode");
        }
    }
}

/// Counters that lose a life in every step: what is learned from ends, and the episode goes on.
struct Mortal(Box<dyn VectorEnv>);

impl VectorEnv for Mortal {
    fn spec(&self) -> &EnvSpec {
        self.0.spec()
    }
    fn n_envs(&self) -> usize {
        self.0.n_envs()
    }
    fn reset_all(&mut self, obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        self.0.reset_all(obs)
    }
    fn step(&mut self, actions: ActionRef<'_>, out: VectorStep<'_>) -> Result<(), EnvFailure> {
        let VectorStep { t, obs, rewards, ends, final_obs } = out;
        self.0.step(actions, VectorStep { t, obs, rewards, ends, final_obs })?;
        ends.iter_mut().filter(|end| **end == End::No).for_each(|end| *end = End::Terminated);
        Ok(())
    }
    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>) {
        self.0.drain_episodes(into);
    }
    fn render(&mut self, index: usize) -> Result<Option<Frame>, EnvFailure> {
        self.0.render(index)
    }
    fn keep_last_frames(&mut self, index: usize) {
        self.0.keep_last_frames(index);
    }
    fn take_last_frame(&mut self) -> Option<Frame> {
        self.0.take_last_frame()
    }
}

/// Makes them of the counters of another factory.
struct Mortals<'a>(&'a dyn EnvFactory);

impl EnvFactory for Mortals<'_> {
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        Ok(Box::new(Mortal(self.0.make_vector(context, n_envs, monitor)?)))
    }
}

#[test]
fn a_lost_life_ends_no_episode_of_an_evaluation_and_no_video() {
    assert_eq!(play(&Mortals(&longer_and_longer), 9, 0).unwrap(), play(&longer_and_longer, 9, 0).unwrap());
    let of_three = |_: &EnvContext| Counter::of_three();
    assert_eq!(frames_of(&Mortals(&of_three), 5, 100), frames_of(&of_three, 5, 100));
}

#[test]
fn a_spectator_that_has_seen_enough_ends_the_drawing_and_not_the_evaluation() {
    let (evaluation, frames) = frames_of(&|_: &EnvContext| Counter::of_three(), 5, 2);
    assert_eq!((frames, evaluation.episodes.len()), (up_to(1), 5));
}

#[test]
fn environments_without_pictures_are_evaluated_unseen() {
    struct Blind(Counter);
    impl Env for Blind {
        fn spec(&self) -> EnvSpec {
            self.0.spec()
        }
        fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
            self.0.reset(seed, obs)
        }
        fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
            self.0.step(action, obs)
        }
    }
    let (evaluation, frames) = frames_of(&|_: &EnvContext| Blind(Counter::of_three()), 2, 100);
    assert_eq!((frames.len(), evaluation.episodes.len()), (0, 2));
}

/// Evaluates a policy in [`Masked`] environments.
fn play_masked(choice: &mut ActionSelection, factory: &dyn EnvFactory) -> Result<Evaluation, EvaluateError> {
    let env = Masked::new(5, 30).spec();
    let spec = NetworkSpec::for_spaces(&env.observation, &env.action).unwrap();
    let params = spec.init_params(0).unwrap();
    let mut policy = Policy::new(spec, params, &env.action).unwrap();
    evaluate(&mut policy, choice, factory, 50, 0)
}

#[test]
fn neither_the_mode_nor_samples_are_masked_actions() {
    for mut choice in [ActionSelection::Mode, ActionSelection::Sample(Rng::seed_from(3))] {
        // An impossible action is an error of the environment.
        let evaluation = play_masked(&mut choice, &|_: &EnvContext| Masked::new(5, 30)).unwrap();
        assert_eq!(evaluation.len_mean(), Some(30.0));
    }
}

#[test]
fn a_mask_without_actions_ends_the_evaluation() {
    let factory = |_: &EnvContext| Watched::with_fault(MaskFault::AllFalse);
    let error = play_masked(&mut ActionSelection::Mode, &factory).unwrap_err().to_string();
    assert!(error.contains("after step 1") && error.contains("nothing possible"), "{error}");
}

#[test]
fn the_same_seed_gives_the_same_evaluation() {
    let first = play(&longer_and_longer, 40, 7).unwrap();
    assert_eq!(first, play(&longer_and_longer, 40, 7).unwrap());
    assert_ne!(first, play(&longer_and_longer, 40, 8).unwrap());
}

#[test]
fn an_evaluation_does_not_replay_the_training_episodes_of_its_seed() {
    let seen = Mutex::new(Vec::new());
    let factory = |context: &EnvContext| {
        seen.lock().unwrap().push(*context);
        Counter::of_three()
    };
    play(&factory, 4, 7).unwrap();
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.len(), 4);
    for context in seen {
        let training = VectorContext {
            worker: context.worker,
            incarnation: context.incarnation,
            seed: 7,
            ..VectorContext::default()
        };
        assert_ne!(context.seed, training.env(context.index).seed);
    }
}

#[test]
fn no_episodes_need_no_environment() {
    let factory = |_: &EnvContext| -> Counter { panic!("nothing is to be made") };
    let evaluation = play(&factory, 0, 0).unwrap();
    assert_eq!(evaluation.episodes, []);
    assert_eq!((evaluation.return_mean(), evaluation.return_std()), (None, None));
}

/// What a plan plays, how much of it the limit of steps ended, and the last that was said of the progress.
fn play_plan(factory: &dyn EnvFactory, plan: EvaluationPlan) -> (Evaluation, Option<Progress>) {
    let env = Counter::of_three().spec();
    let spec = NetworkSpec::for_spaces(&env.observation, &env.action).unwrap();
    let params = spec.init_params(0).unwrap();
    let mut policy = Policy::new(spec, params, &env.action).unwrap();
    let players = Players::One { policy: &mut policy, factory };
    let mut last = None;
    let mut on_progress = |progress| last = Some(progress);
    let audience = Audience { on_progress: Some(&mut on_progress), ..Audience::default() };
    let (_guard, token) = shutdown();
    let beside = (&CallMonitor::new(), &token);
    let played = evaluate_beside(players, &mut ActionSelection::Mode, plan, beside, audience).unwrap();
    (played, last)
}

#[test]
fn episodes_that_do_not_end_are_ended_at_the_limit_and_count_with_their_return() {
    // Environment 0 never ends, and the others do after 2 steps, then 3, and so on.
    let endless = |context: &EnvContext| match context.index {
        0 => Counter::new(&[(u32::MAX, End::Terminated)]),
        _ => Counter::new(&[(2, End::Terminated), (3, End::Truncated)]),
    };
    let plan = EvaluationPlan { max_episode_steps: Some(4), ..EvaluationPlan::new(2 * MAX_ENVS + 1, 0) };
    let (played, progress) = play_plan(&endless, plan);
    assert_eq!((played.episodes.len(), played.n_cut_short), (2 * MAX_ENVS + 1, 3));
    let of = |index| played.episodes.iter().filter(move |episode| episode.index == index);
    for episode in of(0) {
        assert_eq!((episode.episode_len, episode.episode_return), (4, 1.0 + 2.0 + 3.0 + 4.0));
    }
    for index in 1..MAX_ENVS as u32 {
        assert_eq!(of(index).map(|episode| episode.episode_len).collect::<Vec<_>>(), [2, 3], "environment {index}");
    }
    let seeds: std::collections::BTreeSet<_> = played.episodes.iter().map(|episode| episode.seed).collect();
    assert_eq!(seeds.len(), played.episodes.len(), "no episode is played twice");
    // Environment 0 waits for the second episodes of the others, which end after 5 steps, and plays two more.
    assert_eq!(progress, Some(Progress { episodes: 2 * MAX_ENVS + 1, steps: 5 + 4 + 4 }));
    assert_eq!(play_plan(&endless, plan).0, played);
}

#[test]
fn a_limit_that_no_episode_reaches_changes_nothing() {
    let factory = |_: &EnvContext| Counter::of_three();
    let plan = EvaluationPlan { max_episode_steps: Some(3), ..EvaluationPlan::new(MAX_ENVS + 5, 0) };
    let (played, _) = play_plan(&factory, plan);
    assert_eq!((played.n_cut_short, &played), (0, &play(&factory, MAX_ENVS + 5, 0).unwrap()));
}

#[test]
fn the_default_limit_is_not_below_that_of_the_environment() {
    let plan = EvaluationPlan::new(1, 0);
    let most = EvaluationPlan::MAX_EPISODE_STEPS;
    assert_eq!([None, Some(500), Some(most + 1)].map(|own| plan.limit(own)), [most, most, most + 1]);
    let short = EvaluationPlan { max_episode_steps: Some(10), ..plan };
    assert_eq!([None, Some(500)].map(|own| short.limit(own)), [10, 10]);
}

#[test]
fn the_return_at_the_limit_is_the_sum_of_the_rewards_where_the_vector_does_not_know_it() {
    // A task is in an `AsyncEnvs`, whose vector says nothing of running episodes.
    struct Slow(Counter);
    impl crate::env::AsyncEnv for Slow {
        fn spec(&self) -> EnvSpec {
            self.0.spec()
        }
        async fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
            self.0.reset(seed, obs)
        }
        async fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
            self.0.step(action, obs)
        }
    }
    let tasks = crate::pool::AsyncEnvs::new(async |_: EnvContext| Slow(Counter::new(&[(u32::MAX, End::Terminated)])));
    let plan = EvaluationPlan { max_episode_steps: Some(3), ..EvaluationPlan::new(2, 0) };
    let (played, _) = play_plan(&tasks, plan);
    let stats: Vec<_> = played.episodes.iter().map(|episode| (episode.index, episode.episode_return)).collect();
    assert_eq!((stats, played.n_cut_short), (vec![(0, 6.0), (1, 6.0)], 2));
}

#[test]
fn frames_end_where_the_limit_ends_the_episode() {
    let endless = |_: &EnvContext| Counter::new(&[(u32::MAX, End::Terminated)]);
    let env = Counter::of_three().spec();
    let spec = NetworkSpec::for_spaces(&env.observation, &env.action).unwrap();
    let mut policy = Policy::new(spec.clone(), spec.init_params(0).unwrap(), &env.action).unwrap();
    let mut frames = Vec::new();
    let mut on_frame = |frame: Frame| {
        frames.push(frame.rgb().to_vec());
        ControlFlow::Continue(())
    };
    let (_guard, token) = shutdown();
    let (players, beside) = (Players::One { policy: &mut policy, factory: &endless }, (&CallMonitor::new(), &token));
    let plan = EvaluationPlan { max_episode_steps: Some(4), ..EvaluationPlan::new(MAX_ENVS + 1, 0) };
    let audience = Audience { on_frame: Some(&mut on_frame), ..Audience::default() };
    evaluate_beside(players, &mut ActionSelection::Mode, plan, beside, audience).unwrap();
    assert_eq!(frames, up_to(4));
}

#[test]
fn an_environment_that_fails_ends_the_evaluation() {
    let factory = |_: &EnvContext| Counter::of_three().with_fault(Fault::StepErr(2));
    let error = play(&factory, 2, 0).unwrap_err();
    assert!(error.to_string().contains("planted step error"), "{error}");
}

#[test]
fn the_end_of_the_run_interrupts_an_evaluation_between_two_steps() {
    let (guard, token) = shutdown();
    let guard = Mutex::new(Some(guard));
    let ends_the_run = |_: &EnvContext| {
        drop(guard.lock().unwrap().take());
        Counter::of_three()
    };
    let env = Counter::of_three().spec();
    let spec = NetworkSpec::for_spaces(&env.observation, &env.action).unwrap();
    let params = spec.init_params(0).unwrap();
    let mut policy = Policy::new(spec, params, &env.action).unwrap();
    let (mode, beside) = (&mut ActionSelection::Mode, (&CallMonitor::new(), &token));
    let players = Players::One { policy: &mut policy, factory: &ends_the_run };
    let ended = evaluate_beside(players, mode, EvaluationPlan::new(3, 0), beside, Audience::default());
    assert!(matches!(ended, Err(EvaluateError::Interrupted)), "{ended:?}");
}
