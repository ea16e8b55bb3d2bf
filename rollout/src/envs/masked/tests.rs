#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::check::check_env;

fn mask_of(env: &Masked) -> Vec<bool> {
    let mut mask = vec![true; env.possible.len()];
    env.action_mask(&mut mask).unwrap();
    mask
}

fn act(env: &mut Masked, action: usize) -> Result<Step, EnvError> {
    env.step(ActionRef::Discrete(&[action as u32]), ObsMut::F32(&mut [0.0]))
}

#[test]
fn masked_keeps_the_rules_of_an_environment() {
    for n_actions in [1, 2, 7] {
        check_env(Masked::new(n_actions, 50), 1).unwrap();
    }
}

#[test]
fn the_lowest_possible_action_is_worth_one_and_others_nothing() {
    let mut env = Masked::new(5, 200);
    env.reset(3, ObsMut::F32(&mut [0.0])).unwrap();
    let (mut lowest_first, mut earned) = (true, [0.0, 0.0]);
    for step in 1..=200 {
        let mask = mask_of(&env);
        let mut possible = (0..5).filter(|action| mask[*action]);
        let action = if lowest_first { possible.next() } else { possible.next_back() }.unwrap();
        let is_lowest = !mask[..action].contains(&true);
        let made = act(&mut env, action).unwrap();
        assert_eq!(made.reward, if is_lowest { 1.0 } else { 0.0 });
        assert_eq!(made.end, if step == 200 { End::Terminated } else { End::No });
        earned[usize::from(lowest_first)] += made.reward;
        lowest_first = !lowest_first;
    }
    assert_eq!(earned[1], 100.0);
    assert!(earned[0] < 50.0, "{earned:?}");
}

#[test]
fn an_impossible_action_is_an_error() {
    let mut env = Masked::new(4, 10);
    let mut n_impossible = 0;
    for seed in 0..10 {
        env.reset(seed, ObsMut::F32(&mut [0.0])).unwrap();
        let mask = mask_of(&env);
        for action in 0..5 {
            let made = act(&mut env.clone(), action).map_err(|error| error.to_string());
            if mask.get(action) == Some(&true) {
                assert!(made.is_ok(), "{made:?}");
            } else {
                let error = made.unwrap_err();
                assert!(error.contains(&format!("action {action} is impossible")), "{error}");
                n_impossible += 1;
            }
        }
    }
    assert!(n_impossible > 20, "{n_impossible}");
}

#[test]
fn a_mask_of_another_length_is_refused() {
    let error = Masked::new(4, 10).action_mask(&mut [true; 3]).unwrap_err();
    assert_eq!(error.to_string(), "Masked has 4 actions, the mask is for 3");
}
