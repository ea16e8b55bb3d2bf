use super::*;

const STEP_7: FailurePlace = FailurePlace::Step { episode_seed: 5, step: 7 };

#[test]
fn a_call_is_known_while_it_lasts() {
    let monitor = CallMonitor::new();
    monitor.at(2, STEP_7);
    let inside = monitor.enter(3);
    let call = monitor.call().expect("the worker is inside");
    assert_eq!((call.index, call.place, call.incarnation), (2, STEP_7, 3));
    drop(inside);
    assert_eq!(monitor.call(), None);
    let _inside = monitor.enter(3);
    assert_ne!(monitor.call(), Some(call), "the same place is another call the next time");
}

#[test]
fn whoever_takes_over_gets_the_steps_that_were_not_booked_and_the_last_observation() {
    let monitor = CallMonitor::keeping_observations();
    monitor.set_unbooked(Steps { env: 8, agent: 8 }, 3);
    monitor.keep_observations(ObsView::F32(&[1.0, 2.0, 3.0, 4.0]), 2);
    monitor.at(1, STEP_7);
    let inside = monitor.enter(0);
    let taken = monitor.take_over(&monitor.call().unwrap()).expect("nobody was faster");
    assert_eq!((taken.steps.env, taken.untrained, taken.last_obs), (8, 3, Some(ObsColumn::F32(vec![3.0, 4.0]))));
    drop(inside);
    assert!(monitor.is_taken_over());
    assert_eq!(monitor.book(|| panic!("the steps are booked by whoever took over")), None::<()>);
}

#[test]
fn a_call_that_came_back_cannot_be_taken_over() {
    let monitor = CallMonitor::new();
    let inside = monitor.enter(0);
    let call = monitor.call().unwrap();
    drop(inside);
    assert!(monitor.take_over(&call).is_none());
    assert_eq!(monitor.book(|| 5), Some(5));
    let _inside = monitor.enter(0);
    assert!(monitor.take_over(&call).is_none(), "nor one that was followed by another");
}

#[test]
fn a_call_that_is_kept_alive_begins_anew_for_who_looks_for_hangs() {
    let monitor = CallMonitor::new();
    monitor.at(2, STEP_7);
    let inside = monitor.enter(3);
    let call = monitor.call().unwrap();
    monitor.keep_alive();
    let later = monitor.call().expect("the worker is still inside");
    assert_eq!((later.index, later.place, later.incarnation), (call.index, call.place, call.incarnation));
    assert!(later != call && monitor.take_over(&call).is_none());
    drop(inside);
    monitor.keep_alive();
    assert_eq!(monitor.call(), None, "outside of its environments");
}

#[test]
fn all_threads_of_a_worker_give_up_at_the_earliest_time() {
    let monitor = CallMonitor::new();
    let other = monitor.of_another_thread();
    assert!(!monitor.has_to_give_up());
    other.give_up_at(Instant::now() + Duration::from_secs(3600));
    assert!(!monitor.has_to_give_up());
    monitor.give_up_at(Instant::now());
    other.give_up_at(Instant::now() + Duration::from_secs(3600));
    assert!(monitor.has_to_give_up() && other.has_to_give_up());
}
