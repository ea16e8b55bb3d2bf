#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use super::{ParamLayout, Params};

fn layout() -> Arc<ParamLayout> {
    Arc::new(ParamLayout::new([("a", vec![2, 3]), ("b", vec![3]), ("c", vec![])]))
}

#[test]
fn tensors_lie_one_after_the_other() {
    let layout = layout();
    let ranges: Vec<_> = layout.entries().iter().map(|entry| entry.range()).collect();
    assert_eq!(ranges, [0..6, 6..9, 9..10]);
    assert_eq!((layout.len(), layout.is_empty(), ParamLayout::default().is_empty()), (10, false, true));
    let params = Params::new(layout, (0..10).map(|i| i as f32).collect()).unwrap();
    assert_eq!(params.get("b"), Some([6.0, 7.0, 8.0].as_slice()));
    assert_eq!(params.get("d"), None);
}

#[test]
fn names_that_a_file_could_not_keep_apart_are_refused() {
    assert!(layout().check_names().is_ok());
    for (names, words) in [(["a", "a"], "two parameters have the name `a`"), (["a", "__metadata__"], "rename it")] {
        let error = ParamLayout::new(names.map(|name| (name, vec![1]))).check_names().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_first_difference_of_two_layouts_is_named() {
    let (layout, shorter) = (layout(), ParamLayout::new([("a", vec![2, 3])]));
    assert!(layout.check_same(&ParamLayout::clone(&layout)).is_ok());
    let error = layout.check_same(&shorter).unwrap_err().to_string();
    assert!(error.contains("expected 3 tensors, got 1"), "{error}");
    let error = shorter.check_same(&ParamLayout::new([("a", vec![3, 2])])).unwrap_err().to_string();
    assert!(error.contains("`a` of shape [2, 3], got `a` of shape [3, 2]"), "{error}");
}

#[test]
fn as_many_values_as_the_layout_holds_are_needed() {
    let error = Params::new(layout(), vec![0.0; 9]).unwrap_err();
    assert_eq!(error.to_string(), "parameters: expected 10 numbers, got 9");
}

#[test]
fn equal_stamps_mean_equal_values() {
    let mut params = Params::zeros(layout());
    let first = params.stamp();
    assert_eq!(params.clone().stamp(), first, "a clone keeps it");
    assert_ne!(Params::zeros(layout()).stamp(), first, "another vector has another, whatever its values");

    params.values_mut()[0] = 1.0;
    let second = params.stamp();
    assert_ne!(second, first, "a change renews it");
    params.values_mut();
    assert_ne!(params.stamp(), second, "the chance of a change does too");

    let mut recycled = Params::zeros(Arc::new(ParamLayout::new([("other", vec![7])])));
    recycled.copy_from(&params);
    assert_eq!((recycled.stamp(), recycled.values()), (params.stamp(), params.values()));
    assert_eq!(recycled.layout(), params.layout());
}

#[test]
fn a_copy_into_old_memory_allocates_nothing() {
    let (mut recycled, params) = (Params::zeros(layout()), Params::zeros(layout()));
    let memory = recycled.values().as_ptr();
    recycled.copy_from(&params);
    assert_eq!(recycled.values().as_ptr(), memory);
}

#[test]
fn the_first_value_that_is_not_finite_is_named() {
    let mut params = Params::zeros(layout());
    assert!(params.check_finite().is_ok());
    params.values_mut()[7] = f32::NAN;
    params.values_mut()[9] = f32::INFINITY;
    let error = params.check_finite().unwrap_err();
    assert_eq!(error.to_string(), "parameters that are not finite: `b` holds NaN at element 1");
}
