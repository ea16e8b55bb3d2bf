#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

#[test]
fn values_lie_on_the_lines_and_stay_at_the_ends() {
    let schedule = Schedule::piecewise_linear([(10.0, 1.0), (20.0, 0.5), (40.0, 2.5)]).unwrap();
    for (env_steps, value) in
        [(0.0, 1.0), (10.0, 1.0), (15.0, 0.75), (20.0, 0.5), (30.0, 1.5), (40.0, 2.5), (1e18, 2.5)]
    {
        assert_eq!(schedule.value(env_steps), value, "at {env_steps}");
    }
}

#[test]
fn an_outside_value_holds_before_the_first_point_and_from_the_last_one_on() {
    let schedule = Schedule::piecewise_linear_with_outside_value([(10.0, 1.0), (20.0, 0.5)], 7.0).unwrap();
    for (env_steps, value) in [(9.0, 7.0), (10.0, 1.0), (15.0, 0.75), (20.0, 7.0)] {
        assert_eq!(schedule.value(env_steps), value, "at {env_steps}");
    }
}

#[test]
fn two_points_at_one_step_make_a_jump() {
    let schedule = Schedule::piecewise_linear([(0.0, 1.0), (10.0, 1.0), (10.0, 0.1), (20.0, 0.1)]).unwrap();
    assert_eq!(schedule.value(9.0), 1.0);
    assert_eq!(schedule.value(10.0), 0.1);
}

#[test]
fn a_bare_number_of_steps_goes_from_the_coefficient_to_zero() {
    let schedule = Schedule::linear_to_zero(0.01, 1000.0).unwrap();
    assert_eq!((schedule.value(0.0), schedule.value(500.0), schedule.value(1000.0)), (0.01, 0.005, 0.0));
    assert!(matches!(Schedule::linear_to_zero(0.01, -5.0), Err(ScheduleError::NotSorted { .. })));
    assert_eq!(Schedule::linear_to_zero(0.01, 0.0).unwrap().value(0.0), 0.0);
}

#[test]
fn points_that_make_no_schedule_are_refused_with_the_reason() {
    assert_eq!(Schedule::piecewise_linear([]), Err(ScheduleError::Empty));
    let unsorted = Schedule::piecewise_linear([(0.0, 1.0), (5.0, 1.0), (3.0, 1.0)]).unwrap_err();
    assert_eq!(
        unsorted.to_string(),
        "point 2 of the schedule is at 3 env-steps, before the point ahead of it at 5; sort them"
    );
    let not_finite = Schedule::piecewise_linear([(0.0, f64::NAN)]).unwrap_err();
    assert!(matches!(not_finite, ScheduleError::NotFinite { index: 0, .. }));
    let outside = Schedule::piecewise_linear_with_outside_value([(0.0, 1.0)], f64::INFINITY);
    assert!(matches!(outside, Err(ScheduleError::ValueNotFinite { .. })));
}

#[test]
fn the_smallest_and_largest_value_count_points_and_the_outside() {
    assert_eq!(Schedule::Constant(-1.0).min_value(), -1.0);
    assert_eq!(Schedule::piecewise_linear([(0.0, 3.0), (1.0, 2.0)]).unwrap().min_value(), 2.0);
    let outside = Schedule::piecewise_linear_with_outside_value([(0.0, 3.0)], 1.0).unwrap();
    assert_eq!((outside.min_value(), outside.max_value()), (1.0, 3.0));
}

#[test]
fn a_file_has_a_number_or_points_and_wrong_ones_are_refused() {
    let read = |text: &str| serde_json::from_str::<Schedule>(text);
    assert_eq!(read("0.5").unwrap(), Schedule::Constant(0.5));
    assert_eq!(read("1").unwrap(), Schedule::Constant(1.0));
    let points = read("[[0, 1], [10, 0.5]]").unwrap();
    assert_eq!(points, Schedule::piecewise_linear([(0.0, 1.0), (10.0, 0.5)]).unwrap());
    assert!(read("[[10, 1], [0, 0.5]]").unwrap_err().to_string().contains("sort them"));
    assert!(read("[]").unwrap_err().to_string().contains("at least one"));

    let outside = Schedule::piecewise_linear_with_outside_value([(0.0, 1.0), (10.0, 0.5)], 2.0).unwrap();
    for schedule in [Schedule::Constant(0.25), points, outside] {
        assert_eq!(read(&serde_json::to_string(&schedule).unwrap()).unwrap(), schedule);
    }
}
