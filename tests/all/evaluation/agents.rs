//! Evaluations of several agents.

use pronk::envs::{Rendezvous, TicTacToe};
use pronk::rollout::Evaluation;
use pronk::trainer::SeveralAgents;
use pronk::video::{VideoOptions, evaluate_agents_and_record};
use pronk::{ByPolicy, MultiAgentConfig, PolicyMapping, evaluate_agents};

use super::*;

/// Noughts and crosses: a policy learns, and another stays as it is. They change sides.
fn duel() -> MultiAgentConfig {
    MultiAgentConfig {
        policies: [("learner".into(), None), ("opponent".into(), None)].into(),
        policy_mapping: PolicyMapping::new(|agent, seed| {
            if (agent == "x") == seed.is_multiple_of(2) { "learner".into() } else { "opponent".into() }
        }),
        policies_to_train: Some(["learner".into()].into()),
    }
}

fn crosses_and_noughts() -> MultiAgentConfig {
    MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")])
}

fn game(_: &EnvContext) -> TicTacToe {
    TicTacToe::new()
}

/// A run of games.
fn games(config: TrainerConfig, agents: MultiAgentConfig) -> TrainerBuilder<SeveralAgents> {
    Trainer::builder(config).multi_agent_env(game, agents)
}

/// What the policies do in the episodes of the run's evaluations.
fn play_agents(policies: &ByPolicy<Checkpoint>, agents: &MultiAgentConfig) -> Evaluation {
    let config = &policies.values().next().unwrap().config;
    let mut choice = match config.evaluation.selection {
        Selection::Mode => ActionSelection::Mode,
        Selection::Sample => ActionSelection::Sample(Rng::seed_from(config.seed)),
    };
    let (episodes, seed) = (config.evaluation.episodes, config.seed);
    let mut policies = policies.iter().map(|(id, one)| (id.clone(), one.policy().unwrap())).collect();
    evaluate_agents(&mut policies, &agents.policy_mapping, &mut choice, &game, episodes, seed).unwrap()
}

#[test]
fn an_evaluation_of_several_agents_can_be_repeated_with_the_policies_that_are_kept() {
    type Change = fn(&mut TrainerConfig);
    let sampled: Change = |config| config.evaluation.selection = Selection::Sample;
    let cases: [(&str, TrainerConfig, MultiAgentConfig, Change); 5] = [
        ("without threads", small(0), duel(), |_| {}),
        ("free workers", small(2), crosses_and_noughts(), |_| {}),
        ("turns", deterministic(1, 1), duel(), sampled),
        ("recurrent", small(1), duel(), recurrent),
        ("shared", small(1), MultiAgentConfig::shared("player"), sampled),
    ];
    for (what, config, agents, change) in cases {
        let folder = tempfile::tempdir().unwrap();
        let config = with(evaluated(TrainerConfig { seed: 5, ..config }, 7), change);
        let (run, dict) = without_hanging(what, {
            let (dir, agents) = (folder.path().to_owned(), agents.clone());
            move || {
                let mut trainer = games(config, agents).checkpoints(dir).build().unwrap();
                let first = trainer.next().unwrap().unwrap().dict;
                assert_eq!(number(&first, "failed"), Some(0.0), "the keys are there before there are figures");
                let dict = until(&mut trainer, |dict| count(dict, "made") >= 4);
                (trainer.finish().unwrap(), dict)
            }
        });
        assert!(run.ledger_closed() && run.not_joined.is_empty(), "{what}: {:?}", run.not_joined);
        let by_policy = |key: &str| dict.get(&format!("evaluation.{key}")).and_then(Value::as_object).unwrap().clone();
        let (means, lowest) = (by_policy("policy_reward_mean"), by_policy("policy_reward_min"));
        let names: Vec<_> = agents.policies.keys().map(|policy| &**policy).collect();
        assert_eq!(means.keys().collect::<Vec<_>>(), names, "{what}");
        assert_eq!(means.values().map(|mean| mean.as_f64().unwrap()).sum::<f64>(), 0.0, "{what}: {means:?}");
        assert!(lowest.values().all(|lowest| lowest.as_f64() >= Some(-1.0)), "{what}: {lowest:?}");
        assert_eq!((number(&dict, "episode_reward_mean"), count(&dict, "failed")), (Some(0.0), 0), "{what}");

        let saved = Checkpoint::load_all(folder.path().join("best")).unwrap();
        for best in [&run.best, &saved] {
            assert_eq!(best.keys().map(|policy| &**policy).collect::<Vec<_>>(), names, "{what}");
            let score = best.values().next().unwrap().score.unwrap();
            assert!(best.values().all(|one| one.score == Some(score)), "{what}");
            let played = play_agents(best, &agents);
            assert_eq!((score.episodes, played.episodes.len()), (7, 7), "{what}");
            let learned = played.policy_returns().get("learner").map_or(0.0, |returns| returns.mean());
            assert_eq!(score.return_mean, learned, "{what}");
        }
        assert!(run.checkpoints.values().all(|one| one.score.is_none()) && run.checkpoint_failures.is_empty());
    }
}

#[test]
fn frozen_policies_are_evaluated_and_kept_with_their_own_weights() {
    let first = games(small(0), crosses_and_noughts()).build().unwrap().run(iterations(3)).unwrap();
    let opponent = &first.checkpoints["noughts"];
    let mut agents = duel();
    agents.policies.insert("opponent".into(), Some(opponent.clone()));
    let mut trainer = games(evaluated(TrainerConfig { seed: 3, ..small(1) }, 4), agents).build().unwrap();
    until(&mut trainer, |dict| count(dict, "made") >= 2);
    let run = trainer.finish().unwrap();
    assert!(run.best["opponent"].state.params.values() == opponent.state.params.values());
    assert!(run.best["learner"].state.params.values() != opponent.state.params.values());
    assert!(run.best["learner"].state.updates > 0 || run.best["learner"].score.unwrap().version == 0);

    // A run can begin with them.
    let folder = tempfile::tempdir().unwrap();
    Checkpoint::save_all(&run.best, folder.path()).unwrap();
    let again = games(small(0), duel()).resume(Checkpoint::load_all(folder.path()).unwrap()).build().unwrap();
    assert!(again.run(iterations(1)).unwrap().ledger_closed());
    let error = Checkpoint::save_all(&ByPolicy::new(), folder.path()).unwrap_err();
    assert!(error.to_string().contains("none of the run's policies"), "{error}");
}

#[test]
fn weights_of_several_policies_are_the_same_with_and_without_evaluations() {
    for config in [with(small(0), |config| config.results.weights_digest = true), deterministic(2, 1)] {
        let run_to = |config: TrainerConfig| {
            let begun = Arc::new(AtomicU64::new(0));
            let seen = Arc::clone(&begun);
            let make = move |_: &EnvContext| {
                seen.fetch_add(u64::from(is_evaluator()), Ordering::Relaxed);
                TicTacToe::new()
            };
            let waits = config.evaluation.every.is_some();
            let mut trainer = Trainer::builder(config).multi_agent_env(make, duel()).build().unwrap();
            for _ in 0..10 {
                trainer.next().unwrap().unwrap();
            }
            while waits && begun.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            trainer.run(iterations(20)).unwrap()
        };
        let without = run_to(config.clone());
        let with = run_to(evaluated(config, 4));
        assert_eq!(with.weights_digest(), without.weights_digest());
        assert_eq!(with.result.dict.get("digest_chain"), without.result.dict.get("digest_chain"));
        assert!(without.result.dict.get("evaluation").is_none() && with.result.dict.get("evaluation").is_some());
    }
}

#[test]
fn a_run_of_several_agents_goes_on_with_the_best_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let config = evaluated(deterministic(1, 1), 6);
    let mut trainer = games(config.clone(), duel()).checkpoints(folder.path()).build().unwrap();
    until(&mut trainer, |dict| count(dict, "made") >= 3);
    let before = trainer.finish().unwrap();
    let score = before.best["learner"].score.unwrap();
    let builder = games(config, duel()).checkpoints(folder.path()).resume(Resume::auto());
    let mut trainer = builder.build().unwrap();
    let first = trainer.next().unwrap().unwrap().dict;
    assert!(count(&first, "made") >= 3, "{first:?}");
    assert!(first.get("evaluation.policy_reward_mean.learner").is_some(), "{first:?}");
    assert!(number(&first, "best.episode_reward_mean") >= Some(score.return_mean));
    let run = trainer.finish().unwrap();
    assert!(run.best["learner"].score.unwrap().return_mean >= score.return_mean);
    assert_eq!(run.best.len(), 2);
}

/// A game whose step fails in so many evaluations.
struct Failing(TicTacToe, bool);

impl pronk::MultiAgentEnv for Failing {
    fn spec(&self) -> pronk::rollout::MultiAgentSpec {
        self.0.spec()
    }

    fn reset(&mut self, seed: u64, agents: &mut pronk::rollout::Agents) -> Result<(), EnvError> {
        self.0.reset(seed, agents)
    }

    fn step(&mut self, agents: &mut pronk::rollout::Agents) -> Result<(), EnvError> {
        if self.1 { Err(EnvError::new("the board is gone")) } else { self.0.step(agents) }
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> Result<(), EnvError> {
        self.0.action_mask(agent, mask)
    }
}

#[test]
fn evaluations_of_several_agents_that_fail_are_counted_and_later_ones_are_made() {
    without_hanging("failing evaluations", || {
        let failing = AtomicU64::new(2);
        let make = move |_: &EnvContext| {
            let fails = is_evaluator()
                && failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
            Failing(TicTacToe::new(), fails)
        };
        let mut trainer = Trainer::builder(evaluated(small(1), 1)).multi_agent_env(make, duel()).build().unwrap();
        let dict = until(&mut trainer, |dict| count(dict, "made") >= 1);
        assert_eq!(count(&dict, "failed"), 2);
        let failure = dict.get("evaluation.last_failure").and_then(Value::as_str).unwrap();
        assert!(failure.contains("environment 0 failed") && failure.contains("the board is gone"), "{failure}");
        assert!(trainer.finish().unwrap().worker_failures.is_empty());
    });
}

#[test]
fn a_mapping_that_goes_wrong_in_evaluations_only_fails_them_and_says_why() {
    without_hanging("evaluations that cannot be played", || {
        let mut agents = duel();
        agents.policy_mapping = PolicyMapping::new(|agent, _| match (agent, is_evaluator()) {
            ("x", _) => "learner".into(),
            (_, false) => "opponent".into(),
            (_, true) => "nobody".into(),
        });
        let mut trainer = games(evaluated(small(1), 1), agents).build().unwrap();
        let dict = until(&mut trainer, |dict| count(dict, "failed") >= 2);
        let failure = dict.get("evaluation.last_failure").and_then(Value::as_str).unwrap();
        assert!(failure.contains("agent `o` the policy `nobody`, which does not exist"), "{failure}");
        assert!(trainer.finish().unwrap().best.is_empty());
    });
}

#[test]
fn evaluations_see_two_agents_learn_to_meet() {
    let mut config = crate::multi_agent::config(0);
    // So the first is of the initial weights.
    config.evaluation.every = Some(Every::Time(Duration::ZERO));
    config.evaluation.episodes = 50;
    let (run, best) = without_hanging("a game of meeting", move || {
        let make = |_: &EnvContext| Rendezvous::new();
        let mut trainer =
            Trainer::builder(config).multi_agent_env(make, MultiAgentConfig::shared("team")).build().unwrap();
        let first = until(&mut trainer, |dict| count(dict, "made") >= 1);
        let untrained = number(&first, "episode_reward_mean").unwrap();
        assert_eq!(count(&first, "weights_version"), 0);
        let last = until(&mut trainer, |dict| {
            number(dict, "best.episode_reward_mean").unwrap() > 1.7 || dict.number("num_env_steps_sampled") > Some(3e6)
        });
        let best = number(&last, "best.episode_reward_mean").unwrap();
        assert!(untrained < 1.5, "{untrained} without training");
        // Both earn the same.
        let of_policy = number(&last, "policy_reward_mean.team").unwrap();
        assert!((2.0 * of_policy - number(&last, "episode_reward_mean").unwrap()).abs() < 1e-9);
        (trainer.finish().unwrap(), best)
    });
    assert!(best > 1.7, "{best}");
    let mut policies = ByPolicy::from([("team".into(), run.best["team"].policy().unwrap())]);
    let (mode, make) = (&mut ActionSelection::Mode, |_: &EnvContext| Rendezvous::new());
    let played = evaluate_agents(&mut policies, &PolicyMapping::shared("team"), mode, &make, 200, 99).unwrap();
    assert!(played.return_mean() > Some(1.5), "{:?}", played.return_mean());
}

#[test]
fn evaluations_of_several_agents_have_videos() {
    without_hanging("a run with videos", || {
        let folder = tempfile::tempdir().unwrap();
        let builder = games(evaluated(small(1), 2), duel()).videos(folder.path());
        let mut trainer = builder.build().unwrap();
        let dict = until(&mut trainer, |dict| count(dict, "made") >= 1);
        let name = dict.get("evaluation.video").and_then(Value::as_str).unwrap().to_owned();
        assert!(std::fs::read(folder.path().join(name)).unwrap().starts_with(b"\x89PNG"));
        let run = trainer.finish().unwrap();

        let mut policies = run.best.iter().map(|(id, one)| (id.clone(), one.policy().unwrap())).collect();
        let (mapping, options) = (duel().policy_mapping, VideoOptions::default());
        let players = (&mut policies, &mapping);
        let mode = &mut ActionSelection::Mode;
        let (played, video) = evaluate_agents_and_record(players, mode, &game, 3, 0, &options).unwrap();
        let video = video.unwrap();
        let first = played.episodes.iter().find(|episode| episode.index == 0).unwrap();
        assert_eq!((video.episode(), video.n_frames()), (first, first.episode_len + 1));
    });
}
