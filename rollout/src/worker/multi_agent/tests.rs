#![allow(clippy::unwrap_used, clippy::expect_used)]

mod acting;
mod columns;
mod failures;
mod mapping;
mod oracle;
mod position;

use std::num::NonZeroUsize;

use pronk_buffer::{Pool, ShutdownGuard, shutdown};
use pronk_metrics::{StepLedger, default_policy};
use pronk_policy::GaussianConfig;

use super::*;
use crate::act::{PolicyMapping, WorkerPolicy};
use crate::env::MultiAgentEnv;
use crate::testing::script::{Diary, Manner, Script};
use crate::testing::{OneWeight, params};

fn clock() -> StateClock<WorkerState> {
    StateClock::new("rollout-1", WorkerState::Starting)
}

/// A policy in the spaces of a [`Script`], with [`OneWeight`].
fn scripted(frozen: Option<f32>) -> WorkerPolicy {
    let spec = Script::new(&crate::env::EnvContext::default(), &Diary::default(), Manner::Together).spec();
    WorkerPolicy {
        inference: Box::new(OneWeight::new()).into(),
        observation: spec.agents[0].observation.clone(),
        action: spec.agents[0].action.clone(),
        gaussian: GaussianConfig::default(),
        frozen: frozen.map(|w| Arc::new(params(w))),
    }
}

/// `T` = 5 steps of `B` = 3 environments.
fn config(policies: ByPolicy<WorkerPolicy>, mapping: PolicyMapping) -> MultiAgentWorkerConfig {
    let n = |n| NonZeroUsize::new(n).unwrap();
    let (num_envs_per_worker, rollout_fragment_length) = (n(3), n(5));
    MultiAgentWorkerConfig {
        worker: 1,
        incarnation: 0,
        seed: 0,
        num_envs_per_worker,
        rollout_fragment_length,
        policies,
        mapping,
    }
}

fn links() -> (WorkerLinks, StepLedger, ShutdownGuard) {
    let (shutdown, token) = shutdown();
    let steps = StepLedger::new();
    (WorkerLinks::new(Pool::new(4), steps.clone(), token), steps, shutdown)
}

/// One weight for each of the policies.
fn weights(version: u64, policies: &[&str], w: f32) -> Versioned<ByPolicy<Params>> {
    Versioned::new(version, policies.iter().map(|policy| ((*policy).into(), params(w))).collect())
}

/// Policies `a` and `b` are trained, `c` is frozen; which agent plays which is another in every episode.
fn three_policies() -> (ByPolicy<WorkerPolicy>, PolicyMapping) {
    let policies = [("a", None), ("b", None), ("c", Some(0.0))];
    let policies = policies.into_iter().map(|(id, frozen)| (id.into(), scripted(frozen))).collect();
    (policies, PolicyMapping::new(policy_in_turns))
}

fn policy_in_turns(agent: &str, seed: u64) -> pronk_metrics::PolicyId {
    ["a", "b", "c"][(agent.len() as u64 + seed) as usize % 3].into()
}

#[test]
fn the_policy_of_a_single_agent_may_be_the_default_one() {
    let policies = ByPolicy::from([(default_policy(), scripted(None))]);
    let diary = Diary::default();
    let (links, _steps, _guard) = links();
    let factory = move |context: &crate::env::EnvContext| Script::new(context, &diary, Manner::Together);
    let config = config(policies, PolicyMapping::shared(default_policy()));
    let mut worker = RolloutWorker::multi_agent(config, Arc::new(factory), links).unwrap();
    let mut moments = 0;
    let weights = crate::testing::weights(3, 0.0);
    let fragment = worker.sample_and(&weights, &mut clock(), &mut |_| moments += 1).unwrap();
    assert_eq!(moments, 5, "one for other work before every step");
    assert!(fragment.versions().all(|version| version == 3));
}
