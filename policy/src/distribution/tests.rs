#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::contract::{Actions, keeps_its_promises};
use super::{ActionsMut, ActionsRef, Gaussian};
use crate::{NetworkSpec, PolicyError, Rng, Space, distribution_for, distribution_with};

fn spaces() -> [Space; 4] {
    [
        Space::discrete(4).unwrap(),
        Space::multi_discrete(vec![3, 1, 5]).unwrap(),
        Space::boxed(vec![-1.0; 3], vec![f32::INFINITY; 3], vec![3]).unwrap(),
        Space::bytes(vec![2, 2]).unwrap(),
    ]
}

#[test]
fn every_distribution_keeps_the_promises_of_the_trait() {
    for space in spaces() {
        for gaussian in [Gaussian::Diagonal, Gaussian::Squashed] {
            let distribution = distribution_with(&space, gaussian).unwrap();
            for rows in [3, 40] {
                let mut rng = Rng::seed_from(rows as u64);
                let mut inputs = || (0..rows * space.dist_len()).map(|_| rng.normal() as f32).collect::<Vec<_>>();
                keeps_its_promises(&*distribution, &inputs(), &inputs());
            }
        }
    }
}

#[test]
fn every_action_space_has_a_distribution_and_a_network_of_its_size() {
    for space in spaces() {
        for gaussian in [Gaussian::Diagonal, Gaussian::Squashed] {
            let distribution = distribution_with(&space, gaussian).unwrap();
            let lens = (distribution.dist_len(), distribution.act_len());
            assert_eq!(lens, (space.dist_len(), space.act_len()), "{space}");
            let indices = matches!(Actions::blank(&*distribution, 1), Actions::Indices(_));
            assert_eq!(indices, space.has_discrete_actions());
        }
        let spec = NetworkSpec::for_spaces(&Space::discrete(2).unwrap(), &space).unwrap();
        assert_eq!(spec.dist_len, space.dist_len());
    }
}

#[test]
fn numbers_are_not_squashed_unless_asked_for() {
    let far = |gaussian: Option<Gaussian>| {
        let space = Space::boxed(vec![-1.0], vec![1.0], vec![1]).unwrap();
        let distribution = match gaussian {
            Some(gaussian) => distribution_with(&space, gaussian),
            None => distribution_for(&space),
        };
        let mut action = [0.0];
        distribution.unwrap().mode(&[7.0, 0.0], ActionsMut::Continuous(&mut action)).unwrap();
        action[0]
    };
    assert_eq!((far(None), far(Some(Gaussian::Diagonal))), (7.0, 7.0));
    assert!((0.99..1.0).contains(&far(Some(Gaussian::Squashed))));
    assert_eq!(serde_json::from_str::<Gaussian>("\"squashed\"").unwrap(), Gaussian::Squashed);
}

#[test]
fn a_space_that_contradicts_itself_has_no_distribution() {
    let message = |space: &Space| distribution_for(space).err().map(|error| error.to_string()).unwrap();
    assert!(message(&Space::Discrete { n: 0 }).contains("at least one thing"));
    assert!(message(&Space::MultiDiscrete { nvec: vec![2, 0] }).contains("choice 1"));
    let dtype = crate::ObsDtype::F32;
    assert!(message(&Space::Box { low: vec![1.0], high: vec![0.0], shape: vec![1], dtype }).contains("low bound 1"));
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
