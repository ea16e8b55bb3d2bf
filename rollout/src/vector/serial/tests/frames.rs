use super::*;

/// The pixel of a frame of a counter.
fn pixel(frame: Option<Frame>) -> Option<[u8; 3]> {
    frame.map(|frame| frame.rgb().try_into().unwrap())
}

#[test]
fn a_frame_shows_the_environment_that_was_asked_for() {
    let mut played = Played::reset(vec![Counter::of_three(), Counter::of_three()]).unwrap();
    assert_eq!(pixel(played.envs.render(1).unwrap()), Some([1, 0, 1]));
    played.step().unwrap();
    assert_eq!(pixel(played.envs.render(1).unwrap()), Some([1, 1, 2]));
    assert_eq!(pixel(played.envs.render(0).unwrap()), Some([1, 1, 1]));
}

#[test]
fn the_last_state_of_an_episode_is_drawn_before_the_next_begins() {
    let counters = [3, 9].map(|len| Counter::new(&[(len, End::Terminated)]).with_limit(4));
    let mut played = Played::reset(counters.to_vec()).unwrap();
    played.envs.keep_last_frames(1);
    for _ in 0..3 {
        played.step().unwrap();
        assert_eq!(pixel(played.envs.take_last_frame()), None, "only the other one has ended");
    }
    played.step().unwrap();
    // The time limit has ended it, and it was drawn for the first time.
    assert_eq!(pixel(played.envs.take_last_frame()), Some([1, 4, 1]));
    assert_eq!(pixel(played.envs.take_last_frame()), None, "it is handed out once");
    assert_eq!(pixel(played.envs.render(1).unwrap()), Some([2, 0, 2]));
    assert_eq!(pixel(played.envs.render(0).unwrap()), Some([2, 1, 1]), "which was not drawn before");
}

#[test]
fn without_a_video_nothing_is_drawn() {
    let mut played = Played::reset(vec![Counter::of_three()]).unwrap();
    for _ in 0..10 {
        played.step().unwrap();
    }
    assert_eq!(pixel(played.envs.take_last_frame()), None);
    assert_eq!(pixel(played.envs.render(0).unwrap()), Some([4, 1, 1]), "the first drawing");
}

#[test]
fn a_failing_drawing_is_named_with_its_environment_seed_and_step() {
    for (fault, words) in
        [(Fault::RenderErr, "planted drawing error"), (Fault::RenderPanic, "it panicked: planted drawing panic")]
    {
        let counters = vec![Counter::of_three(), Counter::of_three().with_fault(fault), Counter::of_three()];
        let mut played = Played::reset(counters).unwrap();
        played.step().unwrap();
        let failure = played.envs.render(1).unwrap_err();
        let FailurePlace::Render { episode_seed, step: 1 } = failure.place else { panic!("{failure}") };
        let expected = format!(
            "environment 1 of rollout-3 (Counter, incarnation 1) failed in render after step 1 of the episode with seed \
             {episode_seed}: {words} (to replay: reset with seed {episode_seed}, then the 1 steps)"
        );
        assert_eq!(failure.to_string(), expected);

        played.envs.keep_last_frames(1);
        played.step().unwrap();
        let failure = played.step().unwrap_err();
        assert!(matches!(failure.place, FailurePlace::Render { step: 3, .. }), "{failure}");
        assert_eq!(failure.steps_made, 2, "its own step was made too");
    }
}
