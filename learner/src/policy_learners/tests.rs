#![allow(clippy::unwrap_used)]

use pronk_buffer::{MultiAgentBatch, SampleBatch};
use pronk_metrics::PolicyId;

use super::*;
use crate::ActorCriticConfig;
use crate::actor_critic::tests::{parts, random_sample};

fn learner(policy: &str) -> ActorCriticLearner {
    let config = ActorCriticConfig { policy: policy.into(), ..ActorCriticConfig::default() };
    ActorCriticLearner::new(parts(0), config).unwrap()
}

fn batch(policies: &[(&str, u64)]) -> MultiAgentBatch {
    let samples: ByPolicy<SampleBatch> =
        policies.iter().map(|&(policy, seed)| (policy.into(), random_sample(seed))).collect();
    MultiAgentBatch::new(samples, 8).unwrap()
}

fn weights(learner: &PolicyLearners, policy: &str) -> Vec<f32> {
    learner.weights()[policy].values().to_vec()
}

#[test]
fn each_policy_learns_from_its_own_samples_as_if_it_were_alone() {
    let mut both = PolicyLearners::new([learner("cat"), learner("mouse")]).unwrap();
    let (mut cat, mut mouse) = (learner("cat"), learner("mouse"));
    let learned = both.learn((&batch(&[("cat", 1), ("mouse", 2)])).into()).unwrap();
    cat.learn((&batch(&[("cat", 1)])).into()).unwrap();
    let alone = mouse.learn((&batch(&[("mouse", 2)])).into()).unwrap();
    assert_eq!(
        (weights(&both, "cat"), weights(&both, "mouse")),
        (cat.params().values().to_vec(), mouse.params().values().to_vec())
    );
    assert_ne!(weights(&both, "cat"), weights(&both, "mouse"));
    assert_eq!(learned.info.get("mouse"), alone.info.get("mouse"));
    assert_eq!(learned.updates, 1);

    // One that did not act stays as it is.
    let before = weights(&both, "cat");
    both.learn((&batch(&[("mouse", 3)])).into()).unwrap();
    assert_eq!(weights(&both, "cat"), before);
    assert_eq!((both.save(ByPolicy::new())["cat"].updates, both.save(ByPolicy::new())["mouse"].updates), (1, 2));
}

#[test]
fn what_it_does_not_train_is_refused_by_name() {
    let mut both = PolicyLearners::new([learner("cat"), learner("mouse")]).unwrap();
    let error = both.learn((&batch(&[("cat", 1), ("dog", 1)])).into()).unwrap_err().to_string();
    assert!(error.contains("dog") && error.contains("mouse"), "{error}");
    assert!(both.learn((&MultiAgentBatch::default()).into()).is_err());
    let state = ByPolicy::from([(PolicyId::from("dog"), learner("dog").state())]);
    assert!(both.load(state).unwrap_err().to_string().contains("dog"));
    assert!(PolicyLearners::new([]).is_err());
    let twice = PolicyLearners::new([learner("cat"), learner("cat")]).map(drop).unwrap_err().to_string();
    assert!(twice.contains("two learners train the policy 'cat'"), "{twice}");
}

#[test]
fn what_is_not_finite_says_whose_it_is() {
    let mut both = PolicyLearners::new([learner("cat"), learner("mouse")]).unwrap();
    let mut batch = batch(&[("cat", 1), ("mouse", 2)]);
    let (_, mouse) = batch.policies_mut().nth(1).unwrap();
    mouse.rewards_mut()[0] = f32::NAN;
    let error = both.learn((&batch).into()).unwrap_err();
    assert!(error.is_non_finite() && error.to_string().starts_with("policy 'mouse': "), "{error}");
    assert_eq!(error.updates(), 1, "the cat's");
    assert_eq!(both.save(ByPolicy::new())["mouse"].updates, 0);
}

#[test]
fn all_go_on_from_what_was_saved() {
    let mut both = PolicyLearners::new([learner("cat"), learner("mouse")]).unwrap();
    let next = batch(&[("cat", 5), ("mouse", 6)]);
    both.learn((&batch(&[("cat", 1), ("mouse", 2)])).into()).unwrap();
    both.advance(8);
    let mut resumed = PolicyLearners::new([learner("cat"), learner("mouse")]).unwrap();
    resumed.load(both.save(ByPolicy::new())).unwrap();
    assert_eq!(resumed.save(ByPolicy::new())["cat"].global_step, 8);
    both.learn((&next).into()).unwrap();
    resumed.learn((&next).into()).unwrap();
    for policy in ["cat", "mouse"] {
        assert_eq!(weights(&both, policy), weights(&resumed, policy));
    }
}
