#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{Activation, Encoder, Init, NetworkSpec, Torso};
use crate::Space;

fn spec() -> NetworkSpec {
    let observation = Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4]).unwrap();
    NetworkSpec::for_spaces(&observation, &Space::discrete(2).unwrap()).unwrap()
}

fn with_hidden(hidden: Vec<usize>) -> NetworkSpec {
    NetworkSpec { encoder: Encoder::Mlp { hidden, activation: Activation::Relu }, ..spec() }
}

fn tensors(spec: &NetworkSpec) -> Vec<(String, Vec<usize>)> {
    let layout = spec.layout().unwrap();
    layout.entries().iter().map(|entry| (entry.name.clone(), entry.shape.clone())).collect()
}

#[test]
fn tensors_are_named_by_torso_layer_and_head() {
    let names = |spec: &NetworkSpec| tensors(spec).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
    assert_eq!(
        names(&spec()),
        "torso.0.weight torso.0.bias torso.1.weight torso.1.bias policy.weight policy.bias value.weight value.bias"
    );
    let separate = NetworkSpec { torso: Torso::Separate, ..with_hidden(vec![8]) };
    assert_eq!(
        tensors(&separate),
        [
            ("policy_torso.0.weight", vec![4, 8]),
            ("policy_torso.0.bias", vec![8]),
            ("value_torso.0.weight", vec![4, 8]),
            ("value_torso.0.bias", vec![8]),
            ("policy.weight", vec![8, 2]),
            ("policy.bias", vec![2]),
            ("value.weight", vec![8, 1]),
            ("value.bias", vec![1]),
        ]
        .map(|(name, shape)| (name.to_owned(), shape))
    );
    assert_eq!(names(&with_hidden(vec![])), "policy.weight policy.bias value.weight value.bias");
}

#[test]
fn a_network_that_cannot_be_built_is_refused_with_the_reason() {
    let refusal = |spec: NetworkSpec| spec.check().unwrap_err().to_string();
    assert!(refusal(with_hidden(vec![64, 0])).contains("hidden layer 1 has width 0"));
    assert!(refusal(with_hidden(vec![usize::MAX, 2])).contains("is a mistake"));
    assert!(refusal(NetworkSpec { dist_len: 0, ..spec() }).contains("dist_len is 0"));
    assert!(refusal(NetworkSpec { dist_len: usize::MAX, ..spec() }).contains("is a mistake"));
    assert!(refusal(NetworkSpec { obs: Space::Discrete { n: 0 }, ..spec() }).contains("at least one thing"));
    let continuous = Space::boxed(vec![-1.0], vec![1.0], vec![1]).unwrap();
    assert!(NetworkSpec::for_spaces(&continuous, &continuous).unwrap_err().to_string().contains("Box"));
}

#[test]
fn a_spec_survives_json_and_unknown_fields_are_refused() {
    let spec = NetworkSpec { torso: Torso::Separate, init: Init::Xavier, ..with_hidden(vec![3]) };
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<NetworkSpec>(&text).unwrap(), spec);
    let unknown = text.replacen("\"init\"", "\"initial\"", 1);
    assert!(serde_json::from_str::<NetworkSpec>(&unknown).is_err());
}
