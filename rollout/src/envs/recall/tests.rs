#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::check::check_env;

/// Observations and the return of an episode in which the same action is taken in every step.
fn play(delay: u32, seed: u64, action: u32) -> (Vec<[f32; 3]>, f32) {
    let mut env = Recall::new(delay);
    let (mut row, mut sum) = ([f32::NAN; 3], 0.0);
    env.reset(seed, ObsMut::F32(&mut row)).unwrap();
    let mut seen = vec![row];
    loop {
        let step = env.step(ActionRef::Discrete(&[action]), ObsMut::F32(&mut row)).unwrap();
        sum += step.reward;
        if step.end == End::Terminated {
            return (seen, sum);
        }
        seen.push(row);
    }
}

#[test]
fn recall_keeps_the_rules_of_an_environment() {
    check_env(Recall::new(3), 1).unwrap();
}

#[test]
fn the_cue_is_seen_once_and_the_question_after_the_delay() {
    for delay in [0, 1, 5] {
        let (seen, _) = play(delay, 4, 0);
        assert_eq!(seen.len() as u32, delay + 2);
        assert!(seen[0] == [1.0, 0.0, 0.0] || seen[0] == [0.0, 1.0, 0.0]);
        let (question, blank) = seen[1..].split_last().unwrap();
        assert_eq!(*question, [0.0, 0.0, 1.0]);
        assert!(blank.iter().all(|row| *row == [0.0; 3]));
    }
}

#[test]
fn only_the_cue_is_the_right_answer_and_cues_are_even() {
    let mut ones = 0;
    for seed in 0..400 {
        let (seen, zero) = play(2, seed, 0);
        let cue_is_one = seen[0][1] == 1.0;
        ones += u32::from(cue_is_one);
        assert_eq!((zero, play(2, seed, 1).1), if cue_is_one { (-1.0, 1.0) } else { (1.0, -1.0) });
    }
    // Four standard deviations of 400 fair coins.
    assert!((160..=240).contains(&ones), "{ones}");
}
