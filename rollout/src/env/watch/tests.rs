use super::*;

const STEP_7: FailurePlace = FailurePlace::Step { episode_seed: 5, step: 7 };

#[test]
fn a_call_is_known_while_it_lasts() {
    let watch = Watch::new();
    watch.at(2, STEP_7);
    let inside = watch.enter(3);
    let call = watch.call().expect("the worker is inside");
    assert_eq!((call.index, call.place, call.incarnation), (2, STEP_7, 3));
    drop(inside);
    assert_eq!(watch.call(), None);
    let _inside = watch.enter(3);
    assert_ne!(watch.call(), Some(call), "the same place is another call the next time");
}

#[test]
fn whoever_takes_over_gets_the_steps_that_were_not_booked_and_the_last_observation() {
    let watch = Watch::keeping_observations();
    watch.made(Steps { env: 8, agent: 8 });
    watch.see(ObsView::F32(&[1.0, 2.0, 3.0, 4.0]), 2);
    watch.at(1, STEP_7);
    let inside = watch.enter(0);
    let taken = watch.take_over(&watch.call().unwrap()).expect("nobody was faster");
    assert_eq!((taken.steps.env, taken.last_obs), (8, Some(ObsColumn::F32(vec![3.0, 4.0]))));
    drop(inside);
    assert!(watch.is_taken_over());
    assert_eq!(watch.book(|| panic!("the steps are booked by whoever took over")), None::<()>);
}

#[test]
fn a_call_that_came_back_cannot_be_taken_over() {
    let watch = Watch::new();
    let inside = watch.enter(0);
    let call = watch.call().unwrap();
    drop(inside);
    assert!(watch.take_over(&call).is_none());
    assert_eq!(watch.book(|| 5), Some(5));
    let _inside = watch.enter(0);
    assert!(watch.take_over(&call).is_none(), "nor one that was followed by another");
}
