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
