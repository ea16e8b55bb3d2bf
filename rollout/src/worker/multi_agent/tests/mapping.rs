use crate::env::EnvError;
use pronk_metrics::PolicyId;
use pronk_policy::{NetworkSpec, Space};

use super::*;
use crate::act::{MappingError, WorkerPolicy};
use crate::env::EnvContext;

fn factory() -> Arc<dyn MultiAgentFactory> {
    let diary = Diary::default();
    Arc::new(move |context: &EnvContext| Script::new(context, &diary, Manner::Together))
}

fn make(policies: ByPolicy<WorkerPolicy>, mapping: PolicyMapping) -> Result<RolloutWorker, String> {
    let (links, _steps, _guard) = links();
    RolloutWorker::multi_agent(config(policies, mapping), factory(), links).map_err(|error| error.to_string())
}

fn a_and_b() -> ByPolicy<WorkerPolicy> {
    ["a", "b"].into_iter().map(|id| (PolicyId::from(id), scripted(None))).collect()
}

fn refused(made: Result<RolloutWorker, String>) -> String {
    made.err().expect("refused")
}

#[test]
fn an_agent_without_a_policy_or_with_one_that_is_not_there_is_named() {
    let error = refused(make(a_and_b(), PolicyMapping::fixed([("first", "a"), ("third", "b")])));
    assert_eq!(error, "the policy mapping has no policy for agent `second`: pair it with one");
    let error = refused(make(a_and_b(), PolicyMapping::fixed([("first", "a"), ("second", "z"), ("third", "b")])));
    assert!(
        error.contains("gives agent `second` the policy `z`, which does not exist; the policies are `a`, `b`"),
        "{error}"
    );
}

#[test]
fn a_policy_with_other_spaces_than_its_agent_is_refused() {
    let action = Space::discrete(4).unwrap();
    let observation = scripted(None).observation;
    let network = NetworkSpec::for_spaces(&observation, &action).unwrap();
    let inference = Box::new(pronk_policy::CpuNetwork::new(&network).unwrap()).into();
    let mut policies = a_and_b();
    policies.insert("wide".into(), WorkerPolicy { inference, action, ..scripted(None) });
    let mapping = PolicyMapping::fixed([("first", "a"), ("second", "wide"), ("third", "b")]);
    let error = refused(make(policies, mapping));
    assert!(error.contains("agent `second` is to play policy `wide`, but its observations are Box("), "{error}");
    assert!(error.contains("its actions Discrete(2)") && error.contains("and Discrete(4)"), "{error}");
}

#[test]
fn networks_and_weights_that_do_not_fit_are_refused_by_the_name_of_their_policy() {
    let wide = Space::discrete(4).unwrap();
    let policies = ByPolicy::from([("a".into(), WorkerPolicy { action: wide, ..scripted(None) })]);
    let error = refused(make(policies, PolicyMapping::shared("a")));
    assert!(error.starts_with("policy `a`: the network does not fit its spaces: it takes "), "{error}");
    assert!(error.contains("returns 2 logits") && error.contains("Discrete(4) need 4"), "{error}");

    let mut policies = a_and_b();
    let other = pronk_policy::ParamLayout::new([("v", vec![1])]);
    let frozen = Some(Arc::new(Params::zeros(Arc::new(other))));
    policies.insert("c".into(), WorkerPolicy { frozen, ..scripted(None) });
    let error = refused(make(policies, PolicyMapping::shared("a")));
    assert!(error.starts_with("policy `c`: "), "{error}");

    let mut policies = a_and_b();
    policies.insert("c".into(), scripted(Some(f32::NAN)));
    assert!(refused(make(policies, PolicyMapping::shared("a"))).starts_with("policy `c`: "));
}

#[test]
fn with_frozen_policies_only_there_would_be_no_fragment() {
    let policies = ByPolicy::from([("a".into(), scripted(Some(0.0)))]);
    let error = refused(make(policies, PolicyMapping::shared("a")));
    assert!(error.contains("all 1 policies are frozen, so no fragment would ever be made"), "{error}");
}

#[test]
fn a_mapping_that_goes_wrong_in_a_later_episode_ends_the_worker_by_name() {
    let (links, steps, _guard) = links();
    let first_episodes = std::sync::Mutex::new(std::collections::BTreeSet::new());
    let mapping = PolicyMapping::new(move |_, seed| {
        let mut seen = first_episodes.lock().unwrap();
        if seen.len() < 3 {
            seen.insert(seed);
        }
        if seen.contains(&seed) { "a".into() } else { "z".into() }
    });
    let mut worker = RolloutWorker::multi_agent(config(a_and_b(), mapping), factory(), links).unwrap();
    let error = loop {
        match worker.sample(&weights(0, &["a", "b"], 0.0), &mut clock()) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let SampleError::Policy(fault) = &error else { panic!("{error}") };
    let crate::act::PolicyFault::Mapping(MappingError::UnknownPolicy { agent, policy, .. }) = fault else {
        panic!("{fault}")
    };
    assert_eq!((agent.as_str(), &**policy), ("first", "z"));
    let totals = steps.snapshot();
    assert!(totals.lost["policy_error"].env > 0 && totals.is_closed(), "{totals:?}");
}

#[test]
fn a_policy_that_nobody_plays_is_named_before_long_and_its_steps_are_counted() {
    let policies = [("a", None), ("c", Some(0.0))];
    let policies = policies.into_iter().map(|(id, frozen)| (id.into(), scripted(frozen))).collect();
    let (links, steps, _guard) = links();
    let mut worker =
        RolloutWorker::multi_agent(config(policies, PolicyMapping::shared("c")), factory(), links).unwrap();
    let error = worker.sample(&weights(0, &["a"], 0.0), &mut clock()).map(drop).unwrap_err();
    let SampleError::Policy(fault) = &error else { panic!("{error}") };
    assert!(fault.to_string().contains("no agent acted under the trained policies [\"a\"]"), "{fault}");
    let totals = steps.snapshot();
    assert!(totals.is_closed() && totals.in_flight.env == 0, "{totals:?}");
    // 1000 fragments' lengths of 5 steps in 3 environments.
    assert_eq!(totals.lost["policy_error"].env, 15_000);
    assert!(totals.dropped["not_trained"].agent > 0);
}

/// Pays before anything was done.
struct Generous;

impl MultiAgentEnv for Generous {
    fn spec(&self) -> MultiAgentSpec {
        let diary = Diary::default();
        Script::new(&EnvContext::default(), &diary, Manner::Together).spec()
    }

    fn reset(&mut self, _: u64, agents: &mut crate::env::Agents) -> Result<(), EnvError> {
        agents.reward(0, 5.0)
    }

    fn step(&mut self, _: &mut crate::env::Agents) -> Result<(), EnvError> {
        Ok(())
    }
}

#[test]
fn a_reward_before_the_first_step_is_refused() {
    let (links, _steps, _guard) = links();
    let policies = [(PolicyId::from("a"), scripted(None))].into();
    let make = Arc::new(|_: &EnvContext| Generous);
    let mut worker = RolloutWorker::multi_agent(config(policies, PolicyMapping::shared("a")), make, links).unwrap();
    let error = worker.sample(&weights(0, &["a"], 0.0), &mut clock()).map(drop).unwrap_err();
    assert!(error.to_string().contains("rewarded in a reset"), "{error}");
}
