//! Bytes that are no pixels.

use super::*;
use crate::{ObsRef, Policy};

/// Bytes with bounds of their own for each element: codes, a mask, dice, and a constant.
fn codes(shape: &[usize]) -> Space {
    let len = shape.iter().product();
    let each = |bounds: [f32; 4]| bounds.into_iter().cycle().take(len).collect();
    let (low, high) = (each([0.0, 0.0, 1.0, 7.0]), each([4.0, 1.0, 6.0, 7.0]));
    Space::Box { low, high, shape: shape.to_vec(), dtype: ObsDtype::U8 }
}

/// The same observations as numbers from 0 to 1.
fn unit(obs: &Space, bytes: &[u8]) -> (Space, Vec<f32>) {
    let Space::Box { low, high, shape, .. } = obs else { unreachable!("a box") };
    let bounds = low.iter().zip(high).cycle();
    let scaled =
        bytes.iter().zip(bounds).map(|(&byte, (low, high))| (f32::from(byte) - low) * (1.0 / (high - low).max(1.0)));
    (Space::boxed(vec![0.0; low.len()], vec![1.0; low.len()], shape.clone()).unwrap(), scaled.collect())
}

fn networks() -> [NetworkSpec; 4] {
    let mlp = Encoder::Mlp { hidden: vec![9], activation: Activation::Tanh };
    let impala = Encoder::ImpalaCnn { channels: vec![3, 4], hidden: 5 };
    [
        spec(codes(&[6]), mlp.clone(), None, Torso::Shared),
        spec(codes(&[2, 3]), mlp, Some(4), Torso::Separate),
        spec(codes(&[2, 9, 6]), impala, None, Torso::Shared),
        spec(codes(&[2, 36, 40]), Encoder::NatureCnn { hidden: 5 }, None, Torso::Shared),
    ]
}

#[test]
fn bytes_are_read_by_their_bounds_from_0_to_1() {
    for spec in networks() {
        networks_agree(&spec, 2, 3, 5);
        if spec.lstm.is_some() {
            continue;
        }
        let params = random_params(&spec, 1);
        let bytes: Vec<u8> = (0..2 * spec.obs.obs_len()).map(|i| [4, 1, 3, 7, 0, 0, 6, 7, 2][i % 9]).collect();
        let (obs, numbers) = unit(&spec.obs, &bytes);
        let values = |spec: &NetworkSpec, obs| {
            let mut out = Outputs::default();
            CpuNetwork::new(spec).unwrap().forward(&params, &Input::new(obs, 2), &mut out).unwrap();
            (out.logits, out.values)
        };
        let as_numbers = values(&NetworkSpec { obs, ..spec.clone() }, ObsRef::F32(&numbers));
        assert_eq!(values(&spec, ObsRef::U8(&bytes)), as_numbers);
        let as_pixels = values(&NetworkSpec { obs: spec.obs.as_pixels(), ..spec.clone() }, ObsRef::U8(&bytes));
        assert_ne!(as_pixels, as_numbers);
    }
}

#[test]
fn a_policy_that_was_saved_before_still_reads_bytes_as_pixels() {
    let action = Space::discrete(5).unwrap();
    let [spec, ..] = networks();
    let values = |spec: &NetworkSpec| {
        let mut policy = Policy::new(spec.clone(), random_params(spec, 1), &action).unwrap();
        let mut actions = [0];
        let choice = &mut crate::ActionSelection::Mode;
        policy.act(ObsRef::U8(&[4, 1, 6, 7, 2, 0]), 1, choice, crate::ActionsMut::Discrete(&mut actions)).unwrap();
        policy.values().to_vec()
    };
    let mut saved = serde_json::to_value(&spec).unwrap();
    let read = |saved: &serde_json::Value| serde_json::from_value::<NetworkSpec>(saved.clone()).unwrap();
    assert_eq!(read(&saved), spec);
    // All that a file of before lacks.
    assert_eq!(saved["obs"].as_object_mut().unwrap().remove("by_bounds"), Some(true.into()));
    let before = read(&saved);
    assert_eq!(before, NetworkSpec { obs: spec.obs.as_pixels(), ..spec.clone() });
    assert_ne!(values(&before), values(&spec));
    // It goes on as it is when it is saved again.
    assert_eq!(read(&serde_json::to_value(&before).unwrap()), before);
}

#[test]
fn only_bytes_that_are_no_pixels_are_marked_in_a_file() {
    let saved =
        |obs| serde_json::to_value(spec(obs, Encoder::nature_cnn(), None, Torso::Shared)).unwrap()["obs"].clone();
    for obs in [numbers(3), image(1, 36, 36), Space::discrete(4).unwrap()] {
        assert_eq!(saved(obs.clone()), serde_json::to_value(obs).unwrap());
    }
}
