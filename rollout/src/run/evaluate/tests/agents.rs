//! Evaluations of policies of several agents.

use std::sync::Arc;

use pronk_policy::{
    ActionsMut, Input, Network, NetworkShape, ObsNormalizer, ObsRef, OutputGrads, Outputs, ParamLayout, Params,
    PolicyError, Space,
};

use super::*;
use crate::env::{Agents, EpisodeStat, MultiAgentEnv, MultiAgentSpec};
use crate::envs::{Rendezvous, TicTacToe};
use crate::testing::script::{Call, Diary, Manner, Mishap, N_AGENTS, Script};

const NAMES: [&str; N_AGENTS] = ["first", "second", "third"];

const MANNERS: [Manner; 3] = [Manner::Together, Manner::InTurns, Manner::AtRandom];

/// The first agent plays `lstm` in every episode; the others change between the policies.
fn by_episode() -> PolicyMapping {
    PolicyMapping::new(|agent, seed| match (agent, seed % 2) {
        ("first", _) | ("second", 0) | ("third", 1) => "lstm".into(),
        _ => "plain".into(),
    })
}

/// A recurrent policy and another one, which normalises its observations, for agents of a [`Script`].
fn two() -> ByPolicy<Policy> {
    let observation = Space::boxed(vec![0.0; 3], vec![1e6; 3], vec![3]).unwrap();
    let action = Space::discrete(2).unwrap();
    let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
    let normalizer = ObsNormalizer { mean: vec![10.0, 3.0, 4.0], std: vec![9.0, 2.0, 3.0], clip: 10.0 };
    let made = |spec: NetworkSpec| {
        let mut params = spec.init_params(7).unwrap();
        // Small initial weights would select one action throughout.
        params.values_mut().iter_mut().for_each(|weight| *weight *= 4.0);
        Policy::new(spec, params, &action).unwrap().with_normalizer(normalizer.clone()).unwrap()
    };
    let lstm = NetworkSpec { lstm: Some(4), ..spec.clone() };
    ByPolicy::from([("lstm".into(), made(lstm)), ("plain".into(), made(spec))])
}

/// Plays the agents of scripted environments.
fn scripted(
    choice: &mut ActionSelection,
    (manner, mishap): (Manner, Option<Mishap>),
    n_episodes: usize,
    seed: u64,
) -> (Result<Evaluation, EvaluateError>, Diary) {
    let diary = Diary::default();
    let factory = |context: &EnvContext| {
        let mut env = Script::new(context, &diary, manner);
        env.masked = mishap.is_some();
        env.mishap = mishap.filter(|_| context.index == 1).map(|mishap| (3, mishap));
        env
    };
    let played = evaluate_agents(&mut two(), &by_episode(), choice, &factory, n_episodes, seed);
    (played, diary)
}

/// What one agent does and gets in an episode, from what the environment wrote down; its policy acts for it
/// alone. The number of its actions that were 1, its return, its length, and whether it has acted.
fn alone(policy: &mut Policy, agent: usize, episode: &[Call]) -> (u32, f64, u32, bool) {
    let mut state = vec![0.0; policy.shape().state_len];
    let (mut ones, mut agent_return, mut len, mut has_acted, mut over) = (0, 0.0, 0, false, false);
    for (before, call) in episode.iter().zip(&episode[1..]) {
        let acted = call.acted.iter().find(|(one, _)| *one == agent);
        assert_eq!(before.asked.contains(&agent), acted.is_some());
        if let Some((_, action)) = acted {
            let (_, obs) = before.shown.iter().find(|(one, _)| *one == agent).unwrap();
            let mut chosen = [u32::MAX];
            let (obs, mode) = ((ObsRef::F32(obs), 1), &mut ActionSelection::Mode);
            policy.act_from(&mut state, obs, None, mode, ActionsMut::Discrete(&mut chosen)).unwrap();
            assert_eq!(*action, chosen[0]);
            ones += action;
            has_acted = true;
        }
        len += u32::from(!over);
        over |= call.ended.iter().any(|(one, _)| *one == agent);
        agent_return +=
            call.paid.iter().filter(|(one, _)| *one == agent).map(|(_, paid)| f64::from(*paid)).sum::<f64>();
    }
    (ones, agent_return, len, has_acted)
}

#[test]
fn every_agent_does_and_gets_what_its_policy_does_for_it_alone() {
    let n_episodes = MAX_ENVS + 9;
    for manner in MANNERS {
        let (played, diary) = scripted(&mut ActionSelection::Mode, (manner, None), n_episodes, 3);
        let played = played.unwrap();
        let (mut episodes, mut stats) = (Vec::new(), Vec::new());
        let (mut n_actions, mut ones, mut n_short) = (0, 0, 0);
        for (index, calls) in diary.calls.lock().unwrap().iter().enumerate() {
            let index = index as u32;
            for episode in calls.chunk_by(|_, next| next.episode_seed.is_none()) {
                let (seed, episode_len) = (episode[0].episode_seed.unwrap(), episode.len() as u32 - 1);
                let mut episode_return = 0.0;
                for (agent, name) in NAMES.into_iter().enumerate() {
                    let policy = by_episode().policy_of(name, seed).unwrap();
                    let (its_ones, agent_return, agent_len, has_acted) =
                        alone(two().get_mut(&policy).unwrap(), agent, episode);
                    let acted = episode.iter().flat_map(|call| &call.acted).filter(|(one, _)| *one == agent).count();
                    (n_actions, ones) = (n_actions + acted, ones + its_ones as usize);
                    n_short += usize::from(agent_len < episode_len);
                    episode_return += agent_return;
                    if has_acted {
                        let agent = name.to_owned();
                        stats.push(AgentStat { index, seed, agent, policy, agent_return, agent_len });
                    }
                }
                episodes.push(EpisodeStat { worker: 0, index, seed, episode_return, episode_len });
            }
        }
        assert!(ones > 0 && ones < n_actions, "{manner:?}: {ones} of {n_actions} actions are 1");
        assert_eq!(n_short > 0, manner == Manner::AtRandom, "{n_short} agents end before the others");
        assert_eq!(episodes.len(), n_episodes, "{manner:?}: no more episodes than asked for");
        let mut sorted = played.clone();
        sorted.episodes.sort_by_key(|episode| episode.index);
        sorted.agents.sort_by_key(|stat| stat.index);
        assert_eq!((sorted.episodes, sorted.agents), (episodes, stats), "{manner:?}");

        let (by_policy, by_agent) = (played.policy_returns(), played.agent_returns());
        let all: f64 = by_policy.values().map(|returns| returns.sum).sum();
        assert_eq!((by_policy.len(), by_agent.len()), (2, 3));
        assert_eq!(all, by_agent.values().map(|returns| returns.sum).sum::<f64>());
        assert_eq!(by_agent["first"].n, n_episodes as u64 - missing(&played, "first"));
    }
}

/// The episodes in which an agent never acted.
fn missing(played: &Evaluation, agent: &str) -> u64 {
    let seeds = |one: &EpisodeStat| played.agents.iter().any(|stat| stat.agent == agent && stat.seed == one.seed);
    played.episodes.iter().filter(|one| !seeds(one)).count() as u64
}

#[test]
fn each_environment_has_a_fixed_share_of_the_episodes_and_plays_no_other() {
    let (played, diary) = scripted(&mut ActionSelection::Mode, (Manner::AtRandom, None), MAX_ENVS_OF_SEVERAL + 5, 0);
    let played = played.unwrap();
    assert_eq!(diary.calls.lock().unwrap().len(), MAX_ENVS_OF_SEVERAL, "no more are made");
    for (index, calls) in diary.calls.lock().unwrap().iter().enumerate() {
        let quota = if index < 5 { 2 } else { 1 };
        assert_eq!(calls.iter().filter(|call| call.episode_seed.is_some()).count(), quota);
        assert_eq!(played.episodes.iter().filter(|episode| episode.index as usize == index).count(), quota);
    }
}

#[test]
fn the_same_seed_gives_the_same_evaluation_and_none_of_training() {
    let sample = || ActionSelection::Sample(Rng::seed_from(5));
    for choice in [|| ActionSelection::Mode, sample] {
        let play = |seed| scripted(&mut choice(), (Manner::AtRandom, None), 40, seed).0.unwrap();
        assert_eq!(play(7), play(7));
        assert_ne!(play(7), play(8));
        let training = VectorContext { seed: 7, ..VectorContext::default() };
        let first = crate::env::Episodes::new(training.env(0)).next_seed();
        assert!(play(7).episodes.iter().all(|episode| episode.seed != first));
    }
}

/// Plays tic-tac-toe.
fn tic_tac_toe(choice: &mut ActionSelection, mapping: &PolicyMapping) -> Result<Evaluation, EvaluateError> {
    let game = TicTacToe::new().spec();
    let action = &game.agents[0].action;
    let spec = NetworkSpec::for_spaces(&game.agents[0].observation, action).unwrap();
    let player = |seed| Policy::new(spec.clone(), spec.init_params(seed).unwrap(), action).unwrap();
    let mut policies = ByPolicy::from([("a".into(), player(1)), ("b".into(), player(2))]);
    evaluate_agents(&mut policies, mapping, choice, &|_: &EnvContext| TicTacToe::new(), 50, 0)
}

#[test]
fn agents_in_turns_never_take_a_masked_action_and_each_gets_its_own_return() {
    let mapping = PolicyMapping::fixed([("x", "a"), ("o", "b")]);
    for mut choice in [ActionSelection::Mode, ActionSelection::Sample(Rng::seed_from(3))] {
        // Choosing an occupied cell is an error of the environment.
        let played = tic_tac_toe(&mut choice, &mapping).unwrap();
        assert_eq!((played.return_mean(), played.agents.len()), (Some(0.0), 100));
        for pair in played.agents.chunks_exact(2) {
            assert_eq!((pair[0].seed, &*pair[0].agent, &*pair[0].policy), (pair[1].seed, "x", "a"));
            assert_eq!(pair[0].agent_return, -pair[1].agent_return);
        }
        assert!(played.agents.iter().any(|stat| stat.agent_return != 0.0));
        assert_eq!(played.policy_returns()["a"], played.agent_returns()["x"]);
    }
    let shared = tic_tac_toe(&mut ActionSelection::Mode, &PolicyMapping::shared("b")).unwrap();
    let returns = shared.policy_returns();
    assert_eq!((returns.len(), returns["b"].n, returns["b"].mean()), (1, 100, 0.0));
}

#[test]
fn an_agent_without_a_policy_that_it_can_play_ends_the_evaluation_by_name() {
    let play = |mapping| tic_tac_toe(&mut ActionSelection::Mode, &mapping).unwrap_err().to_string();
    let error = play(PolicyMapping::fixed([("x", "a")]));
    assert_eq!(
        error,
        "the agents of TicTacToe cannot play: the policy mapping has no policy for agent `o`: pair it with one"
    );
    let error = play(PolicyMapping::fixed([("x", "a"), ("o", "c")]));
    assert!(error.contains("agent `o` the policy `c`, which does not exist; the policies are `a`, `b`"), "{error}");

    let (factory, mode) = (|_: &EnvContext| Rendezvous::new(), &mut ActionSelection::Mode);
    let mut policies = two();
    let error = evaluate_agents(&mut policies, &PolicyMapping::shared("plain"), mode, &factory, 3, 0).unwrap_err();
    assert!(matches!(error, EvaluateError::Mapping { .. }), "{error}");
    assert!(error.to_string().contains("agent `agent_0` is to play policy `plain`, but"), "{error}");
    let error = evaluate_agents(&mut policies, &PolicyMapping::shared("gone"), mode, &factory, 3, 0).unwrap_err();
    assert!(error.to_string().contains("the policies are `lstm`, `plain`"), "{error}");
    let none = evaluate_agents(&mut policies, &PolicyMapping::shared("gone"), mode, &factory, 0, 0).unwrap();
    assert_eq!((none.return_mean(), none.policy_returns().len()), (None, 0));
}

#[test]
fn every_failure_of_an_environment_ends_the_evaluation() {
    let mishaps = [
        (Mishap::Err, "planted step error"),
        (Mishap::Panic, "planted step panic"),
        (Mishap::NanObs, "NaN"),
        (Mishap::InfReward, "the reward is inf"),
        (Mishap::NobodyAsked, "no agent is asked to act"),
        (Mishap::AskedAfterItsEnd, "is asked to act after its end"),
        (Mishap::ResetErr, "planted reset error"),
        (Mishap::ResetPanic, "planted reset panic"),
        (Mishap::MaskErr, "planted mask error"),
        (Mishap::MaskPanic, "planted mask panic"),
        (Mishap::NoWay, "nothing possible"),
    ];
    for (mishap, words) in mishaps {
        let n_episodes = 3 * MAX_ENVS;
        let (played, _) = scripted(&mut ActionSelection::Mode, (Manner::AtRandom, Some(mishap)), n_episodes, 3);
        let Err(EvaluateError::Env(failure)) = played else { panic!("{mishap:?}: {played:?}") };
        assert!(failure.index == 1 && failure.to_string().contains(words), "{mishap:?}: {failure}");
    }
}

/// A network that fails for more than one row.
struct Lonely(NetworkShape, Arc<ParamLayout>);

impl Network for Lonely {
    fn shape(&self) -> &NetworkShape {
        &self.0
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        &self.1
    }

    fn forward(&mut self, _: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        if input.rows > 1 {
            return Err(PolicyError::BadSpec { reason: "a row too many".to_owned() });
        }
        (out.logits, out.values) = (vec![0.0; 2], vec![0.0]);
        Ok(())
    }

    fn forward_for_learning(&mut self, _: &Params, _: &Input<'_>, _: &mut Outputs) -> Result<(), PolicyError> {
        unreachable!("evaluations do not learn")
    }

    fn backward(&mut self, _: &Params, _: &OutputGrads, _: &mut [f32]) -> Result<(), PolicyError> {
        unreachable!("evaluations do not learn")
    }
}

#[test]
fn a_policy_that_cannot_act_is_named() {
    let mut policies = two();
    let shape = NetworkShape { state_len: 0, ..policies["plain"].shape().clone() };
    let action = policies["plain"].action_space().clone();
    let lonely = Lonely(shape, Arc::new(ParamLayout::new([("w", vec![1])])));
    let params = Params::zeros(Arc::clone(lonely.layout()));
    policies.insert("plain".into(), Policy::with_network(Box::new(lonely), params, &action).unwrap());
    let diary = Diary::default();
    let factory = |context: &EnvContext| Script::new(context, &diary, Manner::Together);
    let played = evaluate_agents(&mut policies, &by_episode(), &mut ActionSelection::Mode, &factory, 9, 0);
    let error = played.unwrap_err();
    assert!(matches!(&error, EvaluateError::OfPolicy { policy, .. } if &**policy == "plain"), "{error}");
    assert!(error.to_string().starts_with("the policy `plain` cannot act in Script: "), "{error}");
}

/// The frames of an evaluation of tic-tac-toe, of which the spectator looks at no more than `most`.
fn frames_of(n_episodes: usize, most: usize, factory: &dyn MultiAgentFactory) -> (Evaluation, Vec<Frame>) {
    let game = TicTacToe::new().spec();
    let action = &game.agents[0].action;
    let spec = NetworkSpec::for_spaces(&game.agents[0].observation, action).unwrap();
    let player = Policy::new(spec.clone(), spec.init_params(1).unwrap(), action).unwrap();
    let (mut policies, mapping) = (ByPolicy::from([("a".into(), player)]), PolicyMapping::shared("a"));
    let mut frames = Vec::new();
    let mut on_frame = |frame: Frame| {
        frames.push(frame);
        if frames.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let (_guard, token) = shutdown();
    let players = Players::Several { policies: &mut policies, mapping: &mapping, factory };
    let beside = (&CallMonitor::new(), &token);
    let mode = &mut ActionSelection::Mode;
    let audience = Audience { on_frame: Some(&mut on_frame), ..Audience::default() };
    let played = evaluate_beside(players, mode, EvaluationPlan::new(n_episodes, 0), beside, audience).unwrap();
    (played, frames)
}

#[test]
fn frames_of_several_agents_are_those_of_the_first_episode_from_its_reset_to_its_end() {
    let factory = |_: &EnvContext| TicTacToe::new();
    for n_episodes in [1, MAX_ENVS + 5] {
        let (played, frames) = frames_of(n_episodes, 100, &factory);
        let first = played.episodes.iter().find(|episode| episode.index == 0).unwrap();
        assert_eq!(frames.len(), first.episode_len as usize + 1, "{n_episodes}");
        // A stone more in each.
        assert!(frames.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(frames[0], TicTacToe::new().render().unwrap().unwrap());
    }
    assert_eq!(frames_of(5, 2, &factory).1.len(), 2);

    /// Tic-tac-toe that draws nothing.
    struct Blind(TicTacToe);
    impl MultiAgentEnv for Blind {
        fn spec(&self) -> MultiAgentSpec {
            self.0.spec()
        }
        fn reset(&mut self, seed: u64, agents: &mut Agents) -> Result<(), EnvError> {
            self.0.reset(seed, agents)
        }
        fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
            self.0.step(agents)
        }
        fn action_mask(&self, agent: usize, mask: &mut [bool]) -> Result<(), EnvError> {
            self.0.action_mask(agent, mask)
        }
    }
    let (played, frames) = frames_of(5, 100, &|_: &EnvContext| Blind(TicTacToe::new()));
    assert_eq!((played.episodes.len(), frames.len()), (5, 0));
}

#[test]
fn episodes_of_several_agents_are_ended_at_the_limit() {
    let game = TicTacToe::new().spec();
    let action = &game.agents[0].action;
    let spec = NetworkSpec::for_spaces(&game.agents[0].observation, action).unwrap();
    let player = Policy::new(spec.clone(), spec.init_params(1).unwrap(), action).unwrap();
    let (mut policies, mapping) = (ByPolicy::from([("a".into(), player)]), PolicyMapping::shared("a"));
    let factory = |_: &EnvContext| TicTacToe::new();
    let players = Players::Several { policies: &mut policies, mapping: &mapping, factory: &factory };
    let (_guard, token) = shutdown();
    let beside = (&CallMonitor::new(), &token);
    // No game is won in less than five steps.
    let plan = EvaluationPlan { max_episode_steps: Some(4), ..EvaluationPlan::new(2 * MAX_ENVS, 0) };
    let played = evaluate_beside(players, &mut ActionSelection::Mode, plan, beside, Audience::default()).unwrap();
    assert_eq!((played.episodes.len(), played.n_cut_short), (2 * MAX_ENVS, 2 * MAX_ENVS));
    assert!(played.episodes.iter().all(|episode| (episode.episode_len, episode.episode_return) == (4, 0.0)));
    assert_eq!(played.agents.len(), 4 * MAX_ENVS, "both agents have acted");
    assert!(played.agents.iter().all(|agent| (agent.agent_len, agent.agent_return) == (4, 0.0)));
}

#[test]
fn the_end_of_the_run_interrupts_an_evaluation_of_several_agents() {
    let (guard, token) = shutdown();
    let guard = Mutex::new(Some(guard));
    let ends_the_run = |_: &EnvContext| {
        drop(guard.lock().unwrap().take());
        TicTacToe::new()
    };
    let game = TicTacToe::new().spec();
    let action = &game.agents[0].action;
    let spec = NetworkSpec::for_spaces(&game.agents[0].observation, action).unwrap();
    let player = Policy::new(spec.clone(), spec.init_params(0).unwrap(), action).unwrap();
    let (mut policies, mapping) = (ByPolicy::from([("a".into(), player)]), PolicyMapping::shared("a"));
    let players = Players::Several { policies: &mut policies, mapping: &mapping, factory: &ends_the_run };
    let mode = &mut ActionSelection::Mode;
    let (plan, beside) = (EvaluationPlan::new(3, 0), (&CallMonitor::new(), &token));
    let ended = evaluate_beside(players, mode, plan, beside, Audience::default());
    assert!(matches!(ended, Err(EvaluateError::Interrupted)), "{ended:?}");
}

#[test]
fn environments_know_whether_they_are_for_an_evaluation_or_only_looked_at() {
    let purposes = Mutex::new(Vec::new());
    let game = |context: &EnvContext| {
        purposes.lock().unwrap().push(context.purpose);
        TicTacToe::new()
    };
    let spec = crate::pool::probe_multi_agent_spec(&game, 0).unwrap();
    let action = &spec.agents[0].action;
    let network = NetworkSpec::for_spaces(&spec.agents[0].observation, action).unwrap();
    let player = Policy::new(network.clone(), network.init_params(0).unwrap(), action).unwrap();
    let (mut policies, mapping) = (ByPolicy::from([("a".into(), player)]), PolicyMapping::shared("a"));
    evaluate_agents(&mut policies, &mapping, &mut ActionSelection::Mode, &game, 2, 0).unwrap();
    let made = [EnvPurpose::Probe, EnvPurpose::Evaluation, EnvPurpose::Evaluation];
    assert_eq!(*purposes.lock().unwrap(), made);
}
