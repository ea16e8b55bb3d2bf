#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{ActionsMut, ActionsRef, distribution_for};
use crate::{PolicyError, Space};

#[test]
fn a_discrete_space_has_a_distribution_of_its_size() {
    let distribution = distribution_for(&Space::discrete(4).unwrap()).unwrap();
    assert_eq!((distribution.dist_len(), distribution.act_len()), (4, 1));
}

#[test]
fn an_unsupported_space_is_named() {
    let message = |space: &Space| distribution_for(space).err().map(|error| error.to_string()).unwrap();
    let multi = message(&Space::multi_discrete(vec![2, 3]).unwrap());
    assert_eq!(multi, "no action distribution for MultiDiscrete([2, 3]) yet: only Discrete actions are supported");
    assert!(message(&Space::boxed(vec![-1.0], vec![1.0], vec![1]).unwrap()).contains("Box(-1..=1, [1], f32)"));
    assert!(message(&Space::Discrete { n: 0 }).contains("at least one thing"));
}

#[test]
fn actions_of_the_wrong_type_are_refused() {
    assert!(ActionsRef::Discrete(&[1]).discrete().is_ok() && ActionsMut::Continuous(&mut [1.0]).continuous().is_ok());
    let errors = [
        ActionsRef::Continuous(&[1.0]).discrete().err(),
        ActionsMut::Continuous(&mut [1.0]).discrete().err(),
        ActionsRef::Discrete(&[1]).continuous().err(),
        ActionsMut::Discrete(&mut [1]).continuous().err(),
    ];
    assert!(errors.iter().all(|error| matches!(error, Some(PolicyError::Kind { what: "actions", .. }))));
}
