use super::*;
use crate::Gaussian;

#[test]
fn weights_that_are_not_finite_are_refused_before_anyone_acts_with_them() {
    let (observation, action) = (Space::discrete(4).unwrap(), Space::discrete(2).unwrap());
    let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
    let mut params = spec.init_params(0).unwrap();
    assert!(Policy::new(spec.clone(), params.clone(), &action).is_ok());
    params.values_mut()[0] = f32::NEG_INFINITY;
    let error = Policy::new(spec, params, &action).map(drop).unwrap_err();
    assert!(matches!(error, PolicyError::NonFiniteParams { index: 0, .. }), "{error}");
}

#[test]
fn a_masked_policy_chooses_the_best_of_what_is_possible_and_names_the_row_without_a_way() {
    let (observation, action) = (Space::discrete(2).unwrap(), Space::discrete(3).unwrap());
    let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
    let params = spec.init_params(5).unwrap();
    let mut policy = Policy::new(spec, params, &action).unwrap();
    let obs = [1.0, 0.0, 0.0, 1.0];
    let mut act = |possible: &[bool], choice: &mut ActionSelection| {
        let mut actions = [u32::MAX; 2];
        let obs = ObsRef::F32(&obs);
        policy.act_masked(obs, 2, possible, choice, ActionsMut::Discrete(&mut actions)).map(|()| actions)
    };
    let best = act(&[true; 6], &mut ActionSelection::Mode).unwrap();
    let mut possible = [true; 6];
    possible[best[0] as usize] = false;
    let second = act(&possible, &mut ActionSelection::Mode).unwrap();
    assert!(second[0] != best[0] && second[1] == best[1], "{best:?}, then {second:?}");

    let one_way = [false, true, false, false, false, true];
    let mut sample = ActionSelection::Sample(Rng::seed_from(0));
    assert!((0..100).all(|_| act(&one_way, &mut sample).unwrap() == [1, 2]));
    for choice in [&mut ActionSelection::Mode, &mut sample] {
        let error = act(&[true, true, true, false, false, false], choice).unwrap_err();
        assert!(matches!(error, PolicyError::NothingToChoose { row: 1, .. }), "{error}");
        let error = act(&[true; 5], choice).unwrap_err();
        assert!(matches!(error, PolicyError::Length { what: "mask", expected: 6, got: 5 }), "{error}");
    }
}

#[test]
fn a_normalized_policy_does_with_raw_observations_what_the_bare_one_does_with_scaled_ones() {
    let observation = Space::boxed(vec![-1e3; 2], vec![1e3; 2], vec![2]).unwrap();
    let action = Space::discrete(3).unwrap();
    let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
    let bare = || Policy::new(spec.clone(), spec.init_params(5).unwrap(), &action).unwrap();
    let values = |mut policy: Policy, obs: [f32; 4]| {
        let mut actions = [0; 2];
        policy.act(ObsRef::F32(&obs), 2, &mut ActionSelection::Mode, ActionsMut::Discrete(&mut actions)).unwrap();
        policy.values().to_vec()
    };
    let normalizer = ObsNormalizer { mean: vec![100.0, -4.0], std: vec![50.0, 2.0], clip: 10.0 };
    let normalized = bare().with_normalizer(normalizer.clone()).unwrap();
    assert_eq!(values(normalized, [150.0, 0.0, 0.0, 900.0]), values(bare(), [1.0, 2.0, -2.0, 10.0]));

    let short = ObsNormalizer { mean: vec![0.0], ..normalizer.clone() };
    assert!(matches!(bare().with_normalizer(short).map(drop), Err(PolicyError::Length { what: "mean", .. })));
    let images = NetworkSpec::for_spaces(&Space::bytes(vec![2]).unwrap(), &action).unwrap();
    let of_bytes = Policy::new(images.clone(), images.init_params(5).unwrap(), &action).unwrap();
    let error = of_bytes.with_normalizer(normalizer).map(drop).unwrap_err();
    assert!(error.to_string().contains("bytes, which are not normalised"), "{error}");
}

#[test]
fn memory_goes_on_from_call_to_call_until_a_row_is_forgotten() {
    let (observation, action) = (Space::discrete(2).unwrap(), Space::discrete(3).unwrap());
    let spec = NetworkSpec { lstm: Some(4), ..NetworkSpec::for_spaces(&observation, &action).unwrap() };
    let params = spec.init_params(5).unwrap();
    let mut policy = Policy::new(spec, params, &action).unwrap();
    let values = |policy: &mut Policy, obs: &[f32]| {
        let (rows, mut actions) = (obs.len() / 2, vec![0; obs.len() / 2]);
        policy.act(ObsRef::F32(obs), rows, &mut ActionSelection::Mode, ActionsMut::Discrete(&mut actions)).unwrap();
        policy.values().to_vec()
    };
    let both = [1.0, 0.0, 1.0, 0.0];
    let first = values(&mut policy, &both);
    let second = values(&mut policy, &both);
    assert!(first[0] == first[1] && first[0] != second[0], "{first:?}, then {second:?}");
    policy.forget(1);
    let third = values(&mut policy, &both);
    assert!(third[1] == first[1] && third[0] != first[0], "{third:?}");
    policy.forget_all();
    assert_eq!(values(&mut policy, &both), first);
    // Another number of rows is another set of episodes.
    assert_eq!(values(&mut policy, &both[..2]), first[..1]);
}

#[test]
fn rows_with_a_state_of_the_callers_go_on_from_it_whichever_act_together() {
    let (observation, action) = (Space::discrete(2).unwrap(), Space::discrete(3).unwrap());
    let spec = NetworkSpec { lstm: Some(4), ..NetworkSpec::for_spaces(&observation, &action).unwrap() };
    let params = spec.init_params(5).unwrap();
    let mut policy = Policy::new(spec, params, &action).unwrap();
    let state_len = policy.shape().state_len;
    let mut act = |state: &mut [f32], obs: &[f32]| {
        let (rows, mut actions) = (obs.len() / 2, vec![0; obs.len() / 2]);
        let (obs, mode) = ((ObsRef::F32(obs), rows), &mut ActionSelection::Mode);
        policy.act_from(state, obs, None, mode, ActionsMut::Discrete(&mut actions)).map(|()| policy.values().to_vec())
    };
    let (one, other) = ([1.0, 0.0], [0.0, 1.0]);
    let mut alone = vec![0.0; state_len];
    let first = act(&mut alone, &one).unwrap();
    let second = act(&mut alone, &other).unwrap();
    let third = act(&mut alone, &one).unwrap();
    assert_ne!(first, third);

    // The same row, and others that begin and pause beside it.
    let mut both = vec![0.0; 2 * state_len];
    assert_eq!(act(&mut both, &[one, one].concat()).unwrap(), [first[0], first[0]]);
    assert_eq!(act(&mut both[state_len..], &other).unwrap(), second);
    let mut three = [&both[state_len..], &vec![0.0; state_len], &both[..state_len]].concat();
    assert_eq!(act(&mut three, &[one, one, other].concat()).unwrap(), [third[0], first[0], second[0]]);
    assert_eq!(three[..state_len], alone);

    let error = act(&mut three, &one).unwrap_err();
    assert!(matches!(error, PolicyError::Length { what: "state", .. }), "{error}");
}

#[test]
fn weights_of_another_network_and_actions_that_it_does_not_describe_are_refused() {
    let (observation, action) = (Space::discrete(4).unwrap(), Space::discrete(2).unwrap());
    let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
    let params = spec.init_params(0).unwrap();
    let act = |params: Params, action: &Space| {
        let network = Box::new(CpuNetwork::new(&spec).unwrap());
        Policy::with_network(network, params, action).map(drop)
    };
    assert!(act(params.clone(), &action).is_ok());
    let three = Space::discrete(3).unwrap();
    assert!(matches!(act(params, &three), Err(PolicyError::BadSpec { .. })));
    let other = NetworkSpec::for_spaces(&observation, &three).unwrap().init_params(0).unwrap();
    assert!(matches!(act(other, &action), Err(PolicyError::WrongParams { .. })));
}

#[test]
fn numbers_come_out_in_the_bounds_of_the_environment() {
    let observation = Space::discrete(4).unwrap();
    let action = Space::boxed(vec![10.0, 0.0], vec![12.0, f32::INFINITY], vec![2]).unwrap();
    let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
    let policy = || Policy::new(spec.clone(), spec.init_params(3).unwrap(), &action).unwrap();
    let rows = 64;
    let obs: Vec<f32> = [1.0, 0.0, 0.0, 0.0].repeat(rows);
    for gaussian in [Gaussian::Diagonal, Gaussian::Squashed] {
        let mut policy = policy().with_gaussian(gaussian).unwrap();
        for mut choice in [ActionSelection::Mode, ActionSelection::Sample(Rng::seed_from(1))] {
            let mut numbers = vec![f32::NAN; rows * 2];
            policy.act(ObsRef::F32(&obs), rows, &mut choice, ActionsMut::Continuous(&mut numbers)).unwrap();
            assert!(numbers.chunks_exact(2).all(|action_now| action.contains_continuous(action_now)), "{numbers:?}");
            // The middle of the bounds is where the first policy, nearly zero everywhere, has its means.
            let mean = numbers.iter().step_by(2).sum::<f32>() / rows as f32;
            assert!((mean - 11.0).abs() < 0.3, "{gaussian:?} {choice:?}: {mean}");
        }
    }
    let sampled = |gaussian| {
        let mut numbers = [0.0; 2];
        let mut choice = ActionSelection::Sample(Rng::seed_from(1));
        let mut policy = policy().with_gaussian(gaussian).unwrap();
        policy.act(ObsRef::F32(&obs[..4]), 1, &mut choice, ActionsMut::Continuous(&mut numbers)).unwrap();
        numbers
    };
    assert_ne!(sampled(Gaussian::Diagonal), sampled(Gaussian::Squashed));
}

#[test]
fn several_choices_are_made_at_once() {
    let (observation, action) = (Space::discrete(4).unwrap(), Space::multi_discrete(vec![3, 2]).unwrap());
    let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
    let mut policy = Policy::new(spec.clone(), spec.init_params(3).unwrap(), &action).unwrap();
    let mut choices = [9; 4];
    let obs = ObsRef::F32(&[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    policy.act(obs, 2, &mut ActionSelection::Sample(Rng::seed_from(0)), ActionsMut::Discrete(&mut choices)).unwrap();
    assert!(choices.chunks_exact(2).all(|choice| action.contains_discrete(choice)), "{choices:?}");
}
