#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{Input, Memory, NetworkShape, ObsRef, Outputs};
use crate::Space;

fn shape(state_len: usize) -> NetworkShape {
    NetworkShape { obs: Space::boxed(vec![0.0; 2], vec![1.0; 2], vec![2]).unwrap(), dist_len: 3, state_len }
}

#[test]
fn memory_that_does_not_fit_is_refused_with_the_reason() {
    let (obs, state, starts) = ([0.0; 12], [0.0; 12], [false; 6]);
    let plain = Input::new(ObsRef::F32(&obs), 6);
    let with = |state, starts| plain.with_memory(Memory { state, starts });
    let refusal = |input: Input<'_>, state_len| input.check(&shape(state_len)).unwrap_err().to_string();

    assert!(plain.check(&shape(0)).is_ok());
    for columns in [1, 2, 3, 6] {
        assert!(with(&state[..columns * 2], &starts).check(&shape(2)).is_ok(), "{columns} columns");
    }
    assert!(refusal(plain, 4).contains("has no state"));
    assert!(refusal(with(&state, &starts), 0).contains("leave it out"));
    assert!(refusal(with(&state[..7], &starts), 4).contains("7 numbers"));
    assert!(refusal(with(&state[..8], &starts), 2).contains("6 rows are not a whole number of steps of 4 columns"));
    assert!(refusal(with(&[], &starts), 2).contains("0 columns"));
    assert_eq!(refusal(with(&state, &starts[1..]), 2), "starts of episodes: expected 6 numbers, got 5");
}

#[test]
fn no_rows_may_have_any_number_of_columns() {
    for columns in [0, 3] {
        let state = vec![0.0; columns * 2];
        let input = Input::new(ObsRef::F32(&[]), 0).with_memory(Memory { state: &state, starts: &[] });
        assert!(input.check(&shape(2)).is_ok());
    }
}

#[test]
fn outputs_get_the_lengths_of_their_input() {
    let (obs, state, starts) = ([0.0; 12], [0.0; 8], [false; 6]);
    let input = Input::new(ObsRef::F32(&obs), 6);
    let mut out = Outputs::default();
    out.resize_for(&input.with_memory(Memory { state: &state, starts: &starts }), &shape(4));
    assert_eq!((out.logits.len(), out.values.len(), out.state.len()), (18, 6, 8));
    out.resize_for(&input, &shape(0));
    assert_eq!((out.logits.len(), out.values.len(), out.state.len()), (18, 6, 0));
}
